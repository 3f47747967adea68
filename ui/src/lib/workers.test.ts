import { expect, it } from "vitest";
import { byNumber, fullName, learnNumbers, workerColour, workerName } from "./workers";

/** JavaScript makes one number of these. */
const [ONE, TWO, THREE] = ["7587899007311003142", "7587899007311003144", "7587899007311003146"];

it("calls counted workers by their numbers", () => {
  expect(["0", "12"].map(workerName)).toEqual(["worker 0", "worker 12"]);
  expect(["0", "1", "9"].map(workerColour)).toEqual(["var(--worker-0)", "var(--worker-1)", "var(--worker-1)"]);
  expect(fullName("3")).toBeUndefined();
});

it("tells ids apart that are equal as numbers", () => {
  expect(new Set([ONE, TWO, THREE].map(Number)).size).toBe(1);
  learnNumbers([{ id: ONE, number: 1 }, { id: TWO, number: 2 }, { id: THREE, number: 3 }]);
  expect([ONE, TWO, THREE].map(workerName)).toEqual(["worker 1", "worker 2", "worker 3"]);
  expect(new Set([ONE, TWO, THREE].map(workerColour)).size).toBe(3);
  expect([THREE, "5", ONE, TWO].sort(byNumber)).toEqual([ONE, TWO, THREE, "5"]);
  expect(fullName(TWO)).toBe(`worker id ${TWO}`);
});

it("keeps the number of a worker that left until another one has it", () => {
  learnNumbers([{ id: ONE, number: 1 }, { id: TWO, number: 2 }, { id: THREE, number: 3 }]);
  learnNumbers([{ id: ONE, number: 1 }, { id: THREE, number: 3 }]);
  expect(workerName(TWO)).toBe("worker 2");
  learnNumbers([{ id: ONE, number: 1 }, { id: "7587899007311003148", number: 2 }, { id: THREE, number: 3 }]);
  expect([workerName(TWO), workerColour(TWO)]).toEqual(["worker …3144", "var(--muted)"]);
});

it("gives the whole id wherever the name is not the id", () => {
  // The server counts ids below 1000 as numbers.
  learnNumbers([{ id: "1000", number: 1 }, { id: "999", number: 999 }, { id: "5", number: 6 }]);
  expect(["1000", "999", "5"].map(workerName)).toEqual(["worker 1", "worker 999", "worker 6"]);
  expect(["1000", "999", "5"].map(fullName)).toEqual(["worker id 1000", undefined, "worker id 5"]);
  // Nobody has numbered these.
  expect([workerName("9999"), fullName("9999"), workerName("12"), fullName("12")]).toEqual(["worker …9999", "worker id 9999", "worker 12", undefined]);
});

it("calls no two workers by one number", () => {
  learnNumbers([{ id: ONE, number: 1 }, { id: "1001", number: 2 }]);
  expect([workerName("2"), fullName("2"), workerColour("2")]).toEqual(["worker …2", "worker id 2", "var(--muted)"]);
});

it("leaves names as they are", () => {
  expect([workerName("gpu-a"), workerColour("gpu-a"), fullName("gpu-a")]).toEqual(["gpu-a", "var(--muted)", undefined]);
});
