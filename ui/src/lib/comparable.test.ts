import { describe, expect, it } from "vitest";
import type { State } from "../api/types";
import { aBaseline, aState, cell, figures, load, point, windowFigures, worker } from "../quiet-fixtures";
import { caveats, lagLimit, type Scene } from "./comparable";
import { lastChange, measuredModes, measuredUnder, watch } from "./disturbance";
import { judged, judgedThroughput, liveStanding } from "./verdict";

/** Full and ripe: 200 requests a minute, twice as quick as round robin. */
const ripe = windowFigures({
  requests: 200, tops: 2400, ttft_ms: figures(100, 300, 200), tpot_ms: figures(40, 44, 200), itl_ms: figures(44, 46, 9000), e2e_ms: figures(9_000, 18_000, 200), dispatch_lag_ms: figures(0.3, 0.5, 200),
});
type Change = { state?: Partial<State>; load?: Parameters<typeof load>[0]; scene?: Partial<Scene> };
const scene = ({ state, load: of, scene: more }: Change = {}): Scene => ({
  state: aState({ load: load({ running_s: 300, window: ripe, ...of }), ...state }), points: [], watch: null, baseline: aBaseline(), ...more,
});
const text = (one: Scene, row: "ttft" | "tpot" | "itl" | "e2e" = "ttft") => judged(one, row).verdict?.text ?? judged(one, row).doubt?.short ?? "—";
const ago = (seconds: number, change = {}) => point(1_000_000 - 1000 * seconds, change);

