/** Reasons not to trust a comparison yet. Honest figures say when they are not ripe. */
import type { Baseline, HistoryPoint, State } from "../api/types";
import { duration } from "./format";
import { otherModes } from "./history";
import { modeName } from "./mode";

/** Figures are of the last minute. */
export const WINDOW_S = 60;
/** With fewer samples, p95 is just the largest. */
const ENOUGH = 20;

/** When the concurrency last changed, as far as this page saw. */
export type Steady = { concurrency: number; before: number | null; sinceMs: number };

export function steady(previous: Steady | null, state: State): Steady | null {
  const concurrency = state.load?.settings.concurrency;
  if (concurrency === undefined) return null;
  if (!previous) return { concurrency, before: null, sinceMs: state.at_ms };
  return previous.concurrency === concurrency ? previous : { concurrency, before: previous.concurrency, sinceMs: state.at_ms };
}

/** What may be said of a window without caveats: this page cannot vouch for what it did not see. */
export function allFine(state: State, settings: Steady | null): string {
  const watched = settings !== null && state.at_ms - settings.sinceMs >= WINDOW_S * 1000;
  return watched ? "The window is full, and neither mode nor load changed in it." : "The window is full.";
}

export function caveats(state: State, points: readonly HistoryPoint[], settings: Steady | null, baseline: Baseline | null): string[] {
  const load = state.load;
  if (!load || load.phase === "stopped") return [];
  const notes: string[] = [];
  const ran = Math.floor(load.running_s);
  if (ran < WINDOW_S) notes.push(`The window is filling: ${ran} of ${WINDOW_S} s.`);
  const others = otherModes(points, state.router.mode, WINDOW_S * 1000);
  if (others.length > 0) notes.push(`The window still holds requests routed by ${others.map(modeName).join(" and ")}.`);
  const settledS = settings ? (state.at_ms - settings.sinceMs) / 1000 : WINDOW_S;
  if (settings?.before && ran >= WINDOW_S && settledS < WINDOW_S) {
    notes.push(`The window still holds requests at ${settings.before} conversations (changed ${duration(settledS)} ago).`);
  }
  const samples = load.window.ttft_ms.samples;
  if (samples > 0 && samples < ENOUGH) notes.push(`Few requests so far: p95 is based on ${samples}.`);
  if (load.settings.arrivals_per_second !== null) notes.push("Live conversations arrive at their own pace; the baseline keeps up a fixed number.");
  if (load.phase === "paused") notes.push("Load is paused: the window empties.");
  if (load.phase === "draining") notes.push("Load is ending: waiting for running answers.");
  if (baseline && baseline.workers !== state.workers.length) {
    notes.push(`The baseline ran on ${baseline.workers} workers, live are ${state.workers.length}.`);
  }
  return notes;
}
