import { describe, expect, it } from "vitest";
import { matchLevel } from "./baseline";
import { resolveColour, timeRange, valueRange } from "./chart";
import { failureKinds, failureNotice } from "./failure";
import { gibibytes } from "./format";
import { gpuSummary, memoryPercent, room, work } from "./hardware";
import { kpis } from "./kpi";
import { aBaseline, aState, cell, load, windowFigures, worker } from "../quiet-fixtures";
import { inWords, ticks, turnLines } from "./turns";

const values = (state: Parameters<typeof kpis>[0]) => kpis(state).map((kpi) => kpi.value);

describe("key figures", () => {
  it("are dashes where nothing is known", () => {
    expect(values(null)).toEqual(["—", "—", "—", "—", "—", "—"]);
    expect(values(aState({ load: null }))).toEqual(["—", "—", "—", "—", "0", "—"]);
    expect(values(aState({ load: load({ phase: "stopped" }) }))).toEqual(["—", "—", "—", "—", "0", "—"]);
    expect(values(aState({ load: load({ phase: "waiting" }) }))).toEqual(["—", "—", "—", "—", "0", "—"]);
  });

  it("are numbers while load runs, and after it as long as they hold", () => {
    expect(values(aState())).toEqual(["0.00", "0", "0", "—", "0", "0"]);
    const ended = load({ phase: "stopped", window: windowFigures({ requests: 9, rps: 3.05, tops: 2581, cached_pct: 93.12 }) });
    ended.totals = { ...ended.totals, requests: 1789, failures: 4, failures_by_kind: { timeout: 3, connect: 1 } };
    expect(values(aState({ load: ended }))).toEqual(["3.05", "1,789", "2,581", "93.1 %", "0", "4"]);
    expect(kpis(aState({ load: ended }))[5]).toMatchObject({ alarm: true, detail: "3 timeout, 1 no connection" });
    expect(kpis(aState(), cell("round-robin", 655, 48)).map((kpi) => kpi.beside)).toEqual(["3.00", "", "2,000", "90.0 %", "", ""]);
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
    expect(failureNotice({ ...failing(20, 5), phase: "waiting" })).toBeNull();
    expect(failureNotice(failing(1, 1, "new_kind"))?.text).toBe("Requests fail: connection refused.");
    expect(failureKinds({ timeout: 0 })).toBe("");
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

  it("say whether an engine works and has room, and never more memory than was sold", () => {
    expect([null, 0, 0.05, 0.99].map(work)).toEqual(["unknown", "idle", "working", "working"]);
    const rooms = [[20, 0], [57, 0], [58, 3], [64, 0], [64, 2]].map(([running = 0, waiting = 0]) => room({ running, waiting, slots: 64 }));
    expect(rooms).toEqual(["free", "free", "nearly", "nearly", "full"]);
    expect(room({ running: 3, waiting: 1, slots: 0 })).toBe("free");
    expect([150.7e9, 85_520e6, null].map(gibibytes)).toEqual(["140 GiB", "79 GiB", "—"]);
    expect(memoryPercent(worker(0))).toBe(80);
    expect(memoryPercent(worker(0, { memory_used_bytes: null }))).toBeNull();
    expect(gpuSummary([worker(0), worker(1)])).toBe("2 × NVIDIA H200");
  });
});
