import { expect, it } from "vitest";
import { cellOf } from "./baseline";
import { groupsOf, rivals } from "./levels";
import { parsed, PUBLISHED } from "./published";

it("reads what others measured, and knows no more than they tell", () => {
  const { about, levels } = parsed("# Three cards.\n# By others.\nconcurrency,mode,ttft_ms_p95,tops,e2e_s_p50\n60,round-robin,655,2146.9,24.6\n60,kv-blocks,446,2262.8,24.3\n");
  expect(about).toBe("Three cards. By others.");
  expect(cellOf(levels[0], "kv-blocks")).toMatchObject({ tops: 2262.8, ttft_ms: { p95: 446 }, e2e_ms: { p50: 24_300 }, tpot_ms: { p95: null } });
});

it("has the file that comes with the sources", () => {
  expect(PUBLISHED.levels.map((level) => level.concurrency)).toEqual([60, 80, 100, 120, 140, 160, 180]);
  expect(rivals(PUBLISHED.levels)).toEqual(["kv-blocks"]);
  expect(groupsOf(PUBLISHED.levels).map((group) => group.title)).toContain("ITL p95, ms");
  expect(PUBLISHED.about).toContain("Published measurements");
  expect(PUBLISHED.levels.flatMap((level) => level.cells).every((cell) => [cell.ttft_ms.p95, cell.tops, cell.kv_hit_pct].every(Number.isFinite))).toBe(true);
});
