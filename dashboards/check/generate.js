// Writes every part of every dashboard as a TypeScript value of the type it should have.
//
// A JSON file that is imported has wide types ("absolute" is any string), and a list of
// panels is a union in which a wrong key can hide. So each part becomes a literal of its own,
// in which the compiler finds a wrong word and a wrong key alike.

import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";

const source = new URL("../grafana/", import.meta.url);
const target = new URL("generated/", import.meta.url);

const panelTypes = { row: "Row", stat: "StatPanel", timeseries: "TimeSeriesPanel" };

function generate(board) {
  const { panels, ...frame } = board;
  const lines = ['import type { Frame, Property, Row, StatPanel, TimeSeriesPanel } from "../types";'];
  const demand = (value, type) => lines.push(`(${JSON.stringify(value, null, 2)}) satisfies ${type};`);
  const panel = (value) => {
    const type = panelTypes[value.type];
    if (type === undefined) {
      throw new Error(`no type for panels of type ${value.type}`);
    }
    if (type === "Row") {
      value.panels.forEach(panel);
      return demand({ ...value, panels: [] }, type);
    }
    demand(value, type);
    for (const { properties } of value.fieldConfig.overrides) {
      properties.forEach((property) => demand(property, "Property"));
    }
  };
  demand(frame, "Frame");
  panels.forEach(panel);
  // The imports of a dashboard without a stat or a row would be unused, which is no fault.
  lines.push("export type Used = [Frame, Property, Row, StatPanel, TimeSeriesPanel];", "");
  return lines.join("\n");
}

rmSync(target, { recursive: true, force: true });
mkdirSync(target);
for (const file of readdirSync(source).filter((name) => name.endsWith(".json"))) {
  const text = generate(JSON.parse(readFileSync(new URL(file, source), "utf8")));
  writeFileSync(new URL(file.replace(".json", ".ts"), target), text);
}
