import { describe, expect, it } from "vitest";
import { aSnapshot, aState, aWorker } from "../fixtures";
import { atLevel, levelOf, STAGES, STORY, stageOf } from "./story";

const quiet = { ...aWorker(0).speculation, drafts: 0, drafted_tokens: 0, accepted_tokens: 0 };
const workers = (drafter: string, drafting: boolean) => [aWorker(0, { drafter, ...(drafting ? {} : { speculation: quiet }) })];
const router = (mode: string) => ({ ...aState().router, mode });

describe("the shipped sweep", () => {
  it("has every stage at every level, and says that it is simulated", () => {
    expect(STORY.simulated).toBe(true);
    for (const level of STORY.levels) expect(atLevel(STORY, level).map(({ mode }) => mode)).toEqual(STAGES.map(({ mode }) => mode));
  });

  it("knows drafts of the stages that draft alone", () => {
    const known = atLevel(STORY, STORY.levels[0] ?? null).map(({ acceptance_pct, tokens_per_step }) => acceptance_pct !== null && tokens_per_step !== null);
    expect(known).toEqual([false, false, true, true]);
  });

  it.each([[60, 60], [100, 120], [45, 30], [1000, 180]])("is shown for %i conversations at its level %i", (concurrency, level) => {
    const load = aSnapshot({ settings: { ...aSnapshot().settings, concurrency } });
    expect(levelOf(STORY, { load })).toBe(level);
  });

  it("is shown at a usual level without load", () => {
    expect(levelOf(STORY, { load: null })).toBe(120);
  });
});

it.each([
  ["round-robin", "none", false, "round-robin"],
  ["kv", "none", false, "kv"],
  ["kv", "draft-model", true, "kv+draft"],
  ["kv", "eagle3", true, "kv+eagle3"],
  // Before the first draft, too.
  ["kv", "eagle3", false, "kv+eagle3"],
  ["kv", "ngram", true, null],
  ["round-robin", "eagle3", true, null],
  ["least-loaded", "none", false, null],
])("mode %s with drafts by %s is a stage", (mode, drafter, drafting, stage) => {
  expect(stageOf({ router: router(mode), workers: workers(drafter, drafting) })).toBe(stage);
});
