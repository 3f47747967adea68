import { act, cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api } from "../../api/client";
import type { Snapshot } from "../../api/types";
import { aBaseline, aState, cell, figures, load, windowFigures, worker } from "../../quiet-fixtures";
import { PATIENCE_MS } from "../../lib/wish";
import { BenchmarkTable, verdict } from "./BenchmarkTable";
import { ComparisonTable } from "./ComparisonTable";
import { ConcurrencySlider, nearestLevel, REST_MS } from "./ConcurrencySlider";
import { Infrastructure } from "./Infrastructure";
import { LivePanel } from "./LivePanel";

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const at = (concurrency: number): Snapshot => load({ settings: { ...load().settings, concurrency } });
const slider = (concurrency: number, granted = true) => {
  const state = aState({ load: at(concurrency), control: { token_required: true, granted } });
  return <ConcurrencySlider connection="open" state={state} load={at(concurrency)} />;
};
const range = () => screen.getByRole<HTMLInputElement>("slider");
const shown = () => screen.getByRole("status").textContent;

describe("the slider", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const drag = (value: number) => fireEvent.change(range(), { target: { value: String(value) } });
  const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

  it("shows at once and sends once, after a rest", async () => {
    const sent = vi.spyOn(api, "settings").mockResolvedValue(at(120));
    const { rerender } = render(slider(60));
    for (const level of [80, 100, 120]) {
      drag(level);
      await pass(REST_MS - 1);
    }
    expect(shown()).toBe("120");
    expect(sent).not.toHaveBeenCalled();
    await pass(1);
    expect(sent.mock.calls).toEqual([[{ concurrency: 120 }]]);
    rerender(slider(60));
    expect(shown()).toBe("120");
    rerender(slider(120));
    await pass(0);
    // From here on the server's value is shown, no matter who set it.
    rerender(slider(160));
    expect(shown()).toBe("160");
  });

  it("goes back when it is refused or nothing comes of it", async () => {
    const sent = vi.spyOn(api, "settings").mockRejectedValueOnce(new Error("no"));
    render(slider(60));
    drag(80);
    await pass(REST_MS);
    expect(shown()).toBe("60");
    sent.mockResolvedValue(at(60));
    drag(80);
    await pass(REST_MS);
    expect(shown()).toBe("80");
    await pass(PATIENCE_MS);
    expect(shown()).toBe("60");
  });

  it("shows a number off its grid, its thumb at the nearest level", () => {
    render(slider(75));
    expect([shown(), range().value]).toEqual(["75", "80"]);
    expect([10, 69, 500].map((level) => nearestLevel(level))).toEqual([60, 60, 180]);
  });

  it("is dead without control", () => {
    render(slider(60, false));
    expect(range().disabled).toBe(true);
  });
});

describe("the comparison", () => {
  const row = (name: string) => within(screen.getByText(name).closest("tr") ?? document.body).getAllByRole("cell").map((each) => each.textContent);
  const slos = { ttft_p95_ms: 600, tpot_p95_ms: 60 };

  it("has units, standings, differences and sample counts", () => {
    const window = windowFigures({ ttft_ms: figures(44.9, 131), tpot_ms: figures(50, 70), e2e_ms: figures(19_280, 24_530) });
    render(<ComparisonTable liveName="KV-aware" window={window} rr={cell("round-robin", 655, 48)} slos={slos} />);
    expect(row("TTFT")).toEqual(["44.9 ms", "164 ms", "131 ms, within the objective✓", "655 ms", "5.0x faster", "100"]);
    expect(row("TPOT")[2]).toBe("70.0 ms, misses the objective✕");
    expect(row("TPOT")[4]).toBe("46 % slower");
    expect(row("Latency").slice(0, 4)).toEqual(["19.28 s", "10.00 s", "24.53 s", "20.00 s"]);
    expect(row("ITL")).toEqual(["—", "48.0 ms", "—", "48.0 ms", "—", "—"]);
  });

  it("has dashes and a reason without a baseline", () => {
    render(<LivePanel connection="open" state={aState({ baseline: { state: "computing", done: 3, total: 14 } })} points={[]} fetched={{ baseline: null, error: null }} />);
    expect(row("TTFT")).toEqual(["—", "—", "—", "—", "—", "—"]);
    expect(screen.getByText(/3 of 14 runs done/)).toBeTruthy();
  });

  it("names its level and says when live is round robin too", () => {
    const state = aState({ router: { ...aState().router, mode: "round-robin" }, load: at(75) });
    render(<LivePanel connection="open" state={state} points={[]} fetched={{ baseline: aBaseline(), error: null }} />);
    expect(screen.getByText(/nearest level 80, not exact/)).toBeTruthy();
    expect(screen.getByText(/Live is round robin too/)).toBeTruthy();
  });
});

describe("the rest", () => {
  it("shows every level with losses, and marks where load is", () => {
    render(<BenchmarkTable state={aState({ load: at(80) })} fetched={{ baseline: aBaseline(), error: null }} />);
    const current = screen.getByText("now").closest("tr");
    expect(current?.textContent).toContain("−9.9 %, worse");
    expect(current?.textContent).toContain("+8.0 %");
    expect(verdict(aBaseline(), aState().slos)).toContain("up to 60 conversations with KV-aware routing, at no level with round robin. Here KV-aware routing was slower: TTFT at 80. Not enough runs to tell differences from chance: 1 run of each level.");
  });

  it("calls a difference a loss only where it is more than chance", () => {
    const judged = aBaseline();
    judged.repeats = 6;
    const [low, high] = judged.levels.map((level) => level.cells[1]);
    if (low) low.verdicts = { ttft_ms_p95: "better", tpot_ms_p95: "not-significant" };
    if (high) high.verdicts = { ttft_ms_p95: "worse", tpot_ms_p95: "better" };
    const told = verdict(judged, aState().slos);
    expect(told).toContain("Here KV-aware routing loses: TTFT at 80. Not significant: TPOT at 60. A positive");
    if (high) high.verdicts = { ttft_ms_p95: "not-significant", tpot_ms_p95: "better" };
    expect(verdict(judged, aState().slos)).not.toContain("loses");
    render(<BenchmarkTable state={aState({ load: at(80) })} fetched={{ baseline: judged, error: null }} />);
    expect(screen.getByText("now").closest("tr")?.textContent).toContain("−9.9 %, worse not significant");
  });

  it("shows workers, and a dash where Prometheus is away", () => {
    const workers = [worker(0, { draining: true }), worker(1, { utilization: null, memory_used_bytes: null })];
    render(<Infrastructure state={aState({ workers, gpu: { kind: "prometheus", url: "http://p", error: "refused" } })} />);
    expect(screen.getByText("Prometheus unavailable: refused")).toBeTruthy();
    expect(screen.getByText("draining")).toBeTruthy();
    expect(screen.getByText("— · — of 100 GB")).toBeTruthy();
  });
});
