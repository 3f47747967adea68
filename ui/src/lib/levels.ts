/** The table of levels: which figures stand in it, by what is compared with round robin. */
import type { Baseline, BaselineCell, BaselineLevel, Slos } from "../api/types";
import { capacity, certainty, isJudged, losses, RR, undecided } from "./baseline";
import { modeName } from "./mode";

export type Group = {
  title: string;
  digits: 0 | 1;
  of: (cell: BaselineCell) => number | null;
  /** A figure's name among the verdicts. */
  verdict: string;
  /** Whether less is better, more is better. */
  less: boolean;
  objective: (slos: Slos) => number | null;
};

const TTFT: Group = { title: "TTFT p95, ms", digits: 0, of: (cell) => cell.ttft_ms.p95, verdict: "ttft_ms_p95", less: true, objective: (slos) => slos.ttft_p95_ms };
const TPOT: Group = { title: "TPOT p95, ms", digits: 1, of: (cell) => cell.tpot_ms.p95, verdict: "tpot_ms_p95", less: true, objective: (slos) => slos.tpot_p95_ms };
const ITL: Group = { title: "ITL p95, ms", digits: 1, of: (cell) => cell.itl_ms.p95, verdict: "itl_ms_p95", less: true, objective: () => null };
const TOPS: Group = { title: "TOPS, tokens/s", digits: 0, of: (cell) => cell.tops, verdict: "tops", less: false, objective: () => null };
const HIT: Group = { title: "KV hit, %", digits: 1, of: (cell) => cell.kv_hit_pct, verdict: "kv_hit_pct", less: false, objective: () => null };

/** ITL stands in for TPOT where nobody measured that. */
export const groupsOf = (levels: readonly BaselineLevel[]): Group[] => [
  TTFT,
  levels.some((level) => level.cells.some((cell) => cell.tpot_ms.p95 !== null)) ? TPOT : ITL,
  TOPS,
  HIT,
];

/** Modes that were measured beside round robin, by name. */
export const rivals = (levels: readonly BaselineLevel[]): string[] => [...new Set(levels.flatMap((level) => level.cells.map((cell) => cell.mode)))].filter((mode) => mode !== RR);

export const isUnsure = (level: BaselineLevel, mode: string, group: Group): boolean => certainty(level, mode, group.verdict) === "not-significant";

/** What a sweep's table says, good and bad. */
export function verdict(baseline: Baseline, mode: string, slos: Slos): string {
  const name = `${modeName(mode)} routing`;
  const upTo = (which: string) => {
    const level = capacity(baseline, which, slos);
    return level === null ? "at no level" : `up to ${level} conversations`;
  };
  const where = ({ ttft, tpot }: { ttft: number[]; tpot: number[] }) =>
    [ttft.length > 0 ? `TTFT at ${ttft.join(", ")}` : "", tpot.length > 0 ? `TPOT at ${tpot.join(", ")}` : ""].filter(Boolean).join("; ");
  const judged = isJudged(baseline, mode);
  const [lost, even] = [where(losses(baseline, mode)), where(undecided(baseline, mode))];
  const loss = lost && ` Here ${name} ${judged ? "loses" : "was slower"}: ${lost}.`;
  const runs = baseline.repeats === 1 ? "1 run" : `${baseline.repeats} runs`;
  const chance = judged ? even && ` Not significant: ${even}.` : ` Not enough runs to tell differences from chance: ${runs} of each level.`;
  return `Both objectives are kept ${upTo(mode)} with ${name}, ${upTo(RR)} with round robin.${loss}${chance}`;
}
