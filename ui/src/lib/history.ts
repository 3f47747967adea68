/**
 * The last minutes, second by second: what the server kept, continued from each state.
 *
 * Pure: points go in, new lists come out. A hole in time stays a hole, so that no line is
 * drawn over seconds that nobody saw.
 */
import type { HistoryPoint, State } from "../api/types";

/** Fifteen minutes. */
export const KEPT = 900;
/** Two points nearer than this are the same second. */
const SAME_MS = 400;
/** Without a point for longer than this, a line breaks. */
export const HOLE_MS = 3_500;

export function pointOf(state: State): HistoryPoint {
  const window = state.load?.window;
  return {
    at_ms: state.at_ms,
    mode: state.router.mode,
    conversations: state.load?.conversations.active ?? 0,
    ttft_ms_p50: window?.ttft_ms.p50 ?? null,
    ttft_ms_p95: window?.ttft_ms.p95 ?? null,
    tpot_ms_p50: window?.tpot_ms.p50 ?? null,
    tpot_ms_p95: window?.tpot_ms.p95 ?? null,
    cached_pct: window?.cached_pct ?? null,
    rps: window?.rps ?? 0,
    tops: window?.tops ?? 0,
    queued: state.requests.queued,
    in_flight: state.workers.map((worker) => ({ worker: worker.id, in_flight: worker.in_flight })),
  };
}

/** `points` and one more, if it is newer. */
export function withPoint(points: readonly HistoryPoint[], point: HistoryPoint): readonly HistoryPoint[] {
  const last = points[points.length - 1];
  if (last && point.at_ms < last.at_ms + SAME_MS) return points;
  return [...points.slice(-(KEPT - 1)), point];
}

/** What the server kept, with what this page saw before and after it. */
export function merged(seen: readonly HistoryPoint[], kept: readonly HistoryPoint[]): readonly HistoryPoint[] {
  const [first, last] = [kept[0], kept[kept.length - 1]];
  if (!first || !last) return seen;
  const before = seen.filter((point) => point.at_ms <= first.at_ms - SAME_MS);
  const after = seen.filter((point) => point.at_ms >= last.at_ms + SAME_MS);
  return [...before, ...kept, ...after].slice(-KEPT);
}

/** Those of the last `spanMs` before the newest. */
export function latest(points: readonly HistoryPoint[], spanMs: number): readonly HistoryPoint[] {
  const newest = points[points.length - 1];
  return newest ? points.filter((point) => point.at_ms >= newest.at_ms - spanMs) : [];
}

export type ModeChange = { at_ms: number; from: string; to: string };

export function modeChanges(points: readonly HistoryPoint[]): ModeChange[] {
  return points.flatMap((point, index) => {
    const before = points[index - 1];
    return before && before.mode !== point.mode ? [{ at_ms: point.at_ms, from: before.mode, to: point.mode }] : [];
  });
}

/** Other modes than today's that routed conversations within the last `spanMs`. */
export function otherModes(points: readonly HistoryPoint[], mode: string, spanMs: number): string[] {
  const busy = latest(points, spanMs).filter((point) => point.conversations > 0 && point.mode !== mode);
  return [...new Set(busy.map((point) => point.mode))];
}

export type Columns = { times: number[]; values: Array<Array<number | null>> };

/** Columns for a chart, times in seconds; a hole gets a row of nothing. */
export function columns(points: readonly HistoryPoint[], pick: ReadonlyArray<(point: HistoryPoint) => number | null>): Columns {
  const times: number[] = [];
  const values: Array<Array<number | null>> = pick.map(() => []);
  points.forEach((point, index) => {
    const before = points[index - 1];
    if (before && point.at_ms - before.at_ms > HOLE_MS) {
      times.push((before.at_ms + 1) / 1000);
      for (const column of values) column.push(null);
    }
    times.push(point.at_ms / 1000);
    pick.forEach((of, column) => values[column]?.push(of(point)));
  });
  return { times, values };
}
