/**
 * What Prometheus answered, made into series to draw.
 *
 * Times stand on the window's own grid; where a series has no value there is `null`, and so
 * there is where the value is no number: a line ends there.
 */
import { fieldColour } from "./colours";
import { resolve } from "./fields";
import { finite, list, object, text } from "./json";
import type { Calc, DataPanel, Field, Target } from "./types";
import type { Window } from "./variables";

export type Labels = Readonly<Record<string, string>>;
/** A series as it came, its points as seconds and values. */
export type Row = { labels: Labels; points: ReadonlyArray<readonly [at: number, value: number | null]> };

/** The answer to either kind of query. */
export function readAnswer(json: unknown): Row[] {
  const { resultType, result } = object(object(json)["data"]);
  // A number without labels comes without the frame of a series.
  if (resultType === "scalar") return [{ labels: {}, points: [readPoint(result)] }];
  return list(result).map((each) => {
    const { metric, value, values } = object(each);
    const labels = Object.fromEntries(Object.entries(object(metric)).map(([name, of]) => [name, String(of)]));
    return { labels, points: value === undefined ? list(values).map(readPoint) : [readPoint(value)] };
  });
}

function readPoint(pair: unknown): readonly [number, number | null] {
  const [at, value] = list(pair);
  return [finite(at) ?? 0, finite(Number.parseFloat(text(value) ?? ""))];
}

/** What the legend calls a series. */
export function seriesName({ labels }: Row, { legendFormat, expr }: Target): string {
  const said = legendFormat?.replace(/\{\{\s*([^}\s]+)\s*\}\}/g, (_, name: string) => labels[name] ?? "").trim();
  if (said) return said;
  const { __name__: metric = "", ...others } = labels;
  const pairs = Object.entries(others).map(([name, value]) => `${name}="${value}"`);
  return pairs.length > 0 ? `${metric}{${pairs.join(", ")}}` : metric || expr;
}

/** Values on the grid; one more than steps, because both ends count. */
export function onGrid(row: Row, window: Window): Array<number | null> {
  const values: Array<number | null> = Array.from({ length: gridLength(window) }, () => null);
  for (const [at, value] of row.points) {
    const index = Math.round((at - window.start) / window.step);
    if (index >= 0 && index < values.length) values[index] = value;
  }
  return values;
}

const gridLength = ({ start, end, step }: Window) => Math.round((end - start) / step) + 1;
export const gridTimes = (window: Window): number[] => Array.from({ length: gridLength(window) }, (_, index) => window.start + index * window.step);

export type Drawn = {
  name: string;
  field: Field;
  /** A CSS colour, variables allowed. */
  colour: string;
  /** As measured. */
  values: Array<number | null>;
  /** Where the line runs: on top of those below it, if it is stacked. */
  heights: Array<number | null>;
};

/** All series of a panel, in the order of its queries. `answers` has an entry for each target. */
export function drawnSeries(panel: DataPanel, answers: ReadonlyArray<readonly Row[]>, window: Window): Drawn[] {
  const sums = new Map<string, number[]>();
  const rows = panel.targets.flatMap((target, index) => (answers[index] ?? []).map((row) => ({ row, target })));
  const alive = rows.filter(({ row }) => row.points.some(([, value]) => value !== null));
  return alive.map(({ row, target }, index) => {
    const said = seriesName(row, target);
    const field = resolve(panel.field, panel.overrides, said, target.refId);
    const values = target.instant ? row.points.map(([, value]) => value) : onGrid(row, window);
    const heights = field.stack === null ? values : stacked(values, sums, field.stack);
    const last = values.findLast((value) => value !== null) ?? null;
    return { name: field.displayName ?? said, field, colour: fieldColour(field, index, last), values, heights };
  });
}

function stacked(values: Array<number | null>, sums: Map<string, number[]>, group: string): Array<number | null> {
  const below = sums.get(group) ?? values.map(() => 0);
  const above = values.map((value, index) => (below[index] ?? 0) + (value ?? 0));
  sums.set(group, above);
  return values.map((value, index) => (value === null ? null : (above[index] ?? null)));
}

/** One value for many. */
export function reduce(values: ReadonlyArray<number | null>, calc: Calc): number | null {
  const there = values.filter((value) => value !== null);
  const sum = there.reduce((total, value) => total + value, 0);
  if (calc === "last") return values.at(-1) ?? null;
  if (there.length === 0) return null;
  switch (calc) {
    case "lastNotNull":
      return there.at(-1) ?? null;
    case "mean":
      return sum / there.length;
    case "sum":
      return sum;
    case "min":
      return there.reduce((least, value) => Math.min(least, value));
    case "max":
      return there.reduce((most, value) => Math.max(most, value));
  }
}
