import { describe, expect, it } from "vitest";
import { blockMap, blocksPerCell, cellPath, followed } from "./blockmap";

const candidates = [
  { worker: "2", overlap_blocks: 3 },
  { worker: "0", overlap_blocks: 0 },
];

describe("the block map", () => {
  it("has a row for each worker, and the winner computes what it lacks", () => {
    const map = blockMap({ blocks: 4, winner: "2", candidates });
    expect(map.perCell).toBe(1);
    expect(map.rows.map((row) => [row.worker, row.chosen])).toEqual([["0", false], ["2", true]]);
    expect(map.rows[0]?.cells).toEqual(["missing", "missing", "missing", "missing"]);
    expect(map.rows[1]?.cells).toEqual(["held", "held", "held", "computed"]);
  });

  it("lets several blocks share a cell when there are many", () => {
    const map = blockMap({ blocks: 7, winner: "2", candidates }, blocksPerCell(7, 4));
    expect(map.perCell).toBe(2);
    expect(map.rows[1]?.cells).toEqual(["held", "part", "computed", "computed"]);
    expect(blockMap({ blocks: 1000, winner: null, candidates }).rows[0]?.cells).toHaveLength(200);
    expect(blockMap({ blocks: 0, winner: null, candidates }).rows[0]?.cells).toEqual([]);
  });

  it("draws the cells of one kind", () => {
    expect(cellPath(["held", "missing", "held"], "held", 5)).toBe("M0 0h8v5h-8zM20 0h8v5h-8z");
  });
});

it("takes a conversation with several turns, and stays until it is over", () => {
  const active = [{ id: "new", turns_answered: 0 }, { id: "b", turns_answered: 1 }, { id: "a", turns_answered: 3 }, { id: "c", turns_answered: 2 }];
  expect(followed(null, active)).toBe("a");
  expect(followed("c", active)).toBe("c");
  expect(followed("b", active)).toBe("a");
  expect(followed("gone", active)).toBe("a");
  expect(followed("b", active.slice(0, 2))).toBe("b");
  expect(followed(null, active.slice(0, 2))).toBe("b");
  expect(followed("gone", [])).toBe("gone");
});
