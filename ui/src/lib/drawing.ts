/**
 * Where the boxes and lines of the architecture drawing are: a row on wide screens, a column on
 * narrow ones, for any number of workers. In units of the drawing's own coordinates.
 */

export type Box = { x: number; y: number; w: number; h: number };
export type Point = { x: number; y: number };
/** A cubic Bézier curve. */
export type Curve = [Point, Point, Point, Point];
export type Layout = {
  width: number;
  height: number;
  load: Box;
  frontend: Box;
  router: Box;
  workers: Box[];
  console: Box;
  metrics: Box;
  toFrontend: Curve;
  toRouter: Curve;
  /** Requests, router to worker. */
  toWorker: Curve[];
  /** KV events, worker to router. */
  events: Curve[];
  toMetrics: Curve;
  toConsole: Curve;
};

export const MOST_WORKERS = 8;

/** Boxes to draw: beyond eight workers the first seven, and one for the rest. */
export function workerBoxes(count: number): { shown: number; more: number } {
  return count <= MOST_WORKERS ? { shown: count, more: 0 } : { shown: MOST_WORKERS - 1, more: count - MOST_WORKERS + 1 };
}

export const straight = (from: Point, to: Point): Curve => [from, { x: (2 * from.x + to.x) / 3, y: (2 * from.y + to.y) / 3 }, { x: (from.x + 2 * to.x) / 3, y: (from.y + 2 * to.y) / 3 }, to];

/** Leaves and arrives level. */
const level = (from: Point, to: Point): Curve => {
  const middle = (from.x + to.x) / 2;
  return [from, { x: middle, y: from.y }, { x: middle, y: to.y }, to];
};

export function wide(boxes: number): Layout {
  const [gap, side] = [12, 96];
  const h = boxes <= 3 ? 118 : boxes <= 5 ? 94 : 78;
  const column = boxes * h + (boxes - 1) * gap;
  const height = Math.max(column, 378);
  const pipeline = 250;
  const middle = Math.max(pipeline / 2, (height - side - 28) / 2);
  const top = Math.max(0, Math.min(middle - column / 2, height - column));
  const load = { x: 0, y: middle - 75, w: 230, h: 150 };
  const frontend = { x: 310, y: middle - 75, w: 190, h: 150 };
  const router = { x: 580, y: middle - pipeline / 2, w: 220, h: pipeline };
  const workers = Array.from({ length: boxes }, (_, index) => ({ x: 900, y: top + index * (h + gap), w: 300, h }));
  const metrics = { x: 310, y: height - side, w: 270, h: side };
  const console = { x: 0, y: height - side, w: 230, h: side };
  const out = { x: router.x + router.w, y: middle };
  const spread = (index: number) => (boxes === 1 ? 0 : (index / (boxes - 1) - 0.5) * (pipeline - 90));
  return {
    width: 1200, height, load, frontend, router, workers, console, metrics,
    toFrontend: straight({ x: load.w, y: middle - 16 }, { x: frontend.x, y: middle - 16 }),
    toRouter: straight({ x: frontend.x + frontend.w, y: middle }, { x: router.x, y: middle }),
    toWorker: workers.map((box, index) => level({ x: out.x, y: out.y + spread(index) - 7 }, { x: box.x, y: box.y + box.h / 2 - 9 })),
    events: workers.map((box, index) => level({ x: box.x, y: box.y + box.h / 2 + 9 }, { x: out.x, y: out.y + spread(index) + 11 })),
    toMetrics: straight({ x: frontend.x + frontend.w / 2, y: frontend.y + frontend.h }, { x: frontend.x + frontend.w / 2, y: metrics.y }),
    toConsole: straight({ x: load.w / 2, y: load.y + load.h }, { x: load.w / 2, y: console.y }),
  };
}

export function narrow(boxes: number): Layout {
  const [width, gap, w] = [420, 44, 186];
  const load = { x: 0, y: 0, w: width, h: 104 };
  const frontend = { x: 0, y: load.h + gap, w: width, h: 84 };
  const router = { x: 0, y: frontend.y + frontend.h + gap, w: width, h: 126 };
  const [top, h] = [router.y + router.h + 40, 124];
  const workers = Array.from({ length: boxes }, (_, index) => ({ x: index % 2 === 0 ? 0 : width - w, y: top + Math.floor(index / 2) * (h + 14), w, h }));
  const below = top + Math.ceil(boxes / 2) * (h + 14) + 10;
  const console = { x: 0, y: below, w, h: 96 };
  const metrics = { x: width - w, y: below, w, h: 96 };
  const centre = width / 2;
  const down = (from: Box, to: Box, x: number) => straight({ x, y: from.y + from.h }, { x, y: to.y });
  /** Down the aisle between the columns, then to the side. */
  const aisle = (box: Box, shift: number): Curve => {
    const start = { x: centre + shift, y: router.y + router.h };
    const bend = { x: centre + shift, y: box.y + box.h / 2 + shift };
    return [start, bend, bend, { x: box.x === 0 ? box.w : box.x, y: box.y + box.h / 2 + shift }];
  };
  return {
    width, height: below + 96, load, frontend, router, workers, console, metrics,
    toFrontend: down(load, frontend, centre - 60),
    toRouter: down(frontend, router, centre),
    toWorker: workers.map((box) => aisle(box, -8)),
    events: workers.map((box): Curve => {
      const [end, two, one, start] = aisle(box, 8);
      return [start, one, two, end];
    }),
    // The column leaves no room for these lines; the boxes say what they read.
    toMetrics: straight({ x: 0, y: 0 }, { x: 0, y: 0 }),
    toConsole: straight({ x: 0, y: 0 }, { x: 0, y: 0 }),
  };
}

export function curvePath([from, one, two, to]: Curve): string {
  return `M${from.x} ${from.y}C${one.x} ${one.y} ${two.x} ${two.y} ${to.x} ${to.y}`;
}

export function pointOn([from, one, two, to]: Curve, t: number): Point {
  const u = 1 - t;
  const mix = (a: number, b: number, c: number, d: number) => u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d;
  return { x: mix(from.x, one.x, two.x, to.x), y: mix(from.y, one.y, two.y, to.y) };
}

/** How long a dot takes from the load generator to its worker. */
export const FLIGHT_MS = 1800;

/** When a dot comes to the router, of its whole way. */
export const AT_ROUTER = 0.55;

/** Where a dot is, from 0 to 1 of its way; `null` while it is inside a box. */
export function dotAt(layout: Layout, worker: number, progress: number): Point | null {
  const last = layout.toWorker[worker];
  if (!last || progress < 0 || progress > 1) return null;
  if (progress < 0.25) return pointOn(layout.toFrontend, progress / 0.25);
  if (progress < 0.35) return null;
  if (progress < AT_ROUTER) return pointOn(layout.toRouter, (progress - 0.35) / 0.2);
  if (progress < 0.65) return null;
  return pointOn(last, (progress - 0.65) / 0.35);
}
