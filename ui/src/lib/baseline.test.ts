import { describe, expect, it } from "vitest";
import { capacity, comparedConcurrency, describe as describeBaseline, difference, liveMatch, losses, matchLevel, whyNone } from "./baseline";
import { aBaseline, load } from "../quiet-fixtures";

describe("a baseline", () => {
  it("is compared at the nearest level, which says so when it is not exact", () => {
    const baseline = aBaseline();
    const at = (concurrency: number) => matchLevel(baseline, concurrency);
    expect(at(60)).toMatchObject({ exact: true, level: { concurrency: 60 } });
    expect(at(70)).toMatchObject({ exact: false, level: { concurrency: 60 } });
    expect(at(500)).toMatchObject({ exact: false, level: { concurrency: 80 } });
    expect(matchLevel(null, 60)).toBeNull();
    expect(matchLevel(baseline, null)).toBeNull();
    expect(describeBaseline(baseline, { level: baseline.levels[0] ?? { concurrency: 0, cells: [] }, exact: true })).toBe(
      "Baseline: round robin at 60 conversations, simulated in virtual time before.",
    );
    expect(describeBaseline(baseline, { level: baseline.levels[1] ?? { concurrency: 0, cells: [] }, exact: false })).toContain("nearest level 80, not exact");
  });

  it("is compared by what is set, or by what there is in open loop", () => {
    expect(comparedConcurrency(null)).toBeNull();
    expect(comparedConcurrency(load())).toBe(60);
    const open = load();
    const arriving = { ...open, settings: { ...open.settings, arrivals_per_second: 2 }, conversations: { ...open.conversations, active: 60 } };
    expect(comparedConcurrency(arriving)).toBe(60);
    expect([liveMatch(aBaseline(), open)?.exact, liveMatch(aBaseline(), arriving)?.exact]).toEqual([true, false]);
  });

  it("tells differences as people say them", () => {
    expect(difference(420, 100)).toEqual({ text: "4.2× faster", better: true });
    expect(difference(100, 88)).toEqual({ text: "12 % faster", better: true });
    expect(difference(100, 112)).toEqual({ text: "12 % slower", better: false });
    expect(difference(100, 300)).toEqual({ text: "3.0× slower", better: false });
    expect(difference(100, 100.5)).toEqual({ text: "the same", better: null });
    expect(difference(null, 100)).toBeNull();
    expect(difference(100, null)).toBeNull();
    expect(difference(0, 100)).toBeNull();
  });

  it("says up to where objectives are kept, and where KV-aware routing loses", () => {
    const slos = { ttft_p95_ms: 600, tpot_p95_ms: 60 };
    expect(capacity(aBaseline(), "kv", slos)).toBe(60);
    expect(capacity(aBaseline(), "round-robin", slos)).toBeNull();
    expect(losses(aBaseline(), "kv")).toEqual({ ttft: [80], tpot: [] });
  });

  it("has a reason when it does not exist", () => {
    expect(whyNone({ state: "ready", run_id: "1" })).toBeNull();
    expect(whyNone({ state: "none" })).toContain("without one");
    expect(whyNone({ state: "computing", done: 3, total: 14 })).toContain("3 of 14");
    expect(whyNone({ state: "failed", message: "disk full" })).toContain("disk full");
  });
});
