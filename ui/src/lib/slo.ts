/** How a latency stands to its objective. */

export type Standing = "good" | "near" | "missed" | "unknown";

/** At or above the objective it is missed; within its last tenth it is near. */
export function standing(value: number | null | undefined, objective: number): Standing {
  if (value === null || value === undefined) return "unknown";
  if (value >= objective) return "missed";
  return value >= 0.9 * objective ? "near" : "good";
}

/** By how many per cent `now` is less than `before`; negative if it is more. */
export function improvement(before: number | null | undefined, now: number | null | undefined): number | null {
  if (before === null || before === undefined || now === null || now === undefined || before === 0) return null;
  return (100 * (before - now)) / before;
}
