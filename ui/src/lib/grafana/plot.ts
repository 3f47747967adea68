/** A panel's lines for uPlot: two axes, fills, stacks and thresholds as the dashboard asks for them. */
import uPlot from "uplot";
import { resolveColour } from "../chart";
import type { Drawn } from "./answers";
import { type Axis, axisOf, axisRange, type Side, type Zone, zonesOf } from "./axes";
import type { DataPanel } from "./types";
import { format } from "./units";
import type { Window } from "./variables";

export type Picture = { panel: DataPanel; series: readonly Drawn[]; window: Window };
type Size = { width: number; height: number };
type Look = { colour: (of: string) => string; rem: number; font: string };

const SCALE: Record<Side, string> = { left: "y", right: "y2" };
/** Charts of one page share the pointer's time. */
const SHARED = "grafana-view";
const TIME_STEPS = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600];

/** What makes another plot necessary, where other values do not. */
export const shapeOf = ({ panel, series }: Picture): string =>
  JSON.stringify([panel.id, panel.type, series.map(({ name, field, colour }) => [name, field, colour])]);

function lookOf(): Look {
  const style = getComputedStyle(document.documentElement);
  const rem = Number.parseFloat(style.fontSize) || 15;
  return { colour: (of) => resolveColour(of, style), rem, font: `${0.76 * rem}px system-ui, sans-serif` };
}

/** `#rrggbb` with an opacity in percent. */
export function faded(colour: string, percent: number): string {
  const alpha = Math.round((Math.min(100, Math.max(0, percent)) / 100) * 255);
  return /^#[\da-f]{6}$/i.test(colour) ? `${colour}${alpha.toString(16).padStart(2, "0")}` : colour;
}

/** Each stacked series with the one it stands on, both counted from 1 as uPlot does. */
export function bandsOf(series: readonly Drawn[]): Array<[upper: number, lower: number]> {
  const last = new Map<string, number>();
  return series.flatMap(({ field }, index): Array<[number, number]> => {
    if (field.stack === null) return [];
    const below = last.get(field.stack);
    last.set(field.stack, index + 1);
    return below === undefined ? [] : [[index + 1, below]];
  });
}

function line({ name, field, colour }: Drawn, look: Look): uPlot.Series {
  const stroke = look.colour(colour);
  const series: uPlot.Series = { label: name, scale: SCALE[field.axis], stroke, width: field.lineWidth, points: { show: false }, spanGaps: false };
  if (field.fillOpacity > 0) series.fill = faded(stroke, field.fillOpacity);
  if (field.dash) series.dash = [...field.dash];
  return series;
}

function scaleOf(axis: Axis | null): uPlot.Scale {
  return { auto: true, range: (_, low, high) => (axis ? axisRange(axis, low, high) : [0, 1]) };
}

function valueAxis(axis: Axis, look: Look): uPlot.Axis {
  return {
    scale: SCALE[axis.side],
    side: axis.side === "left" ? 3 : 1,
    stroke: look.colour("var(--muted)"),
    font: look.font,
    grid: { show: axis.side === "left", stroke: look.colour("var(--line)"), width: 0.6 },
    ticks: { show: false },
    gap: 0.35 * look.rem,
    space: 2.2 * look.rem,
    // As wide as its longest label.
    size: (_, values) => Math.max(2.4, 0.8 + 0.44 * Math.max(0, ...(values ?? []).map((value) => value.length))) * look.rem,
    values: (_, splits) => splits.map((value) => format(value, axis.unit)),
  };
}

function timeAxis(look: Look): uPlot.Axis {
  const hands = (at: number) => new Date(at * 1000).toTimeString().slice(0, 5);
  return {
    stroke: look.colour("var(--muted)"), font: look.font, ticks: { show: false }, grid: { stroke: look.colour("var(--line)"), width: 0.6 },
    size: 1.8 * look.rem, gap: 0.4 * look.rem, space: 4.2 * look.rem, incrs: TIME_STEPS, values: (_, splits) => splits.map(hands),
  };
}

export function panelOptions(size: Size, picture: () => Picture, onHover: (index: number | null) => void): uPlot.Options {
  const look = lookOf();
  const { panel, series } = picture();
  const bare = panel.type === "stat";
  const [left, right] = [axisOf(series, "left"), axisOf(series, "right")];
  const zones = bare ? [] : zonesOf(panel.field);
  const axes = [timeAxis(look), ...[left, right].flatMap((axis) => (axis ? [valueAxis(axis, look)] : []))];
  return {
    ...size,
    padding: bare ? [2, 0, 0, 0] : [0.5 * look.rem, right ? 0 : 0.9 * look.rem, 0, left ? 0 : 0.9 * look.rem],
    legend: { show: false },
    cursor: bare ? { show: false } : { y: false, drag: { x: false, y: false }, points: { size: 6 }, sync: { key: SHARED, setSeries: false, scales: ["x", null] } },
    scales: {
      x: { time: true, range: () => [picture().window.start, picture().window.end] },
      y: scaleOf(left),
      y2: scaleOf(right),
    },
    axes: bare ? axes.map((axis) => ({ ...axis, show: false })) : axes,
    series: [{}, ...series.map((each) => line(each, look))],
    bands: bandsOf(series).map((pair) => ({ series: pair })),
    hooks: {
      drawClear: [(plot) => drawZones(plot, zones.filter((zone) => zone.area), look, drawArea)],
      draw: [(plot) => drawZones(plot, zones.filter((zone) => zone.line), look, drawLine)],
      setCursor: [(plot) => onHover(plot.cursor.idx ?? null)],
    },
  };
}

type Draw = (plot: uPlot, zone: Zone, look: Look, y: (value: number) => number) => void;

/** Within the plot; thresholds belong to the left axis. */
function drawZones(plot: uPlot, zones: readonly Zone[], look: Look, draw: Draw): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const zone of zones) draw(plot, zone, look, (value) => plot.valToPos(value, "y", true));
  ctx.restore();
}

function drawArea({ ctx, bbox }: uPlot, zone: Zone, look: Look, y: (value: number) => number): void {
  const top = zone.to === null ? bbox.top : y(zone.to);
  ctx.fillStyle = faded(look.colour(zone.colour), 14);
  ctx.fillRect(bbox.left, top, bbox.width, y(zone.from) - top);
}

function drawLine({ ctx, bbox }: uPlot, zone: Zone, look: Look, y: (value: number) => number): void {
  const ratio = uPlot.pxRatio;
  const at = y(zone.from);
  ctx.strokeStyle = ctx.fillStyle = look.colour(zone.colour);
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash(zone.line === "dashed" ? [6 * ratio, 4 * ratio] : []);
  ctx.beginPath();
  ctx.moveTo(bbox.left, at);
  ctx.lineTo(bbox.left + bbox.width, at);
  ctx.stroke();
  ctx.font = look.font.replace(/^[\d.]+/, (size) => String(Number(size) * ratio));
  ctx.textBaseline = "bottom";
  ctx.textAlign = "left";
  ctx.fillText(zone.label, bbox.left + 4 * ratio, at - 2 * ratio);
}
