import { act, cleanup, fireEvent, render, screen, within } from "../../rendering";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api } from "../../api/client";
import type { Baseline, Snapshot, State } from "../../api/types";
import type { Scene } from "../../lib/comparable";
import { aBaseline, aState, figures, load, windowFigures, worker } from "../../quiet-fixtures";
import { PATIENCE_MS } from "../../lib/wish";
import { verdict } from "../../lib/levels";
import { BenchmarkTable } from "./BenchmarkTable";
import { ComparisonTable } from "./ComparisonTable";
import { ConcurrencySlider, REST_MS } from "./ConcurrencySlider";
import { Infrastructure } from "./Infrastructure";
import { KpiCards } from "./KpiCards";
import { LivePanel } from "./LivePanel";

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const at = (concurrency: number): Snapshot => load({ settings: { ...load().settings, concurrency } });
const slider = (concurrency: number, granted = true) => {
  const baseline = { ...aBaseline(), levels: [60, 80, 180].map((level) => ({ concurrency: level, cells: [] })) };
  const state = aState({ load: at(concurrency), control: { token_required: true, granted } });
  return <ConcurrencySlider connection="open" state={state} load={at(concurrency)} baseline={baseline} />;
};
const range = () => screen.getByRole<HTMLInputElement>("slider");
const shown = () => screen.getByRole("status").textContent;

describe("the slider", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const drag = (value: number) => fireEvent.input(range(), { target: { value: String(value) } });
  const pass = (ms: number) => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));

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
  });

  it("is dead without control", () => {
    render(slider(60, false));
    expect(range().disabled).toBe(true);
  });
});

describe("the comparison", () => {
  const row = (name: string) => within(screen.getByText(name).closest("tr") ?? document.body).getAllByRole("cell").map((each) => each.textContent);
  const sceneOf = (state: State, baseline: Baseline | null = aBaseline()): Scene => ({ state, points: [], watch: null, baseline });
  const panel = (state: State, baseline: Baseline | null = aBaseline()) => <LivePanel connection="open" scene={sceneOf(state, baseline)} fetched={{ baseline, error: null }} />;

  it("has units, standings, differences and sample counts", () => {
    const window = windowFigures({ requests: 100, tops: 2200, ttft_ms: figures(44.9, 131), tpot_ms: figures(50, 70), e2e_ms: figures(19_280, 24_530, 50) });
    render(<ComparisonTable scene={sceneOf(aState({ load: load({ running_s: 300, window }) }))} />);
    expect(row("TTFT")).toEqual(["44.9 ms", "112 ms", "164 ms", "131 ms, within the objective✓", "446 ms", "655 ms", "5.0× faster", "100"]);
    expect(row("TPOT")[3]).toBe("70.0 ms, misses the objective✕");
    expect(row("TPOT")[6]).toBe("46 % slower");
    expect(row("Latency")).toEqual(["19.28 s", "10.00 s", "10.00 s", "24.53 s", "20.00 s", "20.00 s", "93 % slower p50", "50"]);
    expect(row("ITL")).toEqual(["—", "44.0 ms", "48.0 ms", "—", "44.0 ms", "48.0 ms", "—", "—"]);
    expect(row("TOPS")).toEqual(["2,200", "2,000", "2,000", "", "", "", "+10 %", "100"]);
  });

  it("has dashes and a reason without a baseline", () => {
    render(panel(aState({ baseline: { state: "computing", done: 3, total: 14 } }), null));
    expect(row("TTFT")).toEqual(["—", "—", "—", "—", "—", "—", "—", "—"]);
    expect(row("TOPS")).toEqual(["—", "—", "—", "", "", "", "—", "—"]);
    expect(screen.getByText(/3 of 14 runs done/)).toBeTruthy();
  });

  it("names its level and says when live is round robin too", () => {
    const { unmount } = render(panel(aState({ load: at(75) })));
    expect(screen.getByText(/nearest level 80, not exact/)).toBeTruthy();
    unmount();
    render(panel(aState({ router: { ...aState().router, mode: "round-robin" }, load: at(60) })));
    expect(screen.getByText(/Live is round robin too/)).toBeTruthy();
  });
});

