/**
 * The load generator's settings as text fields: how each is shown, read back and refused. What
 * makes sense is the server's to say; here only what is no number is turned away.
 */
import type { Settings } from "../api/types";

/** What a form sends: a few of the settings. */
export type Change = Partial<Settings>;

export type Field = {
  /** The setting, as the server names it in a refusal. */
  name: keyof Settings;
  label: string;
  /** Behind the field. */
  unit: string;
  /** For each text of the field: one, or from and to. */
  parts: readonly string[];
  /** What an empty field means. */
  empty: string | null;
  show: (settings: Settings) => string[];
  /** `null` if a text is no number. */
  read: (texts: readonly string[]) => Change | null;
};

const NUMBER = /^\d+([.,]\d+)?$/;
const numeric = (text: string | undefined): number | null => (text !== undefined && NUMBER.test(text.trim()) ? Number(text.trim().replace(",", ".")) : null);

type RangeName = "turns" | "think_time_s";
type RateName = "arrivals_per_second" | "max_requests_per_second";

const range = (name: RangeName, label: string, unit: string): Field => ({
  name, label, unit, parts: ["from", "to"], empty: null,
  show: (settings) => [String(settings[name].start), String(settings[name].end)],
  read: ([from, to]) => {
    const [start, end] = [numeric(from), numeric(to)];
    return start === null || end === null ? null : { [name]: { start, end } };
  },
});

const rate = (name: RateName, label: string, unit: string, empty: string): Field => ({
  name, label, unit, empty, parts: [""],
  show: (settings) => [settings[name] === null ? "" : String(settings[name])],
  read: ([text = ""]) => {
    if (text.trim() === "") return { [name]: null };
    const value = numeric(text);
    return value === null ? null : { [name]: value };
  },
});

export const FIELDS: readonly Field[] = [
  range("turns", "Turns per conversation", ""),
  range("think_time_s", "Think time between turns", "s"),
  rate("arrivals_per_second", "New conversations", "per second", "as many as the slider says"),
  rate("max_requests_per_second", "Requests at most", "per second", "no limit"),
];

export const ZIPF: Field = {
  name: "zipf", label: "Zipf exponent", unit: "", parts: [""], empty: null,
  show: ({ zipf }) => [zipf === null ? "" : String(zipf)],
  read: ([text]) => {
    const zipf = numeric(text);
    return zipf === null ? null : { zipf };
  },
};

/** What conversations begin with, as one choice. */
export type Beginning = "alike" | "zipf" | "own";
export const BEGINNINGS: Record<Beginning, string> = { alike: "shared texts, all alike", zipf: "shared texts, some more popular", own: "a text of its own each" };
const USUAL_EXPONENT = 1;

export const beginningOf = ({ starters, zipf }: Pick<Settings, "starters" | "zipf">): Beginning => (starters === "unique" ? "own" : zipf === null ? "alike" : "zipf");

export function withBeginning(beginning: Beginning): Change {
  if (beginning === "own") return { starters: "unique", zipf: null };
  return { starters: "shared", zipf: beginning === "zipf" ? USUAL_EXPONENT : null };
}
