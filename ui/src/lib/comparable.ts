/**
 * What a live figure may be held against, and what keeps it from a verdict. A verdict needs enough
 * samples of its own row, a window in which nothing changed, the load that the baseline had,
 * and a machine that keeps up.
 */
import type { Baseline, BaselineCell, HistoryPoint, State, WindowFigures } from "../api/types";
import { cellOf, inVirtualTime, liveMatch, type Match, RR } from "./baseline";
import { changeWords, lastChange, measuredModes, type Pace, settlesIn, type Watch } from "./disturbance";
import { ms, number } from "./format";
import { staying } from "./workers";

/** A median of fewer is a matter of luck. */
export const ENOUGH_P50 = 20;
/** Five of them lie above their p95, so that one odd answer does not decide it. */
export const ENOUGH_P95 = 100;
/**
 * Between modes, a token's time differs by about a tenth. A load generator that is late by as much
 * of it (p95) measures this machine and not the routing.
 */
export const LAG_SHARE = 0.1;
/** Where no time between tokens is known. */
const LAG_MS = 5;
/** Real time adds up to 13 % to the p95 of ITL on an idle machine, and from 20 % on one that is busy with other things. */
const LATE_TOKENS = 0.2;

/** Later turns are counted with this one. */
const MOST_TURNS = 16;

/** What is known when a page is drawn. */
export type Scene = { state: State; points: readonly HistoryPoint[]; watch: Watch | null; baseline: Baseline | null };
export type RowKey = "ttft" | "tpot" | "itl" | "e2e" | "tops";
/** Why there is no verdict: in a word or two, and in a sentence. */
export type Doubt = { short: string; long: string };

export const matchOf = ({ baseline, state }: Scene): Match | null => liveMatch(baseline, state.load);
export const rrOf = (scene: Scene): BaselineCell | null => cellOf(matchOf(scene)?.level, RR);
const paceOf = (row: RowKey): Pace => (row === "ttft" ? "first-token" : "whole-answer");

export function lagLimit(window: WindowFigures, rr: BaselineCell | null): number {
  const token = rr?.itl_ms.p50 ?? window.itl_ms.p50;
  return token === null ? LAG_MS : LAG_SHARE * token;
}

/** This machine is late itself; `null` if it keeps up. */
export function lags({ state }: Scene, rr: BaselineCell | null): Doubt | null {
  const late = state.load?.window.dispatch_lag_ms.p95 ?? null;
  if (!state.load || late === null || late <= lagLimit(state.load.window, rr)) return null;
  return { short: "machine lags", long: `This machine lags: requests are sent ${ms(late)} late (p95), so figures say more about it than about routing.` };
}

/** The mode of now as it was in virtual time, at this level: what differs from it is the clock's. */
export function sameMode(scene: Scene): BaselineCell | null {
  const { state, points, baseline } = scene;
  const [match, mode] = [matchOf(scene), measuredModes(state, points).at(-1)];
  return baseline && inVirtualTime(baseline) && state.simulated && match?.exact && mode !== undefined ? cellOf(match.level, mode) : null;
}

/** Simulated engines wake up late for their steps: whole answers are stretched. */
function lateTokens(scene: Scene): Doubt | null {
  const [same, live] = [sameMode(scene)?.itl_ms.p95, scene.state.load?.window.itl_ms.p95];
  const late = same && live ? live / same - 1 : 0;
  if (late <= LATE_TOKENS) return null;
  return { short: "machine lags", long: `This machine lags: tokens come ${number(100 * late)} % later (ITL p95) than in the same mode in virtual time, so what counts whole answers is not judged.` };
}

