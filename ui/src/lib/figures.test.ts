import { describe, expect, it } from "vitest";
import { matchLevel } from "./baseline";
import { resolveColour, timeRange, valueRange } from "./chart";
import { allFine, caveats, steady } from "./comparable";
import { failureKinds, failureNotice } from "./failure";
import { gpuSummary, heat, memoryPercent } from "./hardware";
import { kpis } from "./kpi";
import { aBaseline, aState, figures, load, point, windowFigures, worker } from "../quiet-fixtures";
import { inWords, ticks, turnLines } from "./turns";

const values = (state: Parameters<typeof kpis>[0]) => kpis(state).map((kpi) => kpi.value);

describe("key figures", () => {
  it("are dashes where nothing is known", () => {
    expect(values(null)).toEqual(["—", "—", "—", "—", "—", "—"]);
    expect(values(aState({ load: null }))).toEqual(["—", "—", "—", "—", "0", "—"]);
    expect(values(aState({ load: load({ phase: "stopped" }) }))).toEqual(["—", "—", "—", "—", "0", "—"]);
  });

  it("are numbers while load runs, and after it as long as they hold", () => {
    expect(values(aState())).toEqual(["0.00", "0", "0", "—", "0", "0"]);
    const ended = load({ phase: "stopped", window: windowFigures({ requests: 9, rps: 3.05, tops: 2581, cached_pct: 93.12 }) });
    ended.totals = { ...ended.totals, requests: 1789, failures: 4, failures_by_kind: { timeout: 3, connect: 1 } };
    expect(values(aState({ load: ended }))).toEqual(["3.05", "1,789", "2,581", "93.1 %", "0", "4"]);
    expect(kpis(aState({ load: ended }))[5]).toMatchObject({ alarm: true, detail: "3 timeout, 1 no connection" });
  });
});

describe("failures", () => {
  const failing = (ago_s: number, failures: number, kind = "connect") =>
    load({ last_failure: { failure: { kind, message: "connection refused" }, ago_s }, window: windowFigures({ failures }) });

  it("are told while recent or going on, in the server's words", () => {
    expect(failureNotice(null)).toBeNull();
    expect(failureNotice(load())).toBeNull();
    expect(failureNotice(failing(3, 1))?.text).toBe("Load cannot reach its target: connection refused. Retrying every second.");
    expect(failureNotice(failing(20, 1))).toBeNull();
    expect(failureNotice(failing(20, 5))).toMatchObject({ kind: "connect", count: 5 });
    expect(failureNotice({ ...failing(20, 5), phase: "stopped" })).toBeNull();
    expect(failureNotice(failing(1, 1, "new_kind"))?.text).toBe("Requests fail: connection refused.");
    expect(failureKinds({ timeout: 0 })).toBe("");
  });
});

describe("caveats", () => {
  it("are none for a full and steady window", () => {
    expect(caveats(aState(), [point(990_000), point(1_000_000)], null, aBaseline())).toEqual([]);
    expect(caveats(aState({ load: null }), [], null, null)).toEqual([]);
    expect(allFine(aState(), { concurrency: 60, before: null, sinceMs: 990_000 })).toBe("The window is full.");
    expect(allFine(aState(), { concurrency: 60, before: null, sinceMs: 900_000 })).toContain("neither mode nor load changed");
  });

  it("name what is not comparable", () => {
    expect(caveats(aState({ load: load({ running_s: 23.7 }) }), [], null, null)).toEqual(["The window is filling: 23 of 60 s."]);
    expect(caveats(aState(), [point(960_000, { mode: "round-robin" }), point(1_000_000)], null, null)).toEqual(["The window still holds requests routed by Round robin."]);
    const first = steady(null, aState({ at_ms: 900_000, load: load({ settings: { ...load().settings, concurrency: 80 } }) }));
    const changed = steady(first, aState({ at_ms: 988_000 }));
    expect(caveats(aState(), [], changed, { ...aBaseline(), workers: 5 })).toEqual([
      "The window still holds requests at 80 conversations (changed 12 s ago).",
      "The baseline ran on 5 workers, live are 2.",
    ]);
    expect(steady(changed, aState())).toBe(changed);
    const open = load({ settings: { ...load().settings, arrivals_per_second: 1.5 }, window: windowFigures({ ttft_ms: figures(40, 50, 12) }) });
    expect(caveats(aState({ load: open }), [], null, null)).toEqual([
      "Few requests so far: p95 is based on 12.",
      "Live conversations arrive at their own pace; the baseline keeps up a fixed number.",
    ]);
  });
});

describe("TTFT by turn", () => {
  it("has what was measured, then the baseline at its level", () => {
    const lines = turnLines([{ mode: "kv", turns: [{ turn: 1, ttft_ms_p50: 190, ttft_ms_p95: 700, samples: 5, cached_pct: 0 }] }], matchLevel(aBaseline(), 60), "p95");
    expect(lines.map((line) => [line.label, line.points.length])).toEqual([["KV-aware, live", 1], ["KV-aware, baseline", 1], ["Round robin, baseline", 1]]);
    expect(inWords(lines)).toContain("KV-aware, live: turn 1 700 ms.");
    expect(turnLines([], null, "p50")).toEqual([]);
    expect(ticks(390)).toEqual([0, 100, 200, 300, 400]);
    expect(ticks(9).length).toBeLessThan(7);
  });
});

describe("charts and hardware", () => {
  it("have room for the objective, and a whole span from the start", () => {
    const overlay = { span: 300, objective: { value: 600, label: "" }, marks: [], top: 100 };
    expect(valueRange(50, overlay)[1]).toBeGreaterThan(600);
    expect(valueRange(null, { ...overlay, objective: null })).toEqual([0, 100]);
    expect(valueRange(99, { ...overlay, objective: null, limit: 105 })).toEqual([0, 105]);
    expect(timeRange(1000, 300)).toEqual([700, 1000]);
    document.documentElement.style.setProperty("--kv", "#123456");
    expect(resolveColour("var(--kv)", getComputedStyle(document.documentElement))).toBe("#123456");
    expect(resolveColour("#fff", getComputedStyle(document.documentElement))).toBe("#fff");
  });

  it("say how hot a GPU is", () => {
    expect([null, 0.29, 0.3, 0.7, 0.71].map(heat)).toEqual(["unknown", "calm", "busy", "busy", "hot"]);
    expect(memoryPercent(worker(0))).toBe(80);
    expect(memoryPercent(worker(0, { memory_used_bytes: null }))).toBeNull();
    expect(gpuSummary([worker(0), worker(1)])).toBe("2 × NVIDIA H200");
  });
});
