/** A Grafana dashboard, as far as it is drawn here: narrow types, made by `read.ts`. */

export const UNITS = ["none", "short", "s", "ms", "percent", "percentunit", "reqps", "ops", "bytes"] as const;
export type Unit = (typeof UNITS)[number];

export const CALCS = ["lastNotNull", "last", "mean", "min", "max", "sum"] as const;
export type Calc = (typeof CALCS)[number];

export const THRESHOLD_STYLES = ["off", "line", "dashed", "area", "line+area", "dashed+area"] as const;
export type ThresholdStyle = (typeof THRESHOLD_STYLES)[number];

/** In Grafana's units of a 24th of the width and 30 pixels. */
export type GridPos = { x: number; y: number; w: number; h: number };

/** From this value on; `null` is the lowest. */
export type Step = { value: number | null; colour: string };

/** How one series looks: what holds for the panel, with what holds for this series over it. */
export type Field = {
  unit: Unit;
  decimals: number | null;
  min: number | null;
  max: number | null;
  softMax: number | null;
  /** Shown in the place of a value that does not exist. */
  noValue: string | null;
  /** A name of its own, in the place of the legend's. */
  displayName: string | null;
  /** `thresholds`: by the value; `palette`: by its place among the series; else fixed. */
  colour: { mode: "thresholds" } | { mode: "palette" } | { mode: "fixed"; name: string };
  thresholds: readonly Step[];
  thresholdStyle: ThresholdStyle;
  axis: "left" | "right";
  lineWidth: number;
  /** 0 to 100. */
  fillOpacity: number;
  /** Lengths of dashes and gaps; `null` is a solid line. */
  dash: readonly number[] | null;
  /** Series of a group stand on each other; `null` stands alone. */
  stack: string | null;
};

export type Matcher = { by: "name" | "query"; value: string };
export type Override = { matcher: Matcher; change: Partial<Field> };

export type Target = {
  refId: string;
  expr: string;
  legendFormat: string | null;
  /** Asked for this moment alone, not over the range. */
  instant: boolean;
};

type Common = { id: number; title: string; description: string | null; grid: GridPos };
type Data = Common & { field: Field; overrides: readonly Override[]; targets: readonly Target[] };
export type StatPanel = Data & { type: "stat"; calc: Calc; sparkline: boolean; coloured: boolean };
export type TimeseriesPanel = Data & { type: "timeseries"; legend: boolean };
/** Only Grafana draws it. */
export type OtherPanel = Common & { type: "other"; kind: string };
export type Panel = StatPanel | TimeseriesPanel | OtherPanel;
export type DataPanel = StatPanel | TimeseriesPanel;

/** A row's heading and what belongs to it; panels before the first row have no heading. */
export type Section = { id: number; title: string | null; collapsed: boolean; panels: readonly Panel[] };

export type Variable =
  | { kind: "constant"; name: string; value: string }
  | { kind: "datasource"; name: string }
  /** Its values are those of a label: `label_values(selector, label)`. */
  | { kind: "labels"; name: string; label: string; selector: string; of: string; allValue: string };

export type Dashboard = {
  uid: string;
  title: string;
  description: string | null;
  /** Of the range that it shows, in seconds. */
  rangeS: number;
  /** `null`: not by itself. */
  refreshS: number | null;
  variables: readonly Variable[];
  sections: readonly Section[];
  /** What is in the file and not drawn, in words. A test holds this empty for our files. */
  unknown: readonly string[];
};
