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

/** A mode's colour in charts: the two that are compared have their own. */
export const modeColour = (mode: string): string => (mode === "kv" ? "var(--kv)" : mode === "round-robin" ? "var(--rr)" : "var(--muted)");
