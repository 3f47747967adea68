/**
 * What the last minute is made of: under which modes its figures were measured, and what changed
 * last. A change shows in the figures until the window no longer reaches back to it.
 */
import type { HistoryPoint, Phase, Snapshot, State } from "../api/types";
import { duration, number } from "./format";
import { latest, modeChanges, pointOf, withPoint } from "./history";
import { modeName } from "./mode";
import { staying } from "./workers";

/** Live figures are of the last minute. */
export const WINDOW_S = 60;
/** Conversations this far from their setting are another load: a share, and more than one that ends as the next begins. */
const OFF_LEVEL = { share: 0.1, least: 2 };

export type Change = { kind: "start" | "mode" | "level" | "settings" | "resume" | "workers"; atMs: number; words: string };
/** What this page saw itself; the history tells neither settings nor pauses. */
export type Watch = { level: number; settings: string; phase: Phase; change: Change | null };

const settingsOf = (settings: Snapshot["settings"]): string => JSON.stringify({ ...settings, concurrency: 0 });

export function watch(previous: Watch | null, { load, at_ms: atMs }: State): Watch | null {
  if (!load) return null;
  const now = { level: load.settings.concurrency, settings: settingsOf(load.settings), phase: load.phase };
  if (!previous) return { ...now, change: null };
  if (previous.level !== now.level) return { ...now, change: { kind: "level", atMs, words: `at ${number(previous.level)} conversations` } };
  if (previous.settings !== now.settings) return { ...now, change: { kind: "settings", atMs, words: "with other settings" } };
  if (previous.phase === "paused" && now.phase === "running") return { ...now, change: { kind: "resume", atMs, words: "from before the pause" } };
  return previous.phase === now.phase ? previous : { ...previous, phase: now.phase };
}

const runBeganMs = (state: State, load: Snapshot): number => state.at_ms - 1000 * load.running_s;

/** Points of the run that the figures belong to, in which there was load. */
function busyPoints(state: State, points: readonly HistoryPoint[], spanMs: number): readonly HistoryPoint[] {
  const { load } = state;
  if (!load) return [];
  const since = runBeganMs(state, load);
  return latest(withPoint(points, pointOf(state)), spanMs).filter((point) => point.at_ms >= since && point.conversations > 0);
}

/** An answer is counted when it ends, so it may have been routed this long before the window. */
const longestMs = (load: Snapshot): number => load.window.e2e_ms.p95 ?? 0;

/** Modes under which requests of the window were routed, oldest first; none if this is not known. */
export function measuredModes(state: State, points: readonly HistoryPoint[]): string[] {
  const spanMs = 1000 * WINDOW_S + (state.load ? longestMs(state.load) : 0);
  return [...new Set(busyPoints(state, points, spanMs).map((point) => point.mode))];
}

/** Whose figures these are: the router's mode names what comes, not what was measured before. */
export function measuredUnder(state: State, points: readonly HistoryPoint[]): string {
  const modes = measuredModes(state, points);
  if (modes.length > 0) return modes.map(modeName).join(", then ");
  return state.load?.phase === "stopped" && state.load.window.requests > 0 ? "before Stop" : modeName(state.router.mode);
}

export const isOffLevel = (point: HistoryPoint, level: number): boolean => Math.abs(point.conversations - level) > Math.max(OFF_LEVEL.least, OFF_LEVEL.share * level);

/** When conversations were last another number than is set. Where they arrive by themselves, none is set. */
function offLevel(load: Snapshot, busy: readonly HistoryPoint[]): Change | null {
  const { concurrency, arrivals_per_second: arrivals } = load.settings;
  if (arrivals !== null) return null;
  const last = busy.findLast((point) => isOffLevel(point, concurrency));
  return last ? { kind: "level", atMs: last.at_ms, words: "at another level" } : null;
}

/** When other workers were there than those that stay: their answers are other engines', and where they went, caches began empty. */
function otherWorkers({ workers }: State, busy: readonly HistoryPoint[]): Change | null {
  const here = new Set(staying(workers).map(({ id }) => id));
  const last = busy.findLast(({ in_flight: there }) => there.length > 0 && (there.length !== here.size || there.some(({ worker }) => !here.has(worker))));
  return last ? { kind: "workers", atMs: last.at_ms, words: "from before workers joined or left" } : null;
}

/** The last change since load was started, or its start. */
export function lastChange(state: State, points: readonly HistoryPoint[], seen: Watch | null): Change | null {
  const { load } = state;
  if (!load) return null;
  const began = runBeganMs(state, load);
  const busy = busyPoints(state, points, Number.POSITIVE_INFINITY);
  const mode = modeChanges(busy).at(-1);
  const changes: Array<Change | null> = [
    { kind: "start", atMs: began, words: "after Start" },
    mode ? { kind: "mode", atMs: mode.at_ms, words: `routed by ${modeName(mode.from)}` } : null,
    // While conversations begin, their number is off anyway.
    offLevel(load, busy.filter((point) => point.at_ms >= began + 1000 * WINDOW_S)),
    otherWorkers(state, busy),
    seen?.change && seen.change.atMs > began ? seen.change : null,
  ];
  return changes.reduce((newest, change) => (change && (!newest || change.atMs > newest.atMs) ? change : newest), null);
}

export type Pace = "first-token" | "whole-answer";

/** After these, caches fill. */
const isCold = ({ kind }: Change): boolean => kind === "start" || kind === "workers";

/**
 * Seconds until no figure of this pace was touched by the change; 0 if none is any more. What
 * a baseline leaves out at its start is left out here too.
 */
export function settlesIn(change: Change, state: State, pace: Pace, warmupS: number): number {
  const { load } = state;
  if (!load) return 0;
  const longestS = (pace === "whole-answer" ? longestMs(load) : (load.window.ttft_ms.p95 ?? 0)) / 1000;
  const lead = isCold(change) ? Math.max(warmupS, longestS) : longestS;
  return Math.max(0, WINDOW_S + lead - (state.at_ms - change.atMs) / 1000);
}

/** Such as `The window still holds requests at 80 conversations (settled in 48 s).` */
export function changeWords(change: Change, leftS: number, warmupS: number): string {
  const left = duration(Math.ceil(leftS));
  const warm = isCold(change) && warmupS > 0 ? " Like the baseline, it leaves the time out in which caches fill." : "";
  const said = change.kind === "start" ? `Load has just started: full figures in ${left}.` : `The window still holds requests ${change.words} (another ${left}).`;
  return said + warm;
}
