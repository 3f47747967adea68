/** Reading a baseline: which level to compare with, and what the comparison says. */
import type { Baseline, BaselineCell, BaselineLevel, BaselineStatus, Slos, Snapshot } from "../api/types";
import { duration } from "./format";
import { improvement } from "./slo";

export const RR = "round-robin";
export const KV = "kv";

export const cellOf = (level: BaselineLevel | undefined, mode: string): BaselineCell | null =>
  level?.cells.find((cell) => cell.mode === mode) ?? null;

export type Match = { level: BaselineLevel; exact: boolean };

/** The level nearest to `concurrency`; of two as near, the lower. */
export function matchLevel(baseline: Baseline | null, concurrency: number | null): Match | null {
  if (!baseline || concurrency === null) return null;
  const distance = (level: BaselineLevel) => Math.abs(level.concurrency - concurrency);
  const [nearest] = [...baseline.levels].sort((one, other) => distance(one) - distance(other) || one.concurrency - other.concurrency);
  return nearest ? { level: nearest, exact: nearest.concurrency === concurrency } : null;
}

/** What live load is compared by: its setting, or how many there are where nobody sets it. */
export function comparedConcurrency(load: Snapshot | null): number | null {
  if (!load) return null;
  return load.settings.arrivals_per_second === null ? load.settings.concurrency : load.conversations.active;
}

/** The level to hold live load against. Where nobody sets the number, no level is exact. */
export function liveMatch(baseline: Baseline | null, load: Snapshot | null): Match | null {
  const match = matchLevel(baseline, comparedConcurrency(load));
  return match && { ...match, exact: match.exact && load?.settings.arrivals_per_second === null };
}

/** Such as `4.2× faster`, `12 % slower` or `the same`. */
export function difference(rr: number | null | undefined, live: number | null | undefined): { text: string; better: boolean | null } | null {
  const gain = improvement(rr, live);
  if (gain === null || !rr || !live) return null;
  if (Math.abs(gain) < 1) return { text: "the same", better: null };
  const [ratio, word] = gain > 0 ? [rr / live, "faster"] : [live / rr, "slower"];
  return { text: ratio >= 2 ? `${ratio.toFixed(1)}× ${word}` : `${Math.abs(gain).toFixed(0)} % ${word}`, better: gain > 0 };
}

/** Whether its clock jumped from event to event: no jitter, no machine that is in the way. */
export const inVirtualTime = (baseline: Baseline): boolean => baseline.run_id.startsWith("virtual-");

/** One line that names what live figures are held against. */
export function describe(baseline: Baseline, match: Match): string {
  const level = match.exact ? `at ${match.level.concurrency} conversations` : `at the nearest level ${match.level.concurrency}, not exact`;
  const how = baseline.simulated ? `simulated${inVirtualTime(baseline) ? " in virtual time" : ""}` : "measured";
  return `Baseline: round robin ${level}, ${how} before.`;
}

/** What it takes to make a baseline again. */
export const origin = (baseline: Baseline): Array<[string, string]> => [
  ["Measured", `${duration(baseline.window_s)} after ${duration(baseline.warmup_s)} of warm-up${baseline.repeats > 1 ? `, ${baseline.repeats} times; medians are shown` : ""}`],
  ["Profile", `${baseline.profile}, ${baseline.workers} workers`],
  ["Workload", `${baseline.workload}, seed ${baseline.seed}`],
  ["Computed", new Date(baseline.created_ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })],
  ["Run", `${baseline.run_id}, ${baseline.source}`],
];

/** Why there is no baseline to show; `null` if there is one. */
export function whyNone(status: BaselineStatus): string | null {
  switch (status.state) {
    case "ready":
      return null;
    case "none":
      return "No baseline: this server was started without one.";
    case "computing":
      return `The baseline is being computed: ${status.done} of ${status.total} runs done.`;
    case "failed":
      return `The baseline could not be computed: ${status.message}`;
  }
}

/** The highest level up to which every level keeps both objectives. */
export function capacity(baseline: Baseline, mode: string, slos: Slos): number | null {
  let highest: number | null = null;
  for (const level of [...baseline.levels].sort((one, other) => one.concurrency - other.concurrency)) {
    const cell = cellOf(level, mode);
    const [ttft, tpot] = [cell?.ttft_ms.p95 ?? null, cell?.tpot_ms.p95 ?? null];
    if (ttft === null || tpot === null || ttft >= slos.ttft_p95_ms || tpot >= slos.tpot_p95_ms) break;
    highest = level.concurrency;
  }
  return highest;
}

type Figure = "ttft_ms" | "tpot_ms";
type Levels = { ttft: number[]; tpot: number[] };

/** Whether a mode differs from round robin in a figure; `null` where there are not enough runs to say. */
export function certainty(level: BaselineLevel, mode: string, figure: string): string | null {
  if (level.cells[0]?.mode !== RR) return null;
  return cellOf(level, mode)?.verdicts[figure] ?? null;
}

/** Whether the baseline has enough runs to tell a difference from chance. */
export const isJudged = (baseline: Baseline, mode: string): boolean =>
  baseline.levels.some((level) => Object.keys(cellOf(level, mode)?.verdicts ?? {}).length > 0);

const levelsWhere = (baseline: Baseline, holds: (level: BaselineLevel, figure: Figure) => boolean): Levels => {
  const found = (figure: Figure) => baseline.levels.filter((level) => holds(level, figure)).map((level) => level.concurrency);
  return { ttft: found("ttft_ms"), tpot: found("tpot_ms") };
};

/** Levels at which a mode has the longer p95 of TTFT or TPOT, and not by what chance does as well. */
export const losses = (baseline: Baseline, mode: string): Levels =>
  levelsWhere(
    baseline,
    (level, figure) =>
      (improvement(cellOf(level, RR)?.[figure].p95, cellOf(level, mode)?.[figure].p95) ?? 0) < 0 && certainty(level, mode, `${figure}_p95`) !== "not-significant",
  );

/** Levels at which the two cannot be told apart. */
export const undecided = (baseline: Baseline, mode: string): Levels =>
  levelsWhere(baseline, (level, figure) => certainty(level, mode, `${figure}_p95`) === "not-significant");
