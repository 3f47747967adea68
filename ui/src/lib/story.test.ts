import { describe, expect, it } from "vitest";
import { Refused } from "../api/client";
import { aSnapshot, aState, aWorker } from "../fixtures";
import { atLevel, levelOf, STAGES, STORY, stageOf, switchTo, whyRefused } from "./story";

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

describe("a stage is brought about", () => {
  const profiles = ["base", "base-published", "base-draft", "base-eagle3", "other"];
  const changes = (engine: string, mode: string, more = {}) => {
    const state = aState({ workers: [aWorker(0, { engine }), aWorker(1, { engine: "base-draft", draining: true })], profiles, router: router(mode), ...more });
    return STAGES.map((stage) => switchTo(stage, state));
  };

  it("by workers of its profile and by its mode, as far as they differ", () => {
    expect(changes("base", "kv")).toEqual([{ profile: null, mode: "round-robin" }, { profile: null, mode: null }, { profile: "base-draft", mode: null }, { profile: "base-eagle3", mode: null }]);
    expect(changes("base-eagle3", "round-robin")).toEqual([{ profile: "base", mode: null }, { profile: "base", mode: "kv" }, { profile: "base-draft", mode: "kv" }, { profile: null, mode: "kv" }]);
  });

  it("on the story's own profiles, so that stages differ in nothing else", () => {
    expect(changes("base-published", "kv")).toEqual([{ profile: "base", mode: "round-robin" }, { profile: "base", mode: null }, { profile: "base-draft", mode: null }, { profile: "base-eagle3", mode: null }]);
  });

  it("only where there are such workers", () => {
    expect(changes("other", "kv")).toEqual([{ profile: null, mode: "round-robin" }, { profile: null, mode: null }, null, null]);
    expect(changes("base", "kv", { profiles: [] })).toEqual([null, null, null, null]);
    expect(changes("llama", "kv", { profiles: [] })).toEqual([null, null, null, null]);
  });

  it("by the router alone on workers of a profile that was not shipped, if they draft nothing", () => {
    expect(changes("mine", "kv")).toEqual([{ profile: null, mode: "round-robin" }, { profile: null, mode: null }, null, null]);
    expect(changes("mine", "kv", { workers: [aWorker(0, { engine: "mine", drafter: "eagle3" })] })).toEqual([null, null, null, null]);
  });
});

describe("a refused stage", () => {
  const full = "the limit of 6 workers is reached; see --max-workers";
  it.each([
    [new Refused(full, 409), `Workers are still leaving, or --max-workers is too small: ${full}`],
    [new Refused("3 workers are still leaving; try again when they have left", 409), "3 workers are still leaving; try again when they have left"],
    [new Refused("no such profile", 400), "no such profile"],
    [new Error("gone"), "gone"],
  ])("says why: %s", (cause, words) => expect(whyRefused(cause)).toBe(words));
});
