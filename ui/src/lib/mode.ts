/** Router modes as people call them. */

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

/** A worker's colour, the same on every page: a CSS variable of tokens.css. */
export const workerColour = (worker: number): string => `var(--worker-${worker % 8})`;

/** A mode's colour in charts: the two that are compared have their own. */
export const modeColour = (mode: string): string => (mode === "kv" ? "var(--kv)" : mode === "round-robin" ? "var(--rr)" : "var(--muted)");
