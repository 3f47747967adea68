/** What the story page needs of a sweep's summary.json, chosen when the pages are built. */

export type StoryCell = {
  mode: string;
  concurrency: number;
  ttft_p95_ms: number | null;
  tpot_p95_ms: number | null;
  /** Output tokens per second. */
  tops: number;
  acceptance_pct: number | null;
  tokens_per_step: number | null;
};

export type Story = { simulated: boolean; workers: number; repeats: number; profiles: string; levels: number[]; cells: StoryCell[] };

type Percentiles = { p95: number | null };
/** A part of what `homing sweep` writes. */
export type Summary = {
  simulated: boolean;
  workers: number;
  repeats: number;
  profile: string;
  levels: number[];
  cells: Array<{ mode: string; concurrency: number; ttft_ms: Percentiles; tpot_ms: Percentiles; tops: number; speculation?: { acceptance_pct: number; tokens_per_step: number } }>;
};

export function storyOf({ simulated, workers, repeats, profile, levels, cells }: Summary): Story {
  return {
    simulated, workers, repeats, profiles: profile, levels,
    cells: cells.map(({ mode, concurrency, ttft_ms, tpot_ms, tops, speculation }) => ({
      mode, concurrency, tops,
      ttft_p95_ms: ttft_ms.p95,
      tpot_p95_ms: tpot_ms.p95,
      acceptance_pct: speculation?.acceptance_pct ?? null,
      tokens_per_step: speculation?.tokens_per_step ?? null,
    })),
  };
}
