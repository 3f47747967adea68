/** Router modes as people call them. */
import type { RouterState } from "../api/types";

const NAMES: Record<string, string> = {
  kv: "KV-aware",
  "kv-blocks": "KV blocks",
  "round-robin": "Round robin",
  random: "Random",
  "least-loaded": "Least loaded",
  "power-of-two": "Power of two",
  unknown: "target's own",
};

export const modeName = (mode: string): string => NAMES[mode] ?? mode;

/** Whether it looks at caches. */
export const looksAtCaches = (mode: string): boolean => mode === "kv" || mode === "kv-blocks";

/** Whether the server is another program, known by its answers alone: it tells no modes. */
export const isElsewhere = (router: RouterState): boolean => router.modes.length === 0;

/** A worker's colour, the same on every page: a CSS variable of tokens.css. */
export const workerColour = (worker: number): string => `var(--worker-${worker % 8})`;

/** A mode's colour in charts: the two that are compared have their own. */
export const modeColour = (mode: string): string => (mode === "kv" ? "var(--kv)" : mode === "round-robin" ? "var(--rr)" : "var(--muted)");
