/** Router modes as people call them. */
import { MODES } from "../api/modes";
import type { RouterState } from "../api/types";

/** What the table of modes says; nothing of a mode that is another program's. */
export const modeSpec = (mode: string) => MODES.find((spec) => spec.name === mode);

export const modeName = (mode: string): string => (mode === "unknown" ? "target's own" : (modeSpec(mode)?.label ?? mode));

/** Whether it looks at caches. */
export const looksAtCaches = (mode: string): boolean => modeSpec(mode)?.reads_caches ?? false;

/** Whether the server is another program, known by its answers alone: it tells no modes. */
export const isElsewhere = (router: RouterState): boolean => router.modes.length === 0;

/** Ids of our own workers count from zero. Dynamo's are drawn from all 64 bits, and here the last ones are rounded away. */
const LARGEST_COUNTED = 2 ** 32;
const drawn = new Map<number, number>();

/** A worker's colour, the same on every page: a CSS variable of tokens.css. Drawn ids take the colours in turn, as they are first seen. */
export function workerColour(worker: number): string {
  if (worker < LARGEST_COUNTED) return `var(--worker-${worker % 8})`;
  if (!drawn.has(worker)) drawn.set(worker, drawn.size);
  return `var(--worker-${(drawn.get(worker) ?? 0) % 8})`;
}

/** A mode's colour in charts: the two that are compared have their own. */
export const modeColour = (mode: string): string => (mode === "kv" ? "var(--kv)" : mode === "round-robin" ? "var(--rr)" : "var(--muted)");
