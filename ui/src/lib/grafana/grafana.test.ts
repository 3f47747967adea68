import { describe, expect, it } from "vitest";
import { drawnSeries, gridTimes, onGrid, readAnswer, reduce, seriesName } from "./answers";
import { axisOf, axisRange, inWords } from "./axes";
import { fieldColour, isColour, stepOf } from "./colours";
import { bandsOf, faded } from "./plot";
import { readDashboard } from "./read";
import type { TimeseriesPanel } from "./types";
import { format } from "./units";
import { choicesQuery, durationS, interpolate, valuesOf, windowOf } from "./variables";

const legend = { displayMode: "list", placement: "bottom", showLegend: true, calcs: [] };
const board = (panel: object, list: object[] = []) =>
  readDashboard({ uid: "u", title: "t", time: { from: "now-30m", to: "now" }, templating: { list }, panels: [{ id: 1, type: "timeseries", title: "T", options: { legend }, ...panel }] });
const panelOf = (fieldConfig: object, targets: object[]): TimeseriesPanel => {
  const [first] = board({ fieldConfig, targets }).sections[0]?.panels ?? [];
  if (first?.type !== "timeseries") throw new Error("not a panel of lines");
  return first;
};
const answer = (...rows: Array<[labels: object, ...points: Array<[number, string]>]>) =>
  readAnswer({ status: "success", data: { resultType: "matrix", result: rows.map(([metric, ...values]) => ({ metric, values })) } });

describe("units", () => {
  it.each([
    [0.6, "s", null, "600 ms"], [0.0123, "s", null, "12.3 ms"], [0, "s", null, "0 s"], [90, "s", null, "1.5 min"], [0.0000042, "s", null, "4.2 µs"], [0.6, "s", 2, "600.00 ms"],
    [600, "ms", null, "600 ms"], [1500, "ms", 1, "1.5 s"], [0.724, "percentunit", 1, "72.4%"], [1, "percentunit", null, "100%"], [72.4, "percent", 0, "72%"],
    [3.0834, "reqps", 2, "3.08 req/s"], [12_300, "reqps", null, "12.3 K req/s"], [2511.4, "none", 0, "2,511"], [1234.5, "none", null, "1,235"], [0.25, "none", null, "0.25"],
    [1234, "short", null, "1.23 K"], [25, "short", null, "25"], [2_500_000, "short", null, "2.5 Mil"], [15, "ops", null, "15 ops/s"], [2048, "bytes", null, "2 KiB"], [-0.25, "s", null, "-250 ms"],
    [null, "s", 2, "—"], [Number.NaN, "none", null, "—"],
  ] as const)("%s %s with %s decimals is %s", (value, unit, decimals, text) => {
    expect(format(value, unit, decimals)).toBe(text);
  });
});

describe("variables", () => {
  const list = [
    { name: "datasource", type: "datasource", query: "prometheus" },
    { name: "limit", type: "constant", query: "NaN" },
    { name: "worker", type: "query", label: "Worker", query: { query: 'label_values(steps{job=~"$job"}, worker_id)' }, allValue: ".*" },
  ];
  const read = board({ targets: [] }, list);
  const window = windowOf(1_800_000_003, 1800);

  it("stand in for their names", () => {
    const all = valuesOf(read, new Map());
    expect(interpolate('a{w=~"$worker"} > $limit or ${limit}', all, window)).toBe('a{w=~".*"} > NaN or NaN');
    expect(interpolate("rate(a[$__rate_interval]) b[$__interval] c[$__range] $other", all, window)).toBe("rate(a[20s]) b[10s] c[1800s] $other");
    const one = valuesOf(read, new Map([["worker", 'a.b"\\']]));
    expect(interpolate('w=~"$worker"', one, window)).toBe('w=~"a\\\\.b\\"\\\\\\\\"');
  });

  it("offer the values of a label", () => {
    const variable = read.variables[2];
    expect(variable?.kind === "labels" && choicesQuery(variable)).toBe('group by (worker_id) (steps{job=~"$job"})');
  });

  it("divide a range into steps that do not wander", () => {
    expect(window).toEqual({ start: 1_799_998_200, end: 1_800_000_000, step: 10 });
    expect(windowOf(1_800_000_009, 1800)).toEqual(window);
    expect(windowOf(1_800_000_000, 300).step).toBe(5);
    expect(windowOf(1_800_000_000, 21_600).step).toBe(120);
    expect(["5m", "90s", "2h", "x"].map(durationS)).toEqual([300, 90, 7200, null]);
  });
});

