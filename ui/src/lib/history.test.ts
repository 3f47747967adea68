import { describe, expect, it } from "vitest";
import { columns, HOLE_MS, KEPT, latest, merged, modeChanges, otherModes, pointOf, withPoint } from "./history";
import { aState, figures, load, point, windowFigures } from "../quiet-fixtures";

describe("history", () => {
  it("takes a point from a state, with nothing where nothing was measured", () => {
    const measured = aState({ load: load({ window: windowFigures({ ttft_ms: figures(40, 50), cached_pct: 90, rps: 3 }) }) });
    expect(pointOf(measured)).toMatchObject({ at_ms: 1_000_000, mode: "kv", conversations: 60, ttft_ms_p50: 40, tpot_ms_p95: null, rps: 3, in_flight: [{ worker: "0" }, { worker: "1" }] });
    expect(pointOf(aState({ load: null }))).toMatchObject({ conversations: 0, ttft_ms_p50: null, cached_pct: null });
  });

  it("is a ring, and takes each second once", () => {
    let points = withPoint([], point(0));
    expect(withPoint(points, point(100))).toBe(points);
    expect(withPoint(points, point(-5000))).toBe(points);
    for (let second = 1; second <= KEPT + 10; second += 1) points = withPoint(points, point(second * 1000));
    expect(points).toHaveLength(KEPT);
    expect(points[0]?.at_ms).toBe(11_000);
  });

  it("joins what the server kept with what the page saw", () => {
    const seen = [point(1000), point(2000), point(3010), point(9000)];
    const kept = [point(3000), point(4000), point(5000)];
    expect(merged(seen, kept).map((each) => each.at_ms)).toEqual([1000, 2000, 3000, 4000, 5000, 9000]);
    expect(merged(seen, [])).toBe(seen);
  });

  it("knows when the mode changed, and which modes the window still holds", () => {
    const points = [point(0, { mode: "random" }), point(30_000, { mode: "round-robin" }), point(80_000), point(81_000)];
    expect(modeChanges(points)).toEqual([
      { at_ms: 30_000, from: "random", to: "round-robin" },
      { at_ms: 80_000, from: "round-robin", to: "kv" },
    ]);
    expect(otherModes(points, "kv", 60_000)).toEqual(["round-robin"]);
    expect(otherModes([point(0, { mode: "random", conversations: 0 }), point(1000)], "kv", 60_000)).toEqual([]);
    expect(latest(points, 1000)).toHaveLength(2);
    expect(latest([], 1000)).toEqual([]);
  });

  it("breaks its lines where seconds are missing", () => {
    const points = [point(0), point(1000), point(1000 + HOLE_MS + 1)];
    expect(columns(points, [(each) => each.ttft_ms_p50])).toEqual({ times: [0, 1, 1.001, 4.501], values: [[40, 40, null, 40]] });
  });
});
