/**
 * Requests as they flow: which dots to send off after a look at the latest decisions, and how
 * many requests a second each worker got. A dot stands for one real request.
 */
import type { Decision } from "../api/types";

export type Flight = { number: number; worker: string; delayMs: number };
export type Seen = { worker: string; seenMs: number; /** Requests that it stands for: more than one where a look did not show all. */ weight: number };
export type Log = { newest: number | null; sinceMs: number; lookedMs: number; seen: Seen[] };

/** Looks are this far apart; dots of one look leave within it. */
export const LOOK_MS = 1000;
/** At most this many dots leave after one look, the latest ones. */
export const MOST_FLIGHTS = 16;
const LONGEST_PAUSE_MS = 4 * LOOK_MS;
/** Rates are over this long. */
export const HORIZON_MS = 20_000;

export const emptyLog = (nowMs: number): Log => ({ newest: null, sinceMs: nowMs, lookedMs: nowMs, seen: [] });

/**
 * What is new since the last look. The first look sends nothing: those requests are on their way
 * already. Neither does one after a pause (a page in the background does not look), or when
 * numbers begin anew with the server.
 */
export function look(log: Log, decisions: ReadonlyArray<Decision>, nowMs: number): { log: Log; flights: Flight[] } {
  const ordered = [...decisions].sort((one, other) => one.number - other.number);
  const last = ordered.at(-1);
  if (!last) return { log: { ...log, newest: log.newest ?? 0, lookedMs: nowMs }, flights: [] };
  if (log.newest === null || last.number < log.newest || nowMs - log.lookedMs > LONGEST_PAUSE_MS) {
    return { log: { newest: last.number, sinceMs: nowMs, lookedMs: nowMs, seen: [] }, flights: [] };
  }
  const { newest } = log;
  const fresh = ordered.filter((decision) => decision.number > newest);
  const weight = (last.number - newest) / Math.max(1, fresh.length);
  const seen = [
    ...log.seen.filter((one) => nowMs - one.seenMs < HORIZON_MS),
    ...fresh.map((decision) => ({ worker: decision.winner, seenMs: nowMs, weight })),
  ];
  return { log: { newest: last.number, sinceMs: log.sinceMs, lookedMs: nowMs, seen }, flights: spread(fresh.slice(-MOST_FLIGHTS)) };
}

/** In the rhythm in which they were decided, within one look. */
function spread(fresh: ReadonlyArray<Decision>): Flight[] {
  const first = fresh[0]?.at ?? 0;
  const length = 1000 * ((fresh.at(-1)?.at ?? 0) - first);
  const squeeze = Math.min(1, (0.9 * LOOK_MS) / Math.max(1, length));
  return fresh.map(({ number, winner, at }) => ({ number, worker: winner, delayMs: squeeze * 1000 * (at - first) }));
}

/** Requests a second placed on each worker; `null` while too little has been seen. */
export function rates(log: Log, nowMs: number): Map<string, number> | null {
  const spanMs = Math.min(HORIZON_MS, nowMs - log.sinceMs);
  if (log.newest === null || spanMs < 2 * LOOK_MS) return null;
  const counts = new Map<string, number>();
  for (const one of log.seen) {
    if (nowMs - one.seenMs < HORIZON_MS) counts.set(one.worker, (counts.get(one.worker) ?? 0) + (1000 * one.weight) / spanMs);
  }
  return counts;
}
