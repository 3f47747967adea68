/** Grafana's colours by name, as variables of tokens.css: theirs are for one background, ours for two. */
import type { Field, Step } from "./types";

const HUES = ["red", "orange", "yellow", "green", "blue", "purple"] as const;
const SHADES = ["super-light-", "light-", "semi-dark-", "dark-", ""] as const;

const NAMED = new Map<string, string>([
  ["text", "var(--text)"],
  ["transparent", "transparent"],
  ...HUES.flatMap((hue) => SHADES.map((shade) => [`${shade}${hue}`, `var(--grafana-${hue})`] as const)),
  // Beside blue it has to be another.
  ["light-blue", "var(--grafana-light-blue)"],
]);

export const isColour = (name: string): boolean => NAMED.has(name) || /^#[\da-f]{6}$/i.test(name);

/** A CSS colour. */
export const cssColour = (name: string): string => NAMED.get(name) ?? name;

/** How many there are in tokens.css; workers have them on every page. */
const PALETTE = 8;
export const paletteColour = (index: number): string => `var(--worker-${index % PALETTE})`;

/** The last step that a value has reached. */
export function stepOf(steps: readonly Step[], value: number | null): Step | null {
  if (value === null) return null;
  return steps.filter((step) => step.value === null || value >= step.value).at(-1) ?? null;
}

/** A series' colour; `value` is what decides where thresholds do. */
export function fieldColour(field: Field, index: number, value: number | null): string {
  switch (field.colour.mode) {
    case "fixed":
      return cssColour(field.colour.name);
    case "palette":
      return paletteColour(index);
    case "thresholds":
      return cssColour(stepOf(field.thresholds, value)?.colour ?? "text");
  }
}
