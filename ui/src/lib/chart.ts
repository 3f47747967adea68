/** How our charts over time look, for uPlot: axes, the objective's line, marks where the mode changed. */
import uPlot from "uplot";

export type Mark = { /** In seconds. */ at: number; label: string; colour: string };
export type Overlay = {
  /** Seconds before the newest point at which the chart begins. */
  span: number;
  objective: { value: number; label: string } | null;
  marks: readonly Mark[];
  /** Where the scale ends at least. */
  top: number;
  /** Where it ends at most, if anywhere. */
  limit?: number;
};

/** A canvas knows no variables: `var(--kv)` becomes what it means in the theme. */
export function resolveColour(colour: string, style: CSSStyleDeclaration): string {
  const name = /^var\((--[\w-]+)\)$/.exec(colour)?.[1];
  return name ? style.getPropertyValue(name).trim() || "#888" : colour;
}

/** From nothing to a little more than the largest value, the objective included. */
export function valueRange(largest: number | null, overlay: Overlay): [number, number] {
  const room = 1.08 * Math.max(largest ?? 0, overlay.objective ? overlay.objective.value * 1.04 : 0);
  const top = Math.max(overlay.top, room);
  return [0, overlay.limit === undefined ? top : Math.min(overlay.limit, top)];
}

/** The last `span` seconds, also while there are fewer. */
export function timeRange(newest: number | null, span: number): [number, number] {
  const end = newest ?? span;
  return [end - span, end];
}

type Lines = ReadonlyArray<{ label: string; colour: string; dashed?: boolean }>;

export function chartOptions(size: { width: number; height: number }, lines: Lines, overlay: () => Overlay, onHover: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const rem = Number.parseFloat(style.fontSize) || 15;
  const colour = (of: string) => resolveColour(of, style);
  const [muted, line] = [colour("var(--muted)"), colour("var(--line)")];
  const font = `${0.76 * rem}px system-ui, sans-serif`;
  const axis: uPlot.Axis = { stroke: muted, font, grid: { stroke: line, width: 0.6 }, ticks: { show: false } };
  return {
    ...size,
    padding: [0.6 * rem, 1.3 * rem, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: {
      x: { time: true, range: (_, __, newest) => timeRange(newest, overlay().span) },
      y: { range: (_, __, largest) => valueRange(largest, overlay()) },
    },
    axes: [
      { ...axis, size: 1.9 * rem, gap: 0.5 * rem, space: 4.5 * rem, values: (_, splits) => splits.map((at) => new Date(at * 1000).toTimeString().slice(0, 5)), incrs: [60, 120, 180, 300] },
      { ...axis, size: 2.9 * rem, gap: 0.3 * rem, space: 1.9 * rem },
    ],
    series: [
      {},
      ...lines.map((each): uPlot.Series => {
        const series: uPlot.Series = { label: each.label, stroke: colour(each.colour), width: 1.8, points: { show: false }, spanGaps: false };
        if (each.dashed) series.dash = [6, 4];
        return series;
      }),
    ],
    hooks: {
      setCursor: [(plot) => onHover(plot.cursor.idx ?? null)],
      draw: [(plot) => drawOverlay(plot, overlay(), colour, font)],
    },
  };
}

/** On top of the lines: uPlot has no notion of either. */
function drawOverlay(plot: uPlot, overlay: Overlay, colour: (of: string) => string, font: string): void {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.font = font.replace(/^[\d.]+/, (size) => String(Number(size) * ratio));
  ctx.lineWidth = 1.3 * ratio;
  ctx.textBaseline = "bottom";
  if (overlay.objective) {
    const y = plot.valToPos(overlay.objective.value, "y", true);
    ctx.strokeStyle = ctx.fillStyle = colour("var(--missed)");
    ctx.setLineDash([7 * ratio, 4 * ratio]);
    stroke(ctx, bbox.left, y, bbox.left + bbox.width, y);
    ctx.textAlign = "left";
    boxed(ctx, overlay.objective.label, bbox.left + 4 * ratio, y - 2 * ratio, colour("var(--surface)"), ratio);
  }
  ctx.setLineDash([2 * ratio, 3 * ratio]);
  const rowHeight = 1.35 * Number.parseFloat(ctx.font);
  const shown = overlay.marks.filter((mark) => mark.at >= (plot.scales["x"]?.min ?? 0));
  shown.forEach((mark, index) => {
    const x = plot.valToPos(mark.at, "x", true);
    ctx.strokeStyle = ctx.fillStyle = colour(mark.colour);
    stroke(ctx, x, bbox.top, x, bbox.top + bbox.height);
    // Towards the side that has room.
    const left = x < bbox.left + bbox.width / 2;
    ctx.textAlign = left ? "left" : "right";
    // Labels of changes that follow closely stand below each other, in front of the lines.
    const [textX, textY] = [x + (left ? 4 : -4) * ratio, bbox.top + 0.28 * bbox.height + ((index % 3) + 1) * rowHeight];
    haloed(ctx, mark.label, textX, textY, colour("var(--surface)"), ratio);
  });
  ctx.restore();
}

/** Readable over lines. */
function haloed(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, surface: string, ratio: number): void {
  ctx.save();
  ctx.setLineDash([]);
  ctx.lineJoin = "round";
  ctx.lineWidth = 4 * ratio;
  ctx.strokeStyle = surface;
  ctx.strokeText(text, x, y);
  ctx.fillText(text, x, y);
  ctx.restore();
}

/** In front of a line that runs through it. */
function boxed(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, surface: string, ratio: number): void {
  const height = 1.1 * Number.parseFloat(ctx.font);
  ctx.save();
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = surface;
  ctx.fillRect(x - 2 * ratio, y - height, ctx.measureText(text).width + 4 * ratio, height);
  ctx.restore();
  haloed(ctx, text, x, y, surface, ratio);
}

function stroke(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
