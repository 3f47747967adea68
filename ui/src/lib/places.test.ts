import { expect, it } from "vitest";
import { places } from "./places";

it("lets in as many as there are places, in the order in which they came", async () => {
  const enter = places(2);
  const inside: number[] = [];
  const leaves = new Map<number, () => void>();
  const come = (who: number) => void enter().then((leave) => (inside.push(who), leaves.set(who, leave)));
  const settle = () => new Promise((resolve) => setTimeout(resolve, 0));
  for (const who of [1, 2, 3, 4]) come(who);
  await settle();
  expect(inside).toEqual([1, 2]);
  leaves.get(2)?.();
  leaves.get(2)?.();
  await settle();
  expect(inside).toEqual([1, 2, 3]);
  leaves.get(1)?.();
  leaves.get(3)?.();
  await settle();
  come(5);
  await settle();
  expect(inside).toEqual([1, 2, 3, 4, 5]);
});
