/**
 * How series look: a panel's field configuration read, and overrides laid over it.
 *
 * Whatever is in the file and not understood is reported to `unknown`, so that a panel is never
 * quietly drawn as something else.
 */
import { isColour } from "./colours";
import { finite, type Json, list, object, oneOf, text } from "./json";
import { type Field, type Matcher, type Override, type Step, THRESHOLD_STYLES, UNITS } from "./types";

type Tell = (what: string) => void;

const DEFAULT: Field = {
  unit: "none", decimals: null, min: null, max: null, softMax: null, noValue: null, displayName: null,
  colour: { mode: "palette" }, thresholds: [], thresholdStyle: "off", axis: "left", lineWidth: 1, fillOpacity: 0, dash: null, stack: null,
};

/** What each property means, by its name in Grafana. */
const PROPERTIES: Record<string, (value: unknown, tell: Tell) => Partial<Field>> = {
  unit: (value, tell) => known("unit", value, oneOf(value, UNITS), tell, (unit) => ({ unit })),
  decimals: (value) => ({ decimals: finite(value) }),
  min: (value) => ({ min: finite(value) }),
  max: (value) => ({ max: finite(value) }),
  noValue: (value) => ({ noValue: text(value) }),
  displayName: (value) => ({ displayName: text(value) }),
  color: colour,
  thresholds: (value, tell) => {
    const { mode, steps } = object(value);
    if (mode !== "absolute") tell(`thresholds of mode ${JSON.stringify(mode)}`);
    return { thresholds: list(steps).map((step) => readStep(object(step), tell)) };
  },
  "custom.thresholdsStyle": (value, tell) => {
    const { mode } = object(value);
    return known("threshold style", mode, oneOf(mode, THRESHOLD_STYLES), tell, (thresholdStyle) => ({ thresholdStyle }));
  },
  "custom.axisPlacement": (value, tell) =>
    known("axis", value, oneOf(value, ["auto", "left", "right"]), tell, (axis) => ({ axis: axis === "right" ? "right" : "left" })),
  "custom.axisSoftMax": (value) => ({ softMax: finite(value) }),
  "custom.lineWidth": (value) => ({ lineWidth: finite(value) ?? 1 }),
  "custom.fillOpacity": (value) => ({ fillOpacity: finite(value) ?? 0 }),
  "custom.lineStyle": (value, tell) => {
    const { fill, dash } = object(value);
    const lengths = list(dash).flatMap((length) => finite(length) ?? []);
    return known("line style", fill, oneOf(fill, ["solid", "dash", "dot"]), tell, (style) => ({ dash: style === "solid" ? null : lengths.length > 0 ? lengths : [4, 4] }));
  },
  "custom.stacking": (value, tell) => {
    const { mode, group } = object(value);
    return known("stacking", mode, oneOf(mode, ["none", "normal"]), tell, (way) => ({ stack: way === "normal" ? (text(group) ?? "A") : null }));
  },
  // Drawn in one way only.
  "custom.drawStyle": only("line"),
  "custom.lineInterpolation": only("linear"),
  "custom.showPoints": only("never"),
  "custom.spanNulls": only(false),
};

function only(expected: unknown): (value: unknown, tell: Tell) => Partial<Field> {
  return (value, tell) => {
    if (value !== expected) tell(`${JSON.stringify(value)} instead of ${JSON.stringify(expected)}`);
    return {};
  };
}

function known<T>(what: string, value: unknown, found: T | null, tell: Tell, use: (found: T) => Partial<Field>): Partial<Field> {
  if (found !== null) return use(found);
  tell(`${what} ${JSON.stringify(value)}`);
  return {};
}

function colour(value: unknown, tell: Tell): Partial<Field> {
  const { mode, fixedColor } = object(value);
  if (mode === "thresholds") return { colour: { mode } };
  if (mode === "palette-classic") return { colour: { mode: "palette" } };
  const name = text(fixedColor);
  if (mode === "fixed" && name !== null && isColour(name)) return { colour: { mode, name } };
  tell(`colour ${JSON.stringify(value)}`);
  return {};
}

function readStep({ color, value }: Json, tell: Tell): Step {
  const name = text(color) ?? "";
  if (!isColour(name)) tell(`threshold colour ${JSON.stringify(color)}`);
  return { value: finite(value), colour: name };
}

function property(id: string, value: unknown, tell: Tell): Partial<Field> {
  const read = PROPERTIES[id];
  if (read) return read(value, (what) => tell(`${id}: ${what}`));
  tell(`property ${id}`);
  return {};
}

function matcher(value: unknown, tell: Tell): Matcher | null {
  const { id, options } = object(value);
  const wanted = text(options);
  if (wanted !== null && id === "byName") return { by: "name", value: wanted };
  if (wanted !== null && id === "byFrameRefID") return { by: "query", value: wanted };
  tell(`matcher ${JSON.stringify(value)}`);
  return null;
}

/** A panel's `fieldConfig`. */
export function readFields(config: unknown, tell: Tell): { field: Field; overrides: Override[] } {
  const { defaults, overrides } = object(config);
  const { custom, ...plain } = object(defaults);
  const named = [...Object.entries(plain), ...Object.entries(object(custom)).map(([id, value]) => [`custom.${id}`, value] as const)];
  const merged = (pairs: ReadonlyArray<readonly [string, unknown]>): Partial<Field> => Object.assign({}, ...pairs.map(([id, value]) => property(id, value, tell)));
  return {
    field: { ...DEFAULT, ...merged(named) },
    overrides: list(overrides).flatMap((each) => {
      const override = object(each);
      const found = matcher(override["matcher"], tell);
      const pairs = list(override["properties"]).map((pair) => [text(object(pair)["id"]) ?? "", object(pair)["value"]] as const);
      return found ? [{ matcher: found, change: merged(pairs) }] : [];
    }),
  };
}

/** For the series of a name that a query gave; later overrides win. */
export function resolve(field: Field, overrides: readonly Override[], name: string, refId: string): Field {
  const fitting = overrides.filter(({ matcher: { by, value } }) => value === (by === "name" ? name : refId));
  return Object.assign({}, field, ...fitting.map((override) => override.change)) as Field;
}
