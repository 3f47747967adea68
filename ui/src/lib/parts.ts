/**
 * What a deployment consists of, around the drawing of the system: a shelf of small boxes below
 * it, each under what uses it, and a frame for the platform that serves. Without parts there is
 * neither, and the drawing is as it was.
 */
import type { Part, PartKind } from "../api/types";
import { type Box, type Curve, type Layout, straight } from "./drawing";

/** What a part is for, in the words of the drawing. */
const ROLES: Partial<Record<PartKind, string>> = {
  gateway: "the entry",
  discovery: "who is there",
  events: "carries KV events",
  requests: "carries requests",
  "user-model": "writes the users’ questions",
  corpus: "texts to begin with",
  storage: "the model’s files",
  metrics: "collects metrics",
  dashboards: "shows them",
  platform: "platform",
  nodes: "nodes",
};

/** Which of the drawing's columns uses it: load, frontend, router, workers. */
const COLUMNS: Partial<Record<PartKind, number>> = { "user-model": 0, corpus: 0, gateway: 1, metrics: 1, dashboards: 1, discovery: 2, events: 2, requests: 2, storage: 3 };

export type Placed = { part: Part; role: string; box: Box };
export type Shelf = {
  boxes: Placed[];
  lines: Curve[];
  /** Around what the platform runs. */
  frame: Box | null;
  /** Of the whole drawing, down from `top`. */
  top: number;
  bottom: number;
};

const [HEIGHT, GAP, MARGIN] = [64, 12, 28];

export const partOf = (parts: readonly Part[], kind: PartKind): Part | null => parts.find((part) => part.kind === kind) ?? null;

/** Name and detail in one line. */
export const partWords = ({ name, detail }: Part): string => (detail === null ? name : `${name} · ${detail}`);

const stacked = (parts: readonly Part[], { x, y, w }: Omit<Box, "h">): Placed[] =>
  parts.map((part, index) => ({ part, role: ROLES[part.kind] ?? part.kind, box: { x, y: y + index * (HEIGHT + GAP), w, h: HEIGHT } }));

const bottomOf = (boxes: readonly Placed[]): number => Math.max(0, ...boxes.map(({ box }) => box.y + box.h));

export function wideShelf(layout: Layout, parts: readonly Part[]): Shelf {
  const below = layout.height + MARGIN;
  const level = layout.console.y;
  const columns = [
    { x: 0, y: below, w: layout.load.w, from: null },
    { x: layout.metrics.x, y: hasMetrics(parts) ? level : below, w: 240, from: hasMetrics(parts) ? layout.frontend : null },
    { x: layout.router.x + 2 * GAP, y: Math.max(level, layout.router.y + layout.router.h + MARGIN), w: 258, from: layout.router },
    { x: 900, y: below, w: 300, from: layout.workers.at(-1) ?? null },
  ];
  const stacks = columns.map((column, index) => stacked(parts.filter(({ kind }) => COLUMNS[kind] === index), column));
  const lines = stacks.flatMap(([first], index): Curve[] => {
    const from = columns[index]?.from;
    if (!first || !from) return [];
    const x = from.x + Math.min(from.w, first.box.w) / 2;
    return [straight({ x, y: from.y + from.h }, { x, y: first.box.y })];
  });
  const boxes = stacks.flat();
  const bottom = Math.max(layout.height, bottomOf(boxes));
  const framed = partOf(parts, "platform") !== null || partOf(parts, "nodes") !== null;
  if (!framed) return { boxes, lines, frame: null, top: 0, bottom };
  const frame = { x: 272, y: -58, w: 952, h: bottom + 58 + 16 };
  return { boxes, lines, frame, top: frame.y, bottom: frame.y + frame.h };
}

/** Two columns below everything else; the platform is a box like the others. */
export function narrowShelf(layout: Layout, parts: readonly Part[]): Shelf {
  const w = (layout.width - GAP) / 2;
  const shown = parts.filter(({ kind }) => kind in ROLES);
  const boxes = shown.map((part, index): Placed => ({
    part, role: ROLES[part.kind] ?? part.kind,
    box: { x: (index % 2) * (w + GAP), y: layout.height + GAP + Math.floor(index / 2) * (HEIGHT + GAP), w, h: HEIGHT },
  }));
  return { boxes, lines: [], frame: null, top: 0, bottom: Math.max(layout.height, bottomOf(boxes)) };
}

/** Whether parts say who reads the metrics, so that the drawing's own box is not needed. */
export const hasMetrics = (parts: readonly Part[]): boolean => partOf(parts, "metrics") !== null || partOf(parts, "dashboards") !== null;
