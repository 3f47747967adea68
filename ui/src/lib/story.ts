/**
 * The four stages at one load: what the shipped sweep measured, and which stage a running system
 * is in. The figures come from docs/results/story when the pages are built.
 */
import STORY_FIGURES from "virtual:story";
import { Refused } from "../api/client";
import type { State, WorkerState } from "../api/types";
import { RR } from "./baseline";
import { looksAtCaches } from "./mode";
import type { Story, StoryCell } from "./story-file";
import { speculation } from "./totals";
import { staying } from "./workers";

export const STORY: Story = STORY_FIGURES;

export type Stage = { mode: string; name: string; words: string; /** Of the live system: its router's mode, and what the name of its workers' profile ends with. */ router: string; suffix: string };

/** In the order in which they are told. */
export const STAGES: readonly Stage[] = [
  { mode: "round-robin", name: "Round robin", words: "Workers take turns. A later turn often lands where its history is not cached.", router: "round-robin", suffix: "" },
  { mode: "kv", name: "KV-aware", words: "A turn goes to the worker that already holds its conversation.", router: "kv", suffix: "" },
  { mode: "kv+draft", name: "+ draft model", words: "A small model proposes tokens, the large one checks them in one step.", router: "kv", suffix: "-draft" },
  { mode: "kv+eagle3", name: "+ EAGLE-3", words: "A head on the model’s own states proposes them instead, at less cost.", router: "kv", suffix: "-eagle3" },
];

/** The cells of one load, in the order of the stages. */
export const atLevel = (story: Story, level: number | null): StoryCell[] =>
  STAGES.flatMap(({ mode }) => story.cells.filter((cell) => cell.concurrency === level && cell.mode === mode));

/** Without live load to be near to. */
const USUAL_LEVEL = 120;

/** The level of the sweep that is nearest to the live load. */
export function levelOf(story: Story, state: Pick<State, "load">): number | null {
  const settings = state.load?.settings;
  const live = settings && settings.arrivals_per_second === null ? settings.concurrency : (state.load?.conversations.active ?? USUAL_LEVEL);
  const [nearest] = [...story.levels].sort((one, other) => Math.abs(one - live) - Math.abs(other - live) || one - other);
  return nearest ?? null;
}

/** What a profile's name ends with that has other times than the story's, or drafts. */
const VARIANT = /-(published|draft|eagle3)$/;

/** The profile of a stage's workers; `null` where this system's cannot become such. */
export function profileOf({ suffix }: Stage, { workers, profiles }: Pick<State, "workers" | "profiles">): string | null {
  const here = staying(workers);
  const [engine, ...others] = new Set(here.map((worker) => worker.engine));
  if (engine === undefined || others.length > 0 || profiles.length === 0) return null;
  // Of a profile that was not shipped there is no other: it will do for stages without drafts, if it makes none.
  if (!profiles.includes(engine)) return suffix === "" && here.every((worker) => worker.drafter === "none") ? engine : null;
  const profile = engine.replace(VARIANT, "") + suffix;
  return profiles.includes(profile) ? profile : null;
}

export type Switch = { profile: string | null; mode: string | null };

/** What has to change for a stage; `null` if it cannot be had here. */
export function switchTo(stage: Stage, state: Pick<State, "workers" | "profiles" | "router">): Switch | null {
  const profile = profileOf(stage, state);
  if (profile === null || !state.router.modes.includes(stage.router)) return null;
  const same = staying(state.workers).every((worker) => worker.engine === profile);
  return { profile: same ? null : profile, mode: state.router.mode === stage.router ? null : stage.router };
}

/** Nothing is left to change. */
export const isThere = (wanted: Switch | null): boolean => wanted !== null && wanted.profile === null && wanted.mode === null;

/** Why a stage was refused. The limit of workers counts those that still finish what they run. */
export function whyRefused(cause: unknown): string {
  const message = cause instanceof Error ? cause.message : String(cause);
  const isFull = cause instanceof Refused && cause.status === 409 && !message.includes("leaving");
  return isFull ? `Workers are still leaving, or --max-workers is too small: ${message}` : message;
}

/** What proposes tokens, in the words of the stages; `null` if workers differ or it is none of them. */
function drafter(workers: readonly WorkerState[]): string | null {
  const [name, ...others] = new Set(workers.map((worker) => worker.drafter));
  if (others.length > 0) return null;
  return name === "draft-model" || name === "draft" ? "draft" : name === "eagle3" ? name : null;
}

/** The stage that a running system is in; `null` if it is none of the four. */
export function stageOf(state: Pick<State, "router" | "workers">): string | null {
  const workers = staying(state.workers);
  const drafts = speculation(workers) !== null || drafter(workers) !== null;
  if (state.router.mode === RR) return drafts ? null : RR;
  if (!looksAtCaches(state.router.mode)) return null;
  if (!drafts) return "kv";
  const by = drafter(workers);
  return by && `kv+${by}`;
}
