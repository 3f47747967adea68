/** Sums over workers. */
import type { Settings, WorkerState } from "../api/types";
import { number } from "./format";

export type Speculation = { drafts: number; drafted: number; accepted: number; acceptancePct: number; tokensPerStep: number };

/** `null` where nothing was drafted. A draft's step gives the accepted tokens and one more. */
export function speculation(workers: ReadonlyArray<Pick<WorkerState, "speculation">>): Speculation | null {
  const sum = (of: (worker: Pick<WorkerState, "speculation">) => number) => workers.reduce((total, worker) => total + of(worker), 0);
  const drafts = sum((worker) => worker.speculation.drafts);
  const drafted = sum((worker) => worker.speculation.drafted_tokens);
  const accepted = sum((worker) => worker.speculation.accepted_tokens);
  if (drafts === 0 || drafted === 0) return null;
  return { drafts, drafted, accepted, acceptancePct: (100 * accepted) / drafted, tokensPerStep: 1 + accepted / drafts };
}

export function sums(workers: ReadonlyArray<WorkerState>) {
  const sum = (of: (worker: WorkerState) => number) => workers.reduce((total, worker) => total + of(worker), 0);
  return {
    running: sum((worker) => worker.running),
    waiting: sum((worker) => worker.waiting),
    slots: sum((worker) => worker.slots),
    active: sum((worker) => worker.cache.active_blocks),
    cached: sum((worker) => worker.cache.cached_blocks),
    total: sum((worker) => worker.cache.total_blocks),
  };
}

const range = ({ start, end }: { start: number; end: number }) => (start === end ? number(start) : `${number(start)} to ${number(end)}`);

/** The load generator's settings in words. */
export function settingsWords(settings: Settings): string[] {
  const { think_time_s: think, arrivals_per_second: arrivals, max_requests_per_second: most } = settings;
  return [
    arrivals === null ? `${number(settings.concurrency)} conversations at once` : `${number(arrivals, 1)} conversations start per second`,
    `${range(settings.turns)} turns each`,
    think.end === 0 ? "no pause between turns" : `${range(think)} s between turns`,
    `answers of at most ${number(settings.max_tokens)} tokens`,
    ...(most === null ? [] : [`at most ${number(most, 1)} requests per second`]),
  ];
}
