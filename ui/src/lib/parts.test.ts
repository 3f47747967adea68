import { describe, expect, it } from "vitest";
import type { Part, PartKind } from "../api/types";
import { type Box, narrow, wide } from "./drawing";
import { narrowShelf, partWords, wideShelf } from "./parts";

const KINDS: PartKind[] = ["platform", "gateway", "nodes", "frontend", "discovery", "events", "requests", "workers", "load", "user-model", "corpus", "storage", "metrics", "dashboards"];
const all: Part[] = KINDS.map((kind) => ({ kind, name: kind, detail: null }));
const apart = (one: Box, other: Box) => one.x + one.w <= other.x || other.x + other.w <= one.x || one.y + one.h <= other.y || other.y + other.h <= one.y;

describe.each([["wide", wide, wideShelf], ["narrow", narrow, narrowShelf]] as const)("the %s drawing", (name, draw, shelve) => {
  it.each([1, 3, 5, 8])("keeps the parts apart from the boxes of %i workers", (count) => {
    const layout = draw(count);
    const shelf = shelve(layout, all);
    // The parts say who reads the metrics, so the drawing's own box is gone.
    const drawn = [layout.load, layout.frontend, layout.router, layout.console, ...(name === "wide" ? [] : [layout.metrics]), ...layout.workers, ...shelf.boxes.map(({ box }) => box)];
    for (const [index, one] of drawn.entries()) {
      expect(one.y >= shelf.top && one.y + one.h <= shelf.bottom).toBe(true);
      for (const other of drawn.slice(index + 1)) expect(apart(one, other)).toBe(true);
    }
  });

  it("is as it was without parts", () => {
    const layout = draw(3);
    expect(shelve(layout, [])).toEqual({ boxes: [], lines: [], frame: null, top: 0, bottom: layout.height });
  });
});

it("frames what the platform runs, and leaves the load generator out", () => {
  const layout = wide(3);
  const { frame } = wideShelf(layout, all);
  expect(frame && frame.x > layout.load.x + layout.load.w && frame.x < layout.frontend.x).toBe(true);
});

it("says name and detail", () => {
  expect(partWords({ kind: "events", name: "NATS", detail: "nats://nats:4222" })).toBe("NATS · nats://nats:4222");
  expect(partWords({ kind: "events", name: "NATS", detail: null })).toBe("NATS");
});
