import { describe, expect, it } from "vitest";
import type { Baseline } from "../api/types";
import { aBaseline, worker } from "../quiet-fixtures";
import { marks, nearestMark, scaleOf } from "./scale";

const slots = (each: number, count = 3) => ({ workers: Array.from({ length: count }, (_, id) => worker(id, { slots: each })) });
const levels = (...all: number[]): Baseline => ({ ...aBaseline(), levels: all.map((concurrency) => ({ concurrency, cells: [] })) });

describe("the slider's scale", () => {
  it("has the levels of the baseline", () => {
    expect(marks(scaleOf(slots(64), levels(60, 80, 120, 180), 60))).toEqual([60, 80, 100, 120, 140, 160, 180]);
    expect(marks(scaleOf(slots(4), levels(2, 4, 8), 4))).toEqual([2, 4, 6, 8]);
  });

  it("fits the workers' slots without one", () => {
    expect(marks(scaleOf(slots(64), null, 60))).toEqual([60, 80, 100, 120, 140, 160, 180]);
    expect(marks(scaleOf(slots(64), levels(60, 180), 20))).toEqual([20, 40, 60, 80, 100, 120, 140, 160, 180]);
    expect(marks(scaleOf(slots(4), null, 4))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    expect(marks(scaleOf(slots(8), null, 24))).toEqual([2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]);
  });

  it("fits what runs now where slots say little or nothing", () => {
    expect(marks(scaleOf(slots(256, 2), levels(60, 180), 24))).toEqual([12, 24, 36, 48, 60, 72, 84, 96, 108, 120, 132, 144]);
    expect(marks(scaleOf(slots(256, 2), null, 4))).toEqual([2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]);
    expect(marks(scaleOf(slots(64), null, 600))).toContain(600);
    expect(marks(scaleOf(slots(0), null, 7))).toEqual([7, 14, 21, 28, 35, 42]);
    expect(marks(scaleOf(slots(64), null, 1))).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it.each([1, 2, 3, 7, 13, 37, 60, 97, 250, 1001, 100_000])("never has more marks than are read, with %i on it", (target) => {
    const scale = scaleOf(slots(0), null, target);
    expect(marks(scale).length).toBeLessThanOrEqual(12);
    expect(marks(scale)).toContain(target);
  });

  it("never has more marks than are read, whatever the slots and the levels", () => {
    const baselines = [null, levels(60, 180), levels(5, 60), levels(1, 2, 12), levels(1, 2, 13), levels(7, 500, 1003)];
    const worst = { marks: 0, slots: 0, target: 0 };
    for (let all = 1; all <= 2000; all += 1) {
      const system = slots(all, 1);
      for (const target of [1, 3, 60, Math.ceil(all / 16), Math.ceil(all / 3), all, all + 1]) {
        for (const baseline of all % 50 === 0 ? baselines : [null]) {
          const count = marks(scaleOf(system, baseline, target)).length;
          if (count > worst.marks) Object.assign(worst, { marks: count, slots: all, target });
        }
      }
    }
    expect(worst.marks, JSON.stringify(worst)).toBe(12);
    expect(marks(scaleOf(slots(64, 12), null, 60))).toEqual([60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 660, 720]);
    expect(marks(scaleOf(slots(100_000, 1), null, 50_000)).length).toBeLessThanOrEqual(12);
  });

  it("stays while it fits, so that no thumb moves under a hand", () => {
    const before = scaleOf(slots(0), null, 4);
    expect(scaleOf(slots(0), null, 9, before)).toBe(before);
    expect(scaleOf(slots(0), null, 40, before)).not.toBe(before);
    expect(scaleOf(slots(0), levels(2, 4, 8), 8, before)).toBe(before);
  });

  it("shows a number off its grid at the nearest mark", () => {
    expect([10, 69, 75, 500].map((target) => nearestMark(target, { least: 60, most: 180, step: 20 }))).toEqual([60, 60, 80, 180]);
  });
});
