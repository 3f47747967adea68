/**
 * The four stages at one load: what the shipped sweep measured, and which stage a running system
 * is in. The figures come from docs/results/story when the pages are built.
 */
import STORY_FIGURES from "virtual:story";
import type { State, WorkerState } from "../api/types";
import { RR } from "./baseline";
import { looksAtCaches } from "./mode";
import type { Story, StoryCell } from "./story-file";
import { speculation } from "./totals";

export const STORY: Story = STORY_FIGURES;

export type Stage = { mode: string; name: string; words: string };

/** In the order in which they are told. */
export const STAGES: readonly Stage[] = [
  { mode: "round-robin", name: "Round robin", words: "Workers take turns. A later turn often lands where its history is not cached." },
  { mode: "kv", name: "KV-aware", words: "A turn goes to the worker that already holds its conversation." },
  { mode: "kv+draft", name: "+ draft model", words: "A small model proposes tokens, the large one checks them in one step." },
  { mode: "kv+eagle3", name: "+ EAGLE-3", words: "A head on the model’s own states proposes them instead, at less cost." },
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

/** What proposes tokens, in the words of the stages; `null` if workers differ or it is none of them. */
function drafter(workers: readonly WorkerState[]): string | null {
  const [name, ...others] = new Set(workers.map((worker) => worker.drafter));
  if (others.length > 0) return null;
  return name === "draft-model" || name === "draft" ? "draft" : name === "eagle3" ? name : null;
}

/** The stage that a running system is in; `null` if it is none of the four. */
export function stageOf(state: Pick<State, "router" | "workers">): string | null {
  const drafts = speculation(state.workers) !== null || drafter(state.workers) !== null;
  if (state.router.mode === RR) return drafts ? null : RR;
  if (!looksAtCaches(state.router.mode)) return null;
  if (!drafts) return "kv";
  const by = drafter(state.workers);
  return by && `kv+${by}`;
}