describe("a verdict", () => {
  it("is given on a full and steady window", () => {
    expect([text(scene()), text(scene(), "tpot"), text(scene(), "e2e")]).toEqual(["2.2× faster", "8 % faster", "10 % faster"]);
    expect(judgedThroughput(scene()).verdict).toEqual({ text: "+20 %", better: true, of: "mean" });
    expect([liveStanding(scene(), "ttft", 600), liveStanding(scene(), "tpot", 40)]).toEqual(["good", "missed"]);
    expect(caveats(scene())).toEqual([]);
  });

  it("needs samples of its own row: 100 for a p95, 20 for a p50", () => {
    const of = (samples: number) => scene({ load: { window: { ...ripe, e2e_ms: figures(9_000, 18_000, samples) } } });
    expect([of(100), of(99), of(20), of(19)].map((each) => [text(each, "e2e"), judged(each, "e2e").verdict?.of])).toEqual([
      ["10 % faster", "p95"], ["10 % faster", "p50"], ["10 % faster", "p50"], ["few samples", undefined],
    ]);
    expect(text(of(19), "ttft")).toBe("2.2× faster");
    const early = scene({ load: { window: { ...ripe, requests: 19, ttft_ms: figures(100, 700, 99) } } });
    expect(liveStanding(early, "ttft", 600)).toBe("unknown");
    expect(judgedThroughput(early).doubt?.short).toBe("few samples");
    expect(caveats(early)[0]).toContain("Few requests a minute (99)");
  });

  it("waits for what a change left in the window, longer where answers are counted at their end", () => {
    const changed = (seconds: number) => scene({ scene: { points: [ago(seconds + 1, { mode: "round-robin" }), ago(seconds)] } });
    expect([text(changed(50)), text(changed(61)), text(changed(61), "e2e"), text(changed(79), "e2e")]).toEqual(["verdict in 11 s", "2.2× faster", "verdict in 17 s", "10 % faster"]);
    expect(caveats(changed(50))[0]).toBe("The window still holds requests routed by Round robin (another 11 s).");
    const started = (running_s: number) => scene({ load: { running_s } });
    expect([text(started(23)), text(started(119)), text(started(120))]).toEqual(["verdict in 97 s", "verdict in 1 s", "2.2× faster"]);
    expect(liveStanding(started(23), "ttft", 200)).toBe("unknown");
  });

  it("waits until the answers of workers that left have left the window, and the time in which caches fill", () => {
    const former = ago(59, { in_flight: [{ worker: "7", in_flight: 20 }, { worker: "8", in_flight: 20 }] });
    const replaced = (baseline: Scene["baseline"]) => scene({ scene: { points: [former, ago(58)], baseline } });
    expect([text(replaced(aBaseline())), liveStanding(replaced(aBaseline()), "ttft", 600)]).toEqual(["verdict in 61 s", "unknown"]);
    expect(caveats(replaced(aBaseline()))[0]).toBe("The window still holds requests from before workers joined or left (another 1 m 01 s). Like the baseline, it leaves the time out in which caches fill.");
    expect(caveats(replaced(null))[0]).toBe("The window still holds requests from before workers joined or left (another 2 s).");
  });

  it("needs the baseline's load", () => {
    const settings = load().settings;
    const cases: Array<[Change, string]> = [
      [{ load: { settings: { ...settings, concurrency: 61 } } }, "other level"],
      [{ load: { settings: { ...settings, arrivals_per_second: 1 } } }, "other load"],
      [{ scene: { baseline: { ...aBaseline(), workers: 5 } } }, "other workers"],
      [{ load: { settings: { ...settings, turns: { start: 1, end: 1 } } }, scene: { baseline: withTurns(5) } }, "other turns"],
      [{ scene: { points: [ago(10, { mode: "round-robin" })] }, state: { router: { ...aState().router, mode: "round-robin" } } }, "same mode"],
      [{ load: { phase: "stopped" } }, "stopped"],
      [{ load: { phase: "waiting" } }, "waiting"],
      [{ load: { phase: "paused" } }, "paused"],
    ];
    for (const [change, doubt] of cases) expect(text(scene(change))).toBe(doubt);
    expect(text(scene({ scene: { baseline: null } }))).toBe("—");
    // An objective needs no baseline.
    expect(liveStanding(scene({ scene: { baseline: null } }), "ttft", 600)).toBe("good");
  });

  it("is replaced by a word about the machine where that lags by a tenth of a token's time", () => {
    const late = (p95: number) => scene({ load: { window: { ...ripe, dispatch_lag_ms: figures(1, p95) } } });
    expect([text(late(4.8)), text(late(4.9))]).toEqual(["2.2× faster", "machine lags"]);
    expect(caveats(late(40))[0]).toContain("This machine lags: requests are sent 40.0 ms late");
    expect([lagLimit(ripe, null), lagLimit(windowFigures(), null)]).toEqual([4.4, 5]);
  });

  it("of whole answers is replaced where simulated engines come a fifth too late with their tokens", () => {
    const late = (itl: number, state = {}) => scene({ load: { window: { ...ripe, itl_ms: figures(44, itl, 9000) } }, state });
    expect([text(late(52.8), "tpot"), text(late(53), "tpot"), text(late(53)), judgedThroughput(late(53)).doubt?.short]).toEqual(["8 % faster", "machine lags", "2.2× faster", "machine lags"]);
    expect(caveats(late(66))[0]).toContain("tokens come 50 % later (ITL p95)");
    // Of engines that compute, virtual time knows nothing.
    expect(text(late(66, { simulated: false }), "tpot")).toBe("8 % faster");
  });

  it("of ITL is none against virtual time, or where modes do not differ", () => {
    expect(text(scene(), "itl")).toBe("not compared");
    const live = { ...aBaseline(), run_id: "live-1" };
    expect(text(scene({ scene: { baseline: live } }), "itl")).toBe("4 % faster");
    const alike = { ...live, levels: [{ concurrency: 60, cells: [cell("round-robin", 655, 48), cell("kv", 446, 48)] }] };
    expect(text(scene({ scene: { baseline: alike } }), "itl")).toBe("not compared");
  });

  it("is none where the sweep, with more samples, finds no difference", () => {
    const baseline = aBaseline();
    for (const each of baseline.levels[0]?.cells.slice(1) ?? []) each.verdicts = { ttft_ms_p95: "better", e2e_s_p95: "not-significant", tops: "not-significant" };
    const even = scene({ scene: { baseline } });
    expect([text(even), text(even, "e2e"), judgedThroughput(even).doubt?.short]).toEqual(["2.2× faster", "not significant", "not significant"]);
  });

  it("is not a loss where real time alone makes tokens as much slower", () => {
    // KV-aware's TPOT p50 is 44 ms in virtual time, and 46.2 (5 % more) here.
    const slow = (tpot: number) => scene({ load: { window: { ...ripe, tpot_ms: figures(46.2, tpot, 200) } } });
    expect([text(slow(49), "tpot"), text(slow(52), "tpot"), text(slow(45), "tpot")]).toEqual(["no difference", "8 % slower", "6 % faster"]);
  });
});

const withTurns = (turns: number) => {
  const baseline = aBaseline();
  for (const level of baseline.levels) for (const each of level.cells) each.turns = Array.from({ length: turns }, (_, index) => ({ turn: index + 1, ttft_ms_p50: 1, ttft_ms_p95: 1, samples: 9, cached_pct: 0 }));
  return baseline;
};

