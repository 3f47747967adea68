/** Figures for people. What does not exist is a dash, never 0. */

export const DASH = "—";

type Maybe = number | null | undefined;

const grouped = (digits: number) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const formatters = [grouped(0), grouped(1), grouped(2)] as const;

export function number(value: Maybe, digits: 0 | 1 | 2 = 0): string {
  return value === null || value === undefined || !Number.isFinite(value) ? DASH : formatters[digits].format(value);
}

/** Milliseconds, with a tenth where they are few. */
export function ms(value: Maybe): string {
  if (value === null || value === undefined) return DASH;
  return `${number(value, value < 100 ? 1 : 0)} ms`;
}

/** Milliseconds as seconds. */
export function seconds(valueMs: Maybe, digits: 0 | 1 | 2 = 1): string {
  return valueMs === null || valueMs === undefined ? DASH : `${number(valueMs / 1000, digits)} s`;
}

export function percent(value: Maybe, digits: 0 | 1 | 2 = 1): string {
  return value === null || value === undefined ? DASH : `${number(value, digits)} %`;
}

/** Such as `1 m 05 s`. */
export function duration(totalSeconds: number): string {
  const whole = Math.max(0, Math.round(totalSeconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (hours > 0) return `${hours} h ${String(minutes).padStart(2, "0")} m`;
  return minutes > 0 ? `${minutes} m ${String(rest).padStart(2, "0")} s` : `${rest} s`;
}

/** Of a day, in the viewer's zone. */
export function clock(unixMs: number): string {
  return new Date(unixMs).toLocaleTimeString("en-GB");
}

/** Memory, in the unit in which cards are sold and tools report it: a card of 141 GB has 140 GiB to use. */
export function gibibytes(bytes: Maybe): string {
  return bytes === null || bytes === undefined ? DASH : `${number(Math.floor(bytes / 2 ** 30))} GiB`;
}
