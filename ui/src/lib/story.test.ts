import { describe, expect, it } from "vitest";
import { aSnapshot, aState, aWorker } from "../fixtures";
import { atLevel, levelOf, STAGES, STORY, stageOf } from "./story";

const quiet = { ...aWorker(0).speculation, drafts: 0, drafted_tokens: 0, accepted_tokens: 0 };
const workers = (engine: string, drafting: boolean) => [aWorker(0, { engine, ...(drafting ? {} : { speculation: quiet }) })];
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
  ["round-robin", "h200-llama-70b-fp8", false, "round-robin"],
  ["kv", "h200-llama-70b-fp8", false, "kv"],
  ["kv", "h200-llama-70b-fp8-draft", true, "kv+draft"],
  ["kv", "h200-llama-70b-fp8-eagle3", true, "kv+eagle3"],
  // Before the first draft, too.
  ["kv", "h200-llama-70b-fp8-eagle3", false, "kv+eagle3"],
  ["kv", "llama", true, null],
  ["round-robin", "h200-llama-70b-fp8-eagle3", true, null],
  ["least-loaded", "h200-llama-70b-fp8", false, null],
])("mode %s on %s is a stage", (mode, engine, drafting, stage) => {
  expect(stageOf({ router: router(mode), workers: workers(engine, drafting) })).toBe(stage);
});
