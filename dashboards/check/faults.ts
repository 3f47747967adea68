// Faults that the types must find: the compiler complains here if one of them passes.

import type { Frame, Property, Row, StatPanel, TimeSeriesPanel } from "./types";

// @ts-expect-error a version is a number
({ schemaVersion: "39" }) satisfies Frame;
// @ts-expect-error no such key
({ schemaVersion: 39, colour: "red" }) satisfies Frame;
// @ts-expect-error no such kind of variable
({ schemaVersion: 39, templating: { list: [{ name: "a", type: "fixed" }] } }) satisfies Frame;
// @ts-expect-error an open row says so
({ id: 1, type: "row", panels: [] }) satisfies Row;

const targets: StatPanel["targets"] = [];
const legend = { displayMode: "list", placement: "bottom", showLegend: true, calcs: [] } as const;
const tooltip = { mode: "multi", sort: "desc" } as const;
const options: TimeSeriesPanel["options"] = { legend: { ...legend, calcs: [] }, tooltip };
const none: TimeSeriesPanel["fieldConfig"] = { defaults: {}, overrides: [] };

({ type: "timeseries", options, targets, fieldConfig: none }) satisfies TimeSeriesPanel;
// @ts-expect-error no such key
({ type: "timeseries", options, targets, fieldConfig: none, colour: "red" }) satisfies TimeSeriesPanel;
// @ts-expect-error the options of a stat are others
({ type: "stat", options, targets, fieldConfig: none }) satisfies StatPanel;
({
  type: "timeseries",
  // @ts-expect-error a legend is at the bottom or on the right
  options: { legend: { ...legend, calcs: [], placement: "under" }, tooltip },
  targets,
  fieldConfig: none,
}) satisfies TimeSeriesPanel;
({
  type: "timeseries",
  options,
  targets,
  fieldConfig: {
    // @ts-expect-error no such style
    defaults: { custom: { drawStyle: "lines" } },
    overrides: [],
  },
}) satisfies TimeSeriesPanel;
({
  type: "timeseries",
  options,
  targets,
  fieldConfig: {
    // @ts-expect-error no such mode
    defaults: { thresholds: { mode: "fixed", steps: [] } },
    overrides: [],
  },
}) satisfies TimeSeriesPanel;
({
  type: "timeseries",
  options,
  // @ts-expect-error no such key
  targets: [{ refId: "A", datasource: { type: "prometheus", uid: "a" }, expr: "1", range: true, instant: false, legend: "b" }],
  fieldConfig: none,
}) satisfies TimeSeriesPanel;

({ id: "custom.axisPlacement", value: "right" }) satisfies Property;
// @ts-expect-error no such place
({ id: "custom.axisPlacement", value: "east" }) satisfies Property;
// @ts-expect-error no such property
({ id: "custom.axis", value: "right" }) satisfies Property;
// @ts-expect-error no such line
({ id: "custom.lineStyle", value: { fill: "dashed" } }) satisfies Property;

export type Used = [Frame, Row, StatPanel];
