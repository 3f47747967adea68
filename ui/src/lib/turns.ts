/** Lines of the chart of TTFT by turn number, and its scales. */
import type { ModeFigures, TurnNumberFigures } from "../api/types";
import { cellOf, KV, type Match, RR } from "./baseline";
import { number } from "./format";
import { modeName } from "./mode";

export type Percentile = "p50" | "p95";
export type TurnPoint = { turn: number; value: number; samples: number };
export type TurnLine = { mode: string; label: string; live: boolean; points: TurnPoint[] };

const pointsOf = (turns: readonly TurnNumberFigures[], percentile: Percentile): TurnPoint[] =>
  turns.flatMap((each) => {
    const value = percentile === "p50" ? each.ttft_ms_p50 : each.ttft_ms_p95;
    return value === null ? [] : [{ turn: each.turn, value, samples: each.samples }];
  });

/** What was measured by mode, then the baseline's two modes at the level that matches. */
export function turnLines(byMode: readonly ModeFigures[], match: Match | null, percentile: Percentile): TurnLine[] {
  const live = byMode.map((figures): TurnLine => ({ mode: figures.mode, label: `${modeName(figures.mode)}, live`, live: true, points: pointsOf(figures.turns, percentile) }));
  const fixed = [KV, RR].flatMap((mode): TurnLine[] => {
    const cell = cellOf(match?.level, mode);
    return cell ? [{ mode, label: `${modeName(mode)}, baseline`, live: false, points: pointsOf(cell.turns, percentile) }] : [];
  });
  return [...live, ...fixed].filter((line) => line.points.length > 0);
}

/** Round values from 0 to at least `largest`, about five of them. */
export function ticks(largest: number): number[] {
  const rough = Math.max(largest, 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  return Array.from({ length: Math.ceil(Math.max(largest, 1) / step) + 1 }, (_, index) => index * step);
}

/** The whole chart in words. */
export function inWords(lines: readonly TurnLine[]): string {
  if (lines.length === 0) return "Nothing measured yet.";
  return lines.map((line) => `${line.label}: ${line.points.map((point) => `turn ${point.turn} ${number(point.value)} ms`).join(", ")}.`).join(" ");
}
