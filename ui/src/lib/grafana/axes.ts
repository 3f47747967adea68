/** Where an axis begins and ends, and what is marked on it. */
import type { Drawn } from "./answers";
import { cssColour } from "./colours";
import { format } from "./units";
import type { Field, Unit } from "./types";

export type Side = Field["axis"];
export type Axis = { side: Side; unit: Unit; decimals: number | null; min: number | null; max: number | null; softMax: number | null };
/** A band of values, drawn as an area, as a line at its lower end, or both; `to` is `null` where it has no end. */
export type Zone = { from: number; to: number | null; colour: string; line: "solid" | "dashed" | null; area: boolean; label: string };

/** The axis of a side, by the first series that stands on it; `null` if none does. */
export function axisOf(series: readonly Drawn[], side: Side): Axis | null {
  const first = series.find((each) => each.field.axis === side)?.field;
  return first ? { side, unit: first.unit, decimals: first.decimals, min: first.min, max: first.max, softMax: first.softMax } : null;
}

/** What is seen of it; `low` and `high` are the values that are drawn. */
export function axisRange(axis: Axis, low: number | null, high: number | null): [number, number] {
  const [least, most] = [low ?? 0, high ?? 0];
  const room = 0.06 * (most - (axis.min ?? least) || Math.abs(most));
  const bottom = axis.min ?? (least >= 0 ? Math.max(0, least - room) : least - room);
  const top = axis.max ?? Math.max(axis.softMax ?? Number.NEGATIVE_INFINITY, most + room);
  return top > bottom ? [bottom, top] : [bottom, bottom + 1];
}

/** The thresholds that a panel shows on its left axis. */
export function zonesOf(field: Field): Zone[] {
  const style = field.thresholdStyle;
  if (style === "off") return [];
  const line = style.startsWith("dashed") ? "dashed" : style.startsWith("line") ? "solid" : null;
  return field.thresholds.flatMap((step, index) => {
    if (step.colour === "transparent" || step.value === null) return [];
    const to = field.thresholds[index + 1]?.value ?? null;
    return [{ from: step.value, to, colour: cssColour(step.colour), line, area: style.endsWith("area"), label: format(step.value, field.unit) }];
  });
}

/** For who does not see the chart. */
export function inWords(title: string, series: readonly Drawn[], zones: readonly Zone[]): string {
  const shown = series.slice(0, 8).map(({ name, values, field }) => `${name} ${format(values.findLast((value) => value !== null), field.unit, field.decimals)}`);
  const more = series.length > 8 ? ` and ${series.length - 8} more` : "";
  const marked = zones.map((zone) => ` Threshold at ${zone.label}.`).join("");
  return `${title}, latest: ${shown.join(", ") || "no data"}${more}.${marked}`;
}
