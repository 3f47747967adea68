/** Template variables: what stands in for `$name`, `${name}` and Grafana's own in a query. */
import type { Dashboard, Variable } from "./types";

export type Window = {
  /** Unix seconds, a multiple of the step. */
  start: number;
  end: number;
  /** Seconds between points. */
  step: number;
};

/** How often the shipped configuration of Prometheus asks; the datasource of the same folder says it to Grafana. */
export const SCRAPE_S = 5;
/** Points of a line: about one for two pixels. */
const POINTS = 300;
const STEPS = [5, 10, 15, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600];

/** The last `rangeS` seconds before `nowS`. Ends stand on steps, so that points do not wander from one to the next. */
export function windowOf(nowS: number, rangeS: number): Window {
  const step = STEPS.find((each) => each >= rangeS / POINTS) ?? 3600;
  const end = Math.floor(nowS / step) * step;
  return { start: end - Math.floor(rangeS / step) * step, end, step };
}

const DURATION = /^(\d+)(s|m|h|d)$/;
const SECONDS_OF: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Such as `30m`, in seconds. */
export function durationS(text: string): number | null {
  const [, count, unit] = DURATION.exec(text) ?? [];
  return count && unit ? Number(count) * (SECONDS_OF[unit] ?? 1) : null;
}

/** Values of variables by name; what was chosen, or all. */
export type Values = ReadonlyMap<string, string>;

/** A label's value is matched as a pattern, in which some characters mean more than themselves, within quotes. */
const escaped = (value: string): string => value.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&").replace(/["\\]/g, "\\$&");

function valueOf(variable: Variable, chosen: ReadonlyMap<string, string>): string {
  switch (variable.kind) {
    case "constant":
      return variable.value;
    case "datasource":
      return "prometheus";
    case "labels": {
      const value = chosen.get(variable.name);
      return value === undefined ? variable.allValue : escaped(value);
    }
  }
}

export const valuesOf = (dashboard: Dashboard, chosen: ReadonlyMap<string, string>): Values =>
  new Map(dashboard.variables.map((variable) => [variable.name, valueOf(variable, chosen)]));

/** Grafana's own. A rate needs two points to be one, and a missed one is to be survived: four scrapes at least. */
function builtIn(window: Window): Map<string, string> {
  const range = window.end - window.start;
  return new Map([
    ["__interval", `${window.step}s`],
    ["__rate_interval", `${Math.max(window.step + SCRAPE_S, 4 * SCRAPE_S)}s`],
    ["__range", `${range}s`],
    ["__range_s", String(range)],
  ]);
}

/** The query that is asked. A variable that nobody knows stays as it is, and Prometheus will name it. */
export function interpolate(expr: string, values: Values, window: Window): string {
  const own = builtIn(window);
  return expr.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced: string | undefined, bare: string | undefined) => {
    const name = braced ?? bare ?? "";
    return values.get(name) ?? own.get(name) ?? whole;
  });
}

/** Variables in a query that nothing stands in for. */
export function unknownVariables(expr: string, dashboard: Dashboard): string[] {
  const filled = interpolate(expr, valuesOf(dashboard, new Map()), windowOf(0, dashboard.rangeS));
  return [...filled.matchAll(/\$\{?\w+\}?/g)].map(([name]) => name);
}

/** A query whose series carry each value of a label once: the console passes queries on and nothing else. */
export const choicesQuery = (variable: Variable & { kind: "labels" }): string => `group by (${variable.label}) (${variable.selector})`;