describe("answers", () => {
  const window = { start: 100, end: 130, step: 10 };

  it("stand on the window's grid, and nothing is drawn where there is no number", () => {
    const [row] = answer([{}, [100, "1"], [120, "NaN"], [130, "+Inf"], [140, "9"]]);
    expect(row && onGrid(row, window)).toEqual([1, null, null, null]);
    expect(gridTimes(window)).toEqual([100, 110, 120, 130]);
    expect(readAnswer({ data: { resultType: "scalar", result: [1, "5"] } })).toEqual([{ labels: {}, points: [[1, 5]] }]);
    expect(readAnswer({ data: { resultType: "vector", result: [{ metric: { a: "b" }, value: [1, "5"] }] } })).toEqual([{ labels: { a: "b" }, points: [[1, 5]] }]);
    expect(readAnswer("nonsense")).toEqual([]);
  });

  it("are named by the legend", () => {
    const [row] = answer([{ __name__: "up", pod: "worker-0" }]);
    const target = { refId: "A", expr: "sum(up)", legendFormat: null, instant: false };
    const name = (legendFormat: string | null) => row && seriesName(row, { ...target, legendFormat });
    expect([name("{{pod}} of {{ gone }}"), name("{{gone}}"), name(null)]).toEqual(["worker-0 of", 'up{pod="worker-0"}', 'up{pod="worker-0"}']);
    expect(seriesName({ labels: {}, points: [] }, target)).toBe("sum(up)");
  });

  it("become series: absent ones leave none, stacked ones stand on each other", () => {
    const defaults = { unit: "s", color: { mode: "palette-classic" }, custom: { stacking: { mode: "normal", group: "A" } } };
    const overrides = [{ matcher: { id: "byName", options: "spread" }, properties: [{ id: "custom.stacking", value: { mode: "none", group: "B" } }, { id: "displayName", value: "Spread" }] }];
    const panel = panelOf({ defaults, overrides }, [{ refId: "A", expr: "a", legendFormat: "{{w}}" }, { refId: "B", expr: "b", legendFormat: "spread" }]);
    const rows = answer([{ w: "0" }, [100, "1"], [110, "2"]], [{ w: "gone" }, [100, "NaN"]], [{ w: "1" }, [100, "4"]]);
    const series = drawnSeries(panel, [rows, answer([{}, [100, "9"]])], { ...window, end: 110 });
    expect(series.map(({ name, colour, values, heights }) => ({ name, colour, values, heights }))).toEqual([
      { name: "0", colour: "var(--worker-0)", values: [1, 2], heights: [1, 2] },
      { name: "1", colour: "var(--worker-1)", values: [4, null], heights: [5, null] },
      { name: "Spread", colour: "var(--worker-2)", values: [9, null], heights: [9, null] },
    ]);
    expect(bandsOf(series)).toEqual([[2, 1]]);
    expect(inWords("T", series, [])).toBe("T, latest: 0 2 s, 1 4 s, Spread 9 s.");
  });

  it("are reduced to one value", () => {
    const values = [3, null, 5, null];
    expect((["lastNotNull", "last", "mean", "min", "max", "sum"] as const).map((calc) => reduce(values, calc))).toEqual([5, null, 4, 3, 5, 8]);
    expect(reduce([null], "mean")).toBeNull();
  });
});

describe("colours", () => {
  it("are known by Grafana's names", () => {
    expect(["green", "light-blue", "semi-dark-red", "#a0b1c2", "transparent", "text"].every(isColour)).toBe(true);
    expect(isColour("mauve")).toBe(false);
    expect([faded("#102030", 50), faded("transparent", 50)]).toEqual(["#10203080", "transparent"]);
  });

  it("follow thresholds", () => {
    const { field } = panelOf({ defaults: { color: { mode: "thresholds" }, thresholds: { mode: "absolute", steps: [{ color: "green", value: null }, { color: "orange", value: 1 }] } } }, []);
    expect([0, 1, null].map((value) => fieldColour(field, 0, value))).toEqual(["var(--grafana-green)", "var(--grafana-orange)", "var(--text)"]);
    expect(stepOf(field.thresholds, -5)?.colour).toBe("green");
  });
});

describe("axes", () => {
  it("leave room and keep what the file says", () => {
    const axis = { side: "left", unit: "s", decimals: null, min: 0, max: null, softMax: 0.72 } as const;
    expect(axisRange(axis, 0.1, 0.3)).toEqual([0, 0.72]);
    expect(axisRange(axis, 0.1, 2)[1]).toBeGreaterThan(2);
    expect(axisRange(axis, 58, 60)[1]).toBeGreaterThan(63);
    expect(axisRange({ ...axis, max: 1, softMax: null }, 0.1, 0.3)).toEqual([0, 1]);
    expect(axisRange({ ...axis, min: null, softMax: null }, null, null)).toEqual([0, 1]);
    expect(axisOf([], "right")).toBeNull();
  });
});