/** Why a row's figures are not those of the load and the system as they are now. */
export function unsettled(scene: Scene, row: RowKey): Doubt | null {
  const { state, points, watch, baseline } = scene;
  const { load } = state;
  if (!load) return { short: "no load", long: "Started without a load generator, so there are no live values." };
  switch (load.phase) {
    case "stopped":
      return { short: "stopped", long: load.window.requests > 0 ? "Load is stopped: these figures are from before and fade away." : "Load is stopped: press Start to see live values." };
    case "waiting":
      return { short: "waiting", long: state.workers.length === 0 ? "No worker has joined yet: load begins with the first." : "Caches are being warmed: load begins after that." };
    case "paused":
      return { short: "paused", long: "Load is paused: the window empties." };
    case "draining":
      return { short: "ending", long: "Load is ending: waiting for running answers." };
    case "running":
  }
  const warmupS = baseline?.warmup_s ?? 0;
  const change = lastChange(state, points, watch);
  const leftS = change ? settlesIn(change, state, paceOf(row), warmupS) : 0;
  if (change && leftS > 0) return { short: `verdict in ${number(Math.ceil(leftS))} s`, long: changeWords(change, leftS, warmupS) };
  return null;
}

/** Why a row's figures are not ripe, whatever they are held against. */
export function unripe(scene: Scene, row: RowKey): Doubt | null {
  return unsettled(scene, row) ?? lags(scene, rrOf(scene)) ?? (paceOf(row) === "whole-answer" ? lateTokens(scene) : null);
}

/** Why live load is not what the baseline measured. */
export function unlike(scene: Scene): Doubt | null {
  const { state, points, baseline } = scene;
  const { load } = state;
  const match = matchOf(scene);
  if (!baseline || !match || !load) return null;
  if (load.settings.arrivals_per_second !== null) return { short: "other load", long: "Live conversations arrive at their own pace; the baseline keeps up a fixed number." };
  if (!match.exact) return { short: "other level", long: `The baseline has no level of ${number(load.settings.concurrency)}: the nearest, ${number(match.level.concurrency)}, is shown but not judged by.` };
  if (baseline.workers !== state.workers.length && state.workers.length > 0) {
    return { short: "other workers", long: `The baseline ran on ${number(baseline.workers)} workers, live are ${number(state.workers.length)}.` };
  }
  const turns = Math.max(0, ...(rrOf(scene)?.turns.map((each) => each.turn) ?? []));
  if (turns > 0 && Math.min(load.settings.turns.end, MOST_TURNS) !== turns) return { short: "other turns", long: `The baseline's conversations had up to ${number(turns)} turns, live have up to ${number(load.settings.turns.end)}.` };
  if (measuredModes(state, points).at(-1) === RR) return { short: "same mode", long: "Live is round robin too: expect no difference." };
  return null;
}

/** ITL is all jitter: one without it, or one that routing does not change, is nothing to be held against. */
export function itlDoubt({ baseline }: Scene, match: Match | null): Doubt | null {
  if (!baseline || !match) return null;
  if (inVirtualTime(baseline)) return { short: "not compared", long: "ITL is not compared: the baseline's virtual time has no jitter, live tokens arrive in real time." };
  const [rr, kv] = match.level.cells.map((cell) => cell.itl_ms.p95);
  const differ = rr && kv && Math.abs(rr - kv) > 0.01 * rr;
  return differ ? null : { short: "not compared", long: "ITL is not compared: at this level the baseline's modes do not differ in it." };
}

/** Simulated workers may be of another profile than the baseline's, and a part of the difference is theirs. */
function otherEngines({ baseline, state }: Scene): string | null {
  const engines = [...new Set(staying(state.workers).map((worker) => worker.engine))];
  if (!baseline?.simulated || !state.simulated || engines.every((engine) => engine === baseline.profile)) return null;
  return `The baseline ran on ${baseline.profile}, live workers are ${engines.join(", ")}: the difference is that of routing and engines together.`;
}

/** Everything to be said of the comparison, each once. */
export function caveats(scene: Scene): string[] {
  const { state } = scene;
  // What was measured before load stopped is judged by nothing, so it need not be alike.
  const doubts = [unripe(scene, "ttft") ?? unripe(scene, "e2e"), state.load?.phase === "running" ? unlike(scene) : null];
  const samples = state.load?.window.ttft_ms.samples ?? 0;
  const few = state.load?.phase === "running" && samples < ENOUGH_P95 && !doubts[0] ? `Few requests a minute (${number(samples)}): a p95 is judged from ${ENOUGH_P95}, a p50 from ${ENOUGH_P50}.` : null;
  return [...doubts.map((doubt) => doubt?.long ?? null), otherEngines(scene), few].filter((note) => note !== null);
}
