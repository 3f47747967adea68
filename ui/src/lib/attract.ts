/**
 * The story that the console tells by itself: round robin, the switch to KV-aware routing, later
 * turns that start sooner, the block map that fills, the sweep of four stages, and again.
 *
 * A pure state machine: states and times go in, effects come out, and `components/booth` does
 * them by the API that the buttons use. Captions state only what the state at hand shows.
 */
import type { State, TurnNumberFigures } from "../api/types";
import { KV, RR } from "./baseline";
import { number, percent } from "./format";
import { atLevel, levelOf, STORY } from "./story";
import { workerName } from "./workers";

export type Effect = { kind: "open"; href: string } | { kind: "route"; mode: string } | { kind: "start" };

export type Walk = {
  scene: number;
  sinceMs: number;
  /** The mode that was set when the walk began. */
  before: string;
  /** Since when a mode has been asked for that the server does not show yet. */
  askedMs: number | null;
};

/** `walk` is `null` when it is over. */
export type Step = { walk: Walk | null; effects: Effect[] };

type Scene = {
  href: string;
  mode: string;
  leastS: number;
  /** Until this at most, while it is not `done`. */
  mostS: number;
  done: (state: State) => boolean;
  caption: (state: State) => string;
};

/** A turn number of which fewer were answered shows chance. */
const ENOUGH = 20;
/** How long the server may take to show a mode that it accepted. */
const PATIENCE_MS = 10_000;

const turnsOf = (state: State, mode: string): TurnNumberFigures[] =>
  (state.load?.by_mode.find((figures) => figures.mode === mode)?.turns ?? []).filter(({ turn, samples, ttft_ms_p50 }) => turn > 1 && samples >= ENOUGH && ttft_ms_p50 !== null);

/** The latest turn that was answered often enough in every one of these modes. */
function latestTurn(state: State, modes: readonly string[]): TurnNumberFigures[] | null {
  const [first = [], ...others] = modes.map((mode) => turnsOf(state, mode));
  const common = first.filter(({ turn }) => others.every((turns) => turns.some((each) => each.turn === turn)));
  const last = common.at(-1);
  return last ? [last, ...others.flatMap((turns) => turns.filter(({ turn }) => turn === last.turn))] : null;
}

const median = (figures: TurnNumberFigures | undefined): string => `${number(figures?.ttft_ms_p50)} ms`;

function roundRobin(state: State): string {
  const [turn] = latestTurn(state, [RR]) ?? [];
  if (!turn) return "Round robin: workers take turns, whatever their caches hold.";
  return `Round robin: at turn ${turn.turn}, ${percent(turn.cached_pct, 0)} of a prompt is cached; first token after ${median(turn)} (median).`;
}

function byTurn(state: State): string {
  const [home, astray] = latestTurn(state, [KV, RR]) ?? [];
  if (home && astray) return `Turn ${home.turn}: first token after ${median(home)} KV-aware, ${median(astray)} with round robin (medians).`;
  const [alone] = latestTurn(state, [KV]) ?? [];
  return alone ? `KV-aware: at turn ${alone.turn}, ${percent(alone.cached_pct, 0)} of a prompt is cached; first token after ${median(alone)} (median).` : "KV-aware: the first conversations are being measured.";
}

function blocks({ last_decision: last }: State): string {
  const winner = last?.candidates.find((candidate) => candidate.worker === last.winner);
  if (!last || !winner) return "The block map: which worker holds which part of a prompt.";
  return `Request ${number(last.number)}: ${workerName(winner.worker)} holds ${number(winner.overlap_blocks)} of its ${number(last.blocks)} blocks, and gets it.`;
}

function sweep(state: State): string {
  const [first, ...later] = atLevel(STORY, levelOf(STORY, state));
  const last = later.at(-1);
  if (!first || !last) return "Four stages at one load.";
  return `${STORY.simulated ? "Simulated sweep" : "Sweep"}, ${first.concurrency} conversations: ${number(first.tops)} tokens/s with round robin, ${number(last.tops)} with KV-aware routing and EAGLE-3.`;
}

const always = () => true;

export const SCENES: readonly Scene[] = [
  { href: "#/", mode: RR, leastS: 20, mostS: 120, done: (state) => latestTurn(state, [RR]) !== null, caption: roundRobin },
  { href: "#/", mode: KV, leastS: 8, mostS: 8, done: always, caption: () => "The router is KV-aware now: a turn goes where its history is cached." },
  { href: "#/", mode: KV, leastS: 30, mostS: 120, done: (state) => latestTurn(state, [KV, RR]) !== null, caption: byTurn },
  { href: "#/routing", mode: KV, leastS: 30, mostS: 30, done: always, caption: blocks },
  { href: "#/story", mode: KV, leastS: 25, mostS: 25, done: always, caption: sweep },
];

const sceneOf = (index: number): Scene => SCENES[index % SCENES.length] as Scene;

/** Whether this viewer may tell the story on this system. */
export const canWalk = (state: State): boolean => state.control.granted && state.load !== null && [RR, KV].every((mode) => state.router.modes.includes(mode));

function enter(scene: number, state: State, nowMs: number, before: string): Step {
  const { href, mode } = sceneOf(scene);
  const changes = state.router.mode !== mode;
  return {
    walk: { scene, sinceMs: nowMs, before, askedMs: changes ? nowMs : null },
    effects: [{ kind: "open", href }, ...(changes ? [{ kind: "route", mode } as const] : [])],
  };
}

/** Starts load where none runs: there is nothing to tell without it. */
export function begin(state: State, nowMs: number): Step {
  const { walk, effects } = enter(0, state, nowMs, state.router.mode);
  return { walk, effects: state.load?.phase === "stopped" ? [...effects, { kind: "start" }] : effects };
}

export function advance(walk: Walk, state: State, nowMs: number): Step {
  const scene = sceneOf(walk.scene);
  const elapsedS = (nowMs - walk.sinceMs) / 1000;
  if (state.router.mode !== scene.mode) {
    // Refused, or somebody else chose a mode: theirs holds.
    const waits = walk.askedMs !== null && nowMs - walk.askedMs < PATIENCE_MS;
    return { walk: waits ? walk : null, effects: [] };
  }
  if (elapsedS >= scene.mostS || (elapsedS >= scene.leastS && scene.done(state))) return enter((walk.scene + 1) % SCENES.length, state, nowMs, walk.before);
  return { walk: walk.askedMs === null ? walk : { ...walk, askedMs: null }, effects: [] };
}

/** Puts the mode back that was set before. */
export const stop = (walk: Walk, state: State): Effect[] =>
  state.router.mode === walk.before && walk.askedMs === null ? [] : [{ kind: "route", mode: walk.before }];

export const caption = (walk: Walk, state: State): string => sceneOf(walk.scene).caption(state);