describe("the heading over live figures", () => {
  const under = (one: Scene) => measuredUnder(one.state, one.points);

  it("names the mode of the requests, not the one that is to come", () => {
    const stopped = { phase: "stopped" as const, running_s: 100 };
    const before = [ago(40, { mode: "round-robin" }), ago(10, { mode: "round-robin", conversations: 0 }), ago(5, { conversations: 0 })];
    const conversations = { ...load().conversations, active: 0 };
    expect(under(scene({ load: { ...stopped, conversations }, scene: { points: before } }))).toBe("Round robin");
    expect(under(scene({ load: { ...stopped, conversations }, scene: { points: [] } }))).toBe("before Stop");
    expect(under(scene({ scene: { points: [ago(70, { mode: "round-robin" }), ago(60)] } }))).toBe("Round robin, then KV-aware");
    expect(under(scene({ scene: { points: [ago(90, { mode: "round-robin" }), ago(80)] } }))).toBe("KV-aware");
    expect(under(scene())).toBe("KV-aware");
  });

  it("knows nothing of a run before this one", () => {
    const again = scene({ load: { running_s: 20 }, scene: { points: [ago(40, { mode: "round-robin" }), ago(10)] } });
    expect(measuredModes(again.state, again.points)).toEqual(["kv"]);
    expect(caveats(again)).toEqual(["Load has just started: full figures in 1 m 40 s. Like the baseline, it leaves the time out in which caches fill."]);
  });
});

describe("what changed last", () => {
  const at = (concurrency: number, seconds: number, more = {}) => aState({ at_ms: 1_000_000 + 1000 * seconds, load: load({ running_s: 300 + seconds, settings: { ...load().settings, concurrency }, ...more }) });
  const kind = (state: State, seen = watch(null, state), points: Scene["points"] = []) => lastChange(state, points, seen)?.kind;

  it("is what this page saw of settings and pauses", () => {
    const first = watch(null, at(80, 0));
    const moved = watch(first, at(60, 5));
    expect(moved?.change?.words).toBe("at 80 conversations");
    expect(watch(moved, at(60, 6))).toBe(moved);
    expect(kind(at(60, 6), moved)).toBe("level");
    const other = { settings: { ...load().settings, max_tokens: 7 } };
    expect(watch(first, at(60, 1, other))?.change?.kind).toBe("level");
    expect(watch(moved, at(60, 7, other))?.change?.kind).toBe("settings");
    const paused = watch(moved, at(60, 8, { phase: "paused" }));
    expect(watch(paused, at(60, 9))?.change?.kind).toBe("resume");
    // A new run begins anew.
    expect(kind(at(60, 20, { running_s: 2 }), moved)).toBe("start");
    expect(watch(moved, aState({ load: null }))).toBeNull();
    expect(lastChange(aState({ load: null }), [], null)).toBeNull();
  });

  it("is that workers joined or left, whatever the mode", () => {
    const there = (...ids: string[]) => ({ in_flight: ids.map((worker) => ({ worker, in_flight: 20 })) });
    const last = (points: Scene["points"], workers = [worker(0), worker(1)]) => lastChange({ ...at(60, 0), workers }, points, null);
    const settled = { kind: "start" };
    expect(last([ago(50, there("0", "1"))])).toMatchObject(settled);
    // A target that tells nothing of its workers for a moment has them still.
    expect(last([ago(50, there())])).toMatchObject(settled);
    // Before load was started it does not matter.
    expect(last([ago(301, there("7"))])).toMatchObject(settled);
    for (const other of [there("7", "8"), there("0", "1", "2"), there("0")]) {
      expect(last([ago(50, other), ago(49)])).toMatchObject({ kind: "workers", atMs: 950_000, words: "from before workers joined or left" });
    }
    // Those that drain still answer.
    expect(last([], [worker(0), worker(1), worker(2, { draining: true })])).toMatchObject({ kind: "workers", atMs: 1_000_000 });
  });

  it("is what the history shows of levels before the page was opened", () => {
    const off = [ago(100, { conversations: 120 }), ago(50, { conversations: 90 }), ago(40, { conversations: 62 })];
    expect(lastChange(at(60, 0), off, null)).toMatchObject({ kind: "level", atMs: 950_000, words: "at another level" });
    // While load begins, and where nobody sets a number, it says nothing.
    expect(kind(at(60, 0, { running_s: 90 }), null, off)).toBe("start");
    expect(kind(aState({ load: load({ running_s: 300, settings: { ...load().settings, arrivals_per_second: 1 } }) }), null, off)).toBe("start");
  });
});
