/** The dashboards that are shipped: all that is in them is understood. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { resolve } from "./fields";
import { readDashboard } from "./read";
import type { DataPanel } from "./types";
import { interpolate, valuesOf, windowOf } from "./variables";
import { zonesOf } from "./axes";

const file = (name: string): unknown => JSON.parse(readFileSync(`${import.meta.dirname}/../../../../dashboards/grafana/${name}.json`, "utf8"));
const BOARDS = ["gtc-demo", "homing-router"] as const;
const panels = (name: string): DataPanel[] =>
  readDashboard(file(name)).sections.flatMap((section) => section.panels.flatMap((panel) => (panel.type === "other" ? [] : [panel])));
const panel = (name: string, title: string): DataPanel => {
  const found = panels(name).find((each) => each.title === title);
  if (!found) throw new Error(`no panel ${title}`);
  return found;
};

/** Every panel in the file, those in collapsed rows too. */
function count(json: unknown): number {
  const list = (json as { panels?: unknown[] }).panels ?? [];
  return list.reduce<number>((sum, each) => sum + ((each as { type: string }).type === "row" ? 0 : 1) + count(each), 0);
}

describe.each(BOARDS)("%s", (name) => {
  it("holds nothing unknown", () => {
    const board = readDashboard(file(name));
    expect(board.unknown).toEqual([]);
    expect([board.uid, board.rangeS, board.refreshS]).toEqual([name, 1800, 5]);
  });

  it("keeps every panel, on the grid", () => {
    const all = panels(name);
    expect(all).toHaveLength(count(file(name)));
    for (const { grid, title } of all) expect(grid.x + grid.w, title).toBeLessThanOrEqual(24);
    expect(new Set(all.map((each) => each.id)).size).toBe(all.length);
  });

  it("asks queries without a variable left in them", () => {
    const board = readDashboard(file(name));
    const values = valuesOf(board, new Map());
    for (const { targets, title } of panels(name)) {
      for (const { expr } of targets) expect(interpolate(expr, values, windowOf(1_800_000_000, 1800)), title).not.toContain("$");
    }
  });

  it("has overrides that find their series", () => {
    for (const { overrides, targets, title } of panels(name)) {
      for (const { matcher } of overrides) {
        const names = targets.map((target) => (matcher.by === "name" ? target.legendFormat : target.refId));
        expect(names, title).toContain(matcher.value);
      }
    }
  });
});

describe("what cannot be drawn", () => {
  type Loose = { panels: Array<{ id: number; type: string; fieldConfig: { defaults: { unit: string }; overrides: Array<{ matcher: { id: string }; properties: Array<{ id: string }> }> }; targets: Array<{ expr: string }> }> };
  const changed = (change: (board: Loose) => void): readonly string[] => {
    const board = file("gtc-demo") as Loose;
    change(board);
    return readDashboard(board).unknown;
  };
  const at = (board: Loose, index: number) => {
    const found = board.panels[index];
    if (!found) throw new Error("no such panel");
    return found;
  };

  it("is told", () => {
    expect(changed((board) => (at(board, 0).type = "gauge"))).toEqual(['panel 1: type "gauge"']);
    expect(changed((board) => (at(board, 0).fieldConfig.defaults.unit = "furlongs"))).toEqual(['panel 1: unit: unit "furlongs"']);
    expect(changed((board) => at(board, 4).fieldConfig.overrides.forEach((each) => (each.matcher.id = "byType")))[0]).toContain("panel 5: matcher");
    expect(changed((board) => at(board, 4).fieldConfig.overrides[0]?.properties.forEach((each) => (each.id = "links")))).toEqual(["panel 5: property links"]);
    expect(changed((board) => at(board, 0).targets.forEach((each) => (each.expr = "up{x=\"$who\"}")))).toEqual(["variable $who"]);
  });
});

describe("the walkthrough's panels", () => {
  it("are where it says", () => {
    const [top, ...rows] = readDashboard(file("gtc-demo")).sections;
    expect(top?.title).toBeNull();
    expect(top?.panels.slice(0, 4).map((each) => [each.type, each.title])).toEqual([["stat", "Request Rate"], ["stat", "Inflight"], ["stat", "Queued"], ["stat", "Output Tokens/s"]]);
    expect(rows[0]?.title).toBe("Per Worker Metrics");
  });

  it("show the objective as a red line and area, and load on the right axis", () => {
    const ttft = panel("gtc-demo", "TTFT p95 (SLO: 600ms)");
    expect(zonesOf(ttft.field)).toEqual([{ from: 0.6, to: null, colour: "var(--grafana-red)", line: "solid", area: true, label: "600 ms" }]);
    const of = (name: string, refId: string) => resolve(ttft.field, ttft.overrides, name, refId);
    expect(of("p95", "A")).toMatchObject({ colour: { mode: "fixed", name: "orange" }, axis: "left", unit: "s", dash: null });
    expect(of("Inflight", "B")).toMatchObject({ axis: "right", unit: "none", dash: [10, 10], lineWidth: 1, fillOpacity: 0, thresholdStyle: "off" });
    expect(of("Baseline", "Baseline")).toMatchObject({ dash: [2, 6], colour: { name: "text" } });
  });

  it("stack workers, and not what is drawn beside them", () => {
    expect(panel("gtc-demo", "Inflight Requests (per worker)").field.stack).toBe("A");
    expect(panel("homing-router", "Slots in Use").overrides.map((each) => each.change.stack)).toContain(null);
  });

  it("are collapsed where the file has them so", () => {
    const closed = readDashboard(file("homing-router")).sections.filter((section) => section.collapsed);
    expect(closed.map((section) => [section.title, section.panels.length])).toEqual([["Engine Steps", 3], ["Speculation", 5]]);
  });
});
