/** Values in Grafana's units, as text. */
import { DASH } from "../format";
import type { Unit } from "./types";

/** From this size on, in this many. */
type Scale = ReadonlyArray<readonly [from: number, one: number, suffix: string]>;

const SECONDS: Scale = [[3600, 3600, " h"], [60, 60, " min"], [1, 1, " s"], [1e-3, 1e-3, " ms"], [0, 1e-6, " µs"]];
const SHORT: Scale = [[1e9, 1e9, " Bil"], [1e6, 1e6, " Mil"], [1e3, 1e3, " K"], [0, 1, ""]];
const BYTES: Scale = [[2 ** 40, 2 ** 40, " TiB"], [2 ** 30, 2 ** 30, " GiB"], [2 ** 20, 2 ** 20, " MiB"], [2 ** 10, 2 ** 10, " KiB"], [0, 1, " B"]];
const rate = (suffix: string): Scale => SHORT.map(([from, one, prefix]) => [from, one, `${prefix} ${suffix}`] as const);

const SCALES: Record<Unit, { factor: number; scale: Scale }> = {
  none: { factor: 1, scale: [[0, 1, ""]] },
  short: { factor: 1, scale: SHORT },
  s: { factor: 1, scale: SECONDS },
  ms: { factor: 1e-3, scale: SECONDS },
  percent: { factor: 1, scale: [[0, 1, "%"]] },
  percentunit: { factor: 100, scale: [[0, 1, "%"]] },
  reqps: { factor: 1, scale: rate("req/s") },
  ops: { factor: 1, scale: rate("ops/s") },
  bytes: { factor: 1, scale: BYTES },
};

const FIXED = new Map<number, Intl.NumberFormat>();

function fixed(value: number, digits: number): string {
  const kept = Math.min(10, Math.max(0, Math.round(digits)));
  let format = FIXED.get(kept);
  if (!format) FIXED.set(kept, (format = new Intl.NumberFormat("en-US", { minimumFractionDigits: kept, maximumFractionDigits: kept })));
  return format.format(value);
}

/** Three digits that count, where nobody said how many decimals. */
const usualDigits = (size: number): number => (size === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(size) + 1e-9)));

/** What `value` reads as: with `decimals`, or with as many as say something. */
export function format(value: number | null | undefined, unit: Unit, decimals: number | null = null): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return DASH;
  const { factor, scale } = SCALES[unit];
  const whole = value * factor;
  const size = Math.abs(whole);
  // Nothing is nothing of the middle unit, not of the smallest.
  const row = size === 0 ? scale.find(([, one]) => one === 1) : scale.find(([from]) => size >= from * (1 - 1e-12));
  const [, one, suffix] = row ?? [0, 1, ""];
  const shown = whole / one;
  if (decimals !== null) return `${fixed(shown, decimals)}${suffix}`;
  const plain = fixed(shown, usualDigits(Math.abs(shown)));
  return `${plain.includes(".") ? plain.replace(/\.?0+$/, "") : plain}${suffix}`;
}