describe("the rest", () => {
  it("shows every level with losses, and marks where load is", () => {
    render(<BenchmarkTable state={aState({ load: at(80) })} fetched={{ baseline: aBaseline(), error: null }} />);
    const current = screen.getByText("now").closest("tr");
    expect(current?.textContent).toContain("−9.9 %, worse");
    expect(current?.textContent).toContain("+8.0 %");
    expect(verdict(aBaseline(), "kv", aState().slos)).toContain("up to 60 conversations with KV-aware routing, at no level with round robin. Here KV-aware routing was slower: TTFT at 80. Not enough runs to tell differences from chance: 1 run of each level.");
  });

  it("calls a difference a loss only where it is more than chance", () => {
    const judged = aBaseline();
    judged.repeats = 6;
    const [low, high] = judged.levels.map((level) => level.cells[1]);
    if (low) low.verdicts = { ttft_ms_p95: "better", tpot_ms_p95: "not-significant" };
    if (high) high.verdicts = { ttft_ms_p95: "worse", tpot_ms_p95: "better" };
    const told = verdict(judged, "kv", aState().slos);
    expect(told).toContain("Here KV-aware routing loses: TTFT at 80. Not significant: TPOT at 60.");
    if (high) high.verdicts = { ttft_ms_p95: "not-significant", tpot_ms_p95: "better" };
    expect(verdict(judged, "kv", aState().slos)).not.toContain("loses");
    render(<BenchmarkTable state={aState({ load: at(80) })} fetched={{ baseline: judged, error: null }} />);
    expect(screen.getByText("now").closest("tr")?.textContent).toContain("−9.9 %, worse n.s.: not significant");
  });

  it("shows what others published, marked as such", () => {
    render(<BenchmarkTable state={aState()} fetched={{ baseline: aBaseline(), error: null }} />);
    expect(screen.getByText("simulated")).toBeTruthy();
    fireEvent.click(screen.getByLabelText("Published"));
    expect(screen.getByText("measured and published by others")).toBeTruthy();
    expect(screen.queryByText("simulated")).toBeNull();
    expect(screen.getByText("655").closest("tr")?.textContent).toContain("446");
    fireEvent.click(screen.getByLabelText("KV-aware"));
  });

  it("answers questions at the figures", () => {
    render(<KpiCards scene={{ state: aState(), points: [], watch: null, baseline: aBaseline() }} />);
    expect(screen.getByRole("button", { name: "Why is RPS so low?" }).getAttribute("aria-describedby")).toBe(screen.getAllByRole("tooltip", { hidden: true })[0]?.id);
    expect(screen.getByText("RR 2,000")).toBeTruthy();
  });

  it("says why a worker's figures are not known, and what it serves where there are several models", () => {
    const models = [{ name: "small", mode: "kv", workers: 1 }, { name: "large", mode: "round-robin", workers: 2 }];
    const workers = [worker(0, { model: "large", unknown: "its engine reports none", utilization: null, memory_used_bytes: null })];
    render(<Infrastructure state={aState({ workers, models })} />);
    expect(screen.getByText("Not known: its engine reports none")).toBeTruthy();
    expect(screen.getByText("600 of 1,000")).toBeTruthy();
    expect(screen.getByText("serves large")).toBeTruthy();
    expect(screen.getByText(/small \(KV-aware, 1 worker\) · large \(Round robin, 2 workers\)/)).toBeTruthy();
  });

  it("leaves out GPUs whose kind nobody knows", () => {
    const gpu = { kind: "", count: 1, memory_bytes: 0 };
    render(<Infrastructure state={aState({ workers: [worker(0, { name: "homing-engine-0", engine: "vllm", gpu })] })} />);
    expect(screen.getByText("homing-engine-0, vllm")).toBeTruthy();
    expect(screen.queryByText(/×/)).toBeNull();
  });

  it("breaks no line within an option", () => {
    render(<Infrastructure state={aState({ workers: [worker(0, { unknown: "mocker does not report its GPU; --prometheus-url names a Prometheus" })] })} />);
    const option = screen.getByText("--prometheus-url");
    expect(option.className).toBe("option");
    expect(option.parentElement?.textContent).toBe("Not known: mocker does not report its GPU; --prometheus-url names a Prometheus");
  });

  it("shows workers, and a dash where Prometheus is away", () => {
    const workers = [worker(0, { draining: true }), worker(1, { utilization: null, memory_used_bytes: null })];
    render(<Infrastructure state={aState({ workers, gpu: { kind: "prometheus", url: "http://p", error: "refused" } })} />);
    expect(screen.getByText("Prometheus unavailable: refused")).toBeTruthy();
    expect(screen.getByText("draining")).toBeTruthy();
    expect(screen.getAllByText("80 % · 74 GiB of 93 GiB")).toHaveLength(1);
  });
});
