/** Measurements that others have published, in the form of a sweep of our own. */
import table from "../../../benches/published/three-h200.csv?raw";
import type { BaselineCell, BaselineFigures } from "../api/types";

export type Published = {
  /** Whose they are and how they came about: the file's own comments. */
  about: string;
  levels: Array<{ concurrency: number; cells: BaselineCell[] }>;
};

const figures = (p50: number, p95: number): BaselineFigures => ({ p50, p95, p99: null });
const unknown: BaselineFigures = { p50: null, p95: null, p99: null };

/** A line of names, lines of values, `#` before comments. What a column does not tell is not known. */
export function parsed(csv: string): Published {
  const lines = csv.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const about = lines.filter((line) => line.startsWith("#")).map((line) => line.slice(1).trim()).join(" ");
  const [head = "", ...rows] = lines.filter((line) => !line.startsWith("#"));
  const names = head.split(",");
  const levels = new Map<number, BaselineCell[]>();
  for (const row of rows) {
    const values = row.split(",");
    const text = (name: string) => values[names.indexOf(name)] ?? "";
    const of = (name: string) => Number(text(name));
    const cell: BaselineCell = {
      mode: text("mode"), requests: 0, errors: 0, ttft_ms: figures(of("ttft_ms_p50"), of("ttft_ms_p95")), tpot_ms: unknown,
      itl_ms: figures(of("itl_ms_p50"), of("itl_ms_p95")), e2e_ms: figures(1000 * of("e2e_s_p50"), 1000 * of("e2e_s_p95")),
      rps: of("rps"), tops: of("tops"), kv_hit_pct: of("kv_hit_pct"), turns: [], verdicts: {},
    };
    levels.set(of("concurrency"), [...(levels.get(of("concurrency")) ?? []), cell]);
  }
  return { about, levels: [...levels].map(([concurrency, cells]) => ({ concurrency, cells })) };
}

export const PUBLISHED: Published = parsed(table);
