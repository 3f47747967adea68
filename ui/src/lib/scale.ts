/**
 * The scale of the conversations' slider. What fits depends on the deployment: levels that were
 * measured are the most telling, then what the workers take at once, then what runs now.
 */
import type { Baseline, State } from "../api/types";

export type Scale = { least: number; most: number; step: number };

/** More marks than this are not read. */
const MOST_MARKS = 12;
/** Steps that people count in. */
const STEPS = [1, 2, 4, 5, 6, 8, 10, 12, 20, 25, 40, 50, 60, 100, 200, 250, 500, 1000, 2000, 5000] as const;
/** Below this share of what the workers take, load is small for other reasons than slots: it sets the scale itself. */
const SMALL_SHARE = 1 / 16;
/** Scales that end above this begin at a third, unless load is below: few conversations say little about many slots. */
const SHORT = 40;

const gcd = (one: number, other: number): number => (other === 0 ? one : gcd(other, one % other));
const isOn = ({ least, most }: Scale, target: number) => target >= least && target <= most;
const roundUp = (value: number, step: number) => step * Math.ceil(value / step);

/** Levels that a baseline has; `null` if they are no even scale. */
function ofLevels(baseline: Baseline | null): Scale | null {
  const levels = (baseline?.levels ?? []).map((level) => level.concurrency);
  const [least, most] = [Math.min(...levels), Math.max(...levels)];
  if (levels.length < 2 || least === most) return null;
  const step = levels.reduce((common, level) => gcd(common, level - least), 0);
  return (most - least) / step < MOST_MARKS ? { least, most, step } : null;
}

/** Up to what all workers take at once. */
function ofSlots(slots: number, target: number): Scale | null {
  if (slots < 2) return null;
  const isRead = (step: number) => Math.floor(slots / step) <= MOST_MARKS;
  const step = STEPS.findLast((step) => step <= slots / 8 && isRead(step)) ?? STEPS.find(isRead) ?? Math.ceil(slots / MOST_MARKS);
  const most = Math.max(2 * step, step * Math.floor(slots / step));
  const third = roundUp(most / 3, step);
  return { least: most > SHORT && target >= third ? third : step, most, step };
}

/** Around what runs now, which is one of the marks. */
function ofTarget(target: number): Scale {
  const step = target % 2 === 0 ? target / 2 : target;
  return { least: step, most: 6 * target, step };
}

/** `before` is the scale that a page shows already: it stays while it fits, so that a thumb does not move under a hand. */
export function scaleOf(state: Pick<State, "workers">, baseline: Baseline | null, target: number, before: Scale | null = null): Scale {
  if (before && isOn(before, target)) return before;
  const measured = ofLevels(baseline);
  if (measured && isOn(measured, target)) return measured;
  const slots = state.workers.reduce((sum, worker) => sum + worker.slots, 0);
  const whole = target >= slots * SMALL_SHARE ? ofSlots(slots, target) : null;
  return whole && isOn(whole, target) ? whole : ofTarget(Math.max(1, target));
}

/** All marks, and where the thumb stands: a server may run at any number. */
export const marks = ({ least, most, step }: Scale): number[] => Array.from({ length: Math.round((most - least) / step) + 1 }, (_, index) => least + index * step);
export const nearestMark = (target: number, { least, most, step }: Scale): number => Math.min(most, Math.max(least, least + step * Math.round((target - least) / step)));
