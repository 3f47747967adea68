/** Better or worse than round robin, said only where it can be said. */
import type { BaselineCell, BaselineFigures, Figures, WindowFigures } from "../api/types";
import { certainty, difference } from "./baseline";
import { type Doubt, ENOUGH_P50, ENOUGH_P95, itlDoubt, matchOf, type RowKey, rrOf, sameMode, type Scene, unlike, unripe } from "./comparable";
import { measuredModes } from "./disturbance";
import { number } from "./format";
import { improvement, type Standing, standing } from "./slo";

export type Latency = Exclude<RowKey, "tops">;
export type Verdict = { text: string; better: boolean | null; /** What it is about. */ of: "p50" | "p95" | "mean" };
export type Judged = { verdict: Verdict; doubt: null } | { verdict: null; doubt: Doubt | null };

const none = (doubt: Doubt | null): Judged => ({ verdict: null, doubt });

export const LIVE: Record<Latency, (window: WindowFigures) => Figures> = {
  ttft: (window) => window.ttft_ms,
  tpot: (window) => window.tpot_ms,
  itl: (window) => window.itl_ms,
  e2e: (window) => window.e2e_ms,
};
export const FIXED: Record<Latency, (cell: BaselineCell) => BaselineFigures> = {
  ttft: (cell) => cell.ttft_ms,
  tpot: (cell) => cell.tpot_ms,
  itl: (cell) => cell.itl_ms,
  e2e: (cell) => cell.e2e_ms,
};

/**
 * By how much real time stretches tokens: live against the same mode in virtual time. A loss of no
 * more than this is the clock's and not the routing's.
 */
function realTimeStretch(scene: Scene): number {
  const [same, live] = [sameMode(scene)?.tpot_ms.p50, scene.state.load?.window.tpot_ms.p50];
  return same && live ? Math.max(0, live / same - 1) : 0;
}

/** The sweep's name of a figure, by which it says whether modes differ in it. */
const SWEPT: Record<RowKey, string> = { ttft: "ttft_ms_p95", tpot: "tpot_ms_p95", itl: "itl_ms_p95", e2e: "e2e_s_p95", tops: "tops" };

/** What many runs of the sweep cannot tell from chance, one minute cannot either. */
function chance(scene: Scene, row: RowKey): Doubt | null {
  const level = matchOf(scene)?.level;
  const mode = measuredModes(scene.state, scene.points).at(-1);
  if (!level || mode === undefined || certainty(level, mode, SWEPT[row]) !== "not-significant") return null;
  return { short: "not significant", long: "At this level the sweep cannot tell the modes apart in this figure, and a minute has fewer samples." };
}

/** A latency against round robin's: by p95, or by p50 where there are too few samples for that. */
export function judged(scene: Scene, row: Latency): Judged {
  const [rr, window] = [rrOf(scene), scene.state.load?.window];
  const ours = window ? LIVE[row](window) : null;
  if (!rr || !ours || ours.p50 === null) return none(null);
  const doubt = unripe(scene, row) ?? unlike(scene) ?? (row === "itl" ? itlDoubt(scene, matchOf(scene)) : null) ?? chance(scene, row);
  if (doubt) return none(doubt);
  const samples = Math.min(ours.samples, rr.requests);
  if (samples < ENOUGH_P50) return none({ short: "few samples", long: `A verdict needs ${ENOUGH_P50} samples; there are ${number(samples)}.` });
  const of = samples >= ENOUGH_P95 ? "p95" : "p50";
  const [before, now] = [FIXED[row](rr)[of], ours[of]];
  const said = difference(before, now);
  if (!said) return none(null);
  const loss = -(improvement(before, now) ?? 0) / 100;
  if (row !== "ttft" && loss > 0 && loss <= realTimeStretch(scene)) {
    return none({ short: "no difference", long: "A loss as small as this machine's real time adds to every token: nothing to do with routing." });
  }
  return { verdict: { ...said, of }, doubt: null };
}

/** Output tokens per second against round robin's. */
export function judgedThroughput(scene: Scene): Judged {
  const [rr, window] = [rrOf(scene), scene.state.load?.window];
  if (!rr || !window || window.requests === 0) return none(null);
  const doubt = unripe(scene, "tops") ?? unlike(scene) ?? chance(scene, "tops");
  if (doubt) return none(doubt);
  if (window.requests < ENOUGH_P50) return none({ short: "few samples", long: `A verdict needs ${ENOUGH_P50} requests; there were ${number(window.requests)}.` });
  const more = more100(rr.tops, window.tops);
  return more === null ? none(null) : { verdict: { text: signed(more), better: Math.abs(more) < 1 ? null : more > 0, of: "mean" }, doubt: null };
}

/** How a live p95 stands to its objective, where it is ripe. */
export function liveStanding(scene: Scene, row: Latency, objective: number): Standing {
  const window = scene.state.load?.window;
  if (!window || LIVE[row](window).samples < ENOUGH_P95 || unripe(scene, row)) return "unknown";
  return standing(LIVE[row](window).p95, objective);
}

/** In per cent. */
export const more100 = (before: number | null | undefined, now: number | null | undefined): number | null =>
  before === null || before === undefined || now === null || now === undefined || before <= 0 ? null : (100 * (now - before)) / before;

/** Such as `+7 %`. */
export const signed = (value: number, digits: 0 | 1 = 0): string => {
  const text = number(Math.abs(value), digits);
  return Number(text) === 0 ? "±0 %" : `${value < 0 ? "−" : "+"}${text} %`;
};
