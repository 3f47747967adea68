import { expect, it } from "vitest";
import { workerColour } from "./mode";

it("gives counted workers the colour of their number", () => {
  expect([0, 1, 9].map(workerColour)).toEqual(["var(--worker-0)", "var(--worker-1)", "var(--worker-1)"]);
});

it("gives workers with drawn ids different colours, which stay", () => {
  // Multiples of 2048: all that a number of this size can be.
  const ids = [7_587_889_123_456_788_480, 7_587_889_123_456_790_528, 1_152_921_504_606_846_976];
  const first = ids.map(workerColour);
  expect(new Set(first).size).toBe(3);
  expect(ids.map(workerColour)).toEqual(first);
});
