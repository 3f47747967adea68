// Grafana's published types, as JSON spells them.
//
// The types use enums, and no string of a JSON file is of an enum's type; `Spelled` turns
// each enum into the strings it stands for. Where a type leaves a panel's options and custom
// fields open, the panel's own types are set in.

import type * as schema from "@grafana/schema";
import type * as Stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as TimeSeries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

type Spelled<T> = T extends string
  ? `${T}`
  : T extends number | boolean | null | undefined
    ? T
    : T extends Array<infer Item>
      ? Spelled<Item>[]
      : T extends object
        ? { [Key in keyof T]: Spelled<T[Key]> }
        : T;

/** What a panel asks of Prometheus. The package has no types for it. */
type Target = {
  refId: string;
  datasource: { type: "prometheus"; uid: string };
  expr: string;
  legendFormat?: string;
  range: boolean;
  instant: boolean;
};

type Closed<Options, Custom> = {
  options: Options;
  targets: Target[];
  fieldConfig: {
    defaults: Omit<schema.FieldConfig, "custom"> & { custom?: Custom };
    overrides: schema.FieldConfigSource["overrides"];
  };
};

type PanelOf<Kind extends string, Options, Custom> = Spelled<
  Omit<schema.Panel, "type" | keyof Closed<Options, Custom>> & Closed<Options, Custom>
> & { type: Kind };

export type StatPanel = PanelOf<"stat", Stat.Options, never>;
export type TimeSeriesPanel = PanelOf<"timeseries", TimeSeries.Options, TimeSeries.FieldConfig>;
export type Row = Spelled<Omit<schema.RowPanel, "panels">> & { panels: [] };
export type Frame = Spelled<Omit<schema.Dashboard, "panels">>;

/** The types of what an override sets, by the name of the property. */
export type Property =
  | { id: "unit"; value: string }
  | { id: "color"; value: Spelled<schema.FieldColor> }
  | {
      [Key in keyof TimeSeries.FieldConfig & string]-?: {
        id: `custom.${Key}`;
        value: Spelled<NonNullable<TimeSeries.FieldConfig[Key]>>;
      };
    }[keyof TimeSeries.FieldConfig & string];
