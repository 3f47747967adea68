import { describe, expect, it } from "vitest";
import { type Box, dotAt, type Layout, narrow, pointOn, wide, workerBoxes } from "./drawing";

const boxes = (layout: Layout) => [layout.load, layout.frontend, layout.router, layout.console, layout.metrics, ...layout.workers];
const apart = (one: Box, other: Box) =>
  one.x + one.w <= other.x || other.x + other.w <= one.x || one.y + one.h <= other.y || other.y + other.h <= one.y;

describe.each([["wide", wide], ["narrow", narrow]] as const)("the %s drawing", (_, draw) => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])("keeps the boxes of %i workers apart and inside", (count) => {
    const layout = draw(count);
    const all = boxes(layout);
    expect(layout.workers).toHaveLength(count);
    for (const [index, one] of all.entries()) {
      expect(one.x >= 0 && one.y >= 0 && one.x + one.w <= layout.width && one.y + one.h <= layout.height).toBe(true);
      for (const other of all.slice(index + 1)) expect(apart(one, other)).toBe(true);
    }
  });

  it("leads a dot from the load generator to its worker", () => {
    const layout = draw(3);
    expect(dotAt(layout, 1, 0)).toEqual(layout.toFrontend[0]);
    expect(dotAt(layout, 1, 0.3)).toBeNull();
    expect(dotAt(layout, 1, 1)).toEqual(layout.toWorker[1]?.[3]);
    expect(dotAt(layout, 9, 0.5)).toBeNull();
    expect(dotAt(layout, 1, 1.1)).toBeNull();
  });
});

it("shows seven workers and the rest as one", () => {
  expect(workerBoxes(8)).toEqual({ shown: 8, more: 0 });
  expect(workerBoxes(12)).toEqual({ shown: 7, more: 5 });
});

it("passes through the ends of a curve", () => {
  const curve: Parameters<typeof pointOn>[0] = [{ x: 0, y: 0 }, { x: 1, y: 0 }, { x: 1, y: 2 }, { x: 2, y: 2 }];
  expect([pointOn(curve, 0), pointOn(curve, 0.5), pointOn(curve, 1)]).toEqual([{ x: 0, y: 0 }, { x: 1, y: 1 }, { x: 2, y: 2 }]);
});
