/**
 * The argument in three figures: up to how many conversations the objectives are kept, how much
 * sooner the first token comes, how many more tokens there are. Live where the window allows a
 * verdict, else from the sweep; each says which.
 */
import type { BaselineCell } from "../api/types";
import { capacity, cellOf, certainty, KV, RR } from "./baseline";
import { ENOUGH_P95, matchOf, rrOf, type Scene } from "./comparable";
import { measuredModes } from "./disturbance";
import { ms, number } from "./format";
import { looksAtCaches, modeName } from "./mode";
import { judged, judgedThroughput, more100, signed } from "./verdict";

export type Source = { /** Such as `live` or `sweep at 60`. */ name: string; simulated: boolean };
export type HeadlineFigure = {
  label: string;
  /** In large type; `null` where there is nothing to show. */
  value: string | null;
  unit: string;
  /** The figure behind it, or why there is none. */
  detail: string;
  /** Round robin's. */
  rr: string;
  better: boolean | null;
  source: Source | null;
  /** Why it is not live. */
  note: string;
};
export type Headline = { mode: string; figures: [HeadlineFigure, HeadlineFigure, HeadlineFigure]; /** Ours and round robin's capacity, as shares of the highest level. */ bars: [number, number] | null };

/** The mode that is held against round robin: the one that runs, if it looks at caches and was swept. */
export function contender({ state, baseline }: Scene): string {
  const { mode } = state.router;
  return looksAtCaches(mode) && baseline?.levels.some((level) => cellOf(level, mode)) ? mode : KV;
}

const missing = (label: string, why: string): HeadlineFigure => ({ label, value: null, unit: "", detail: why, rr: "", better: null, source: null, note: "" });

export function headline(scene: Scene, whyNoBaseline: string): Headline {
  const mode = contender(scene);
  const { capacityFigure, bars } = ofCapacity(scene, mode, whyNoBaseline);
  return { mode, bars, figures: [capacityFigure, ofTtft(scene, mode, whyNoBaseline), ofThroughput(scene, mode, whyNoBaseline)] };
}

const sweep = (scene: Scene, at?: number): Source => ({ name: at === undefined ? "sweep" : `sweep at ${number(at)}`, simulated: scene.baseline?.simulated ?? false });
const live = (scene: Scene): Source => ({ name: "live", simulated: scene.state.simulated });

function ofCapacity(scene: Scene, mode: string, why: string): { capacityFigure: HeadlineFigure; bars: Headline["bars"] } {
  const { baseline, state } = scene;
  const label = "Objectives kept up to";
  if (!baseline) return { capacityFigure: missing(label, why), bars: null };
  const highest = Math.max(...baseline.levels.map((level) => level.concurrency));
  if (!baseline.levels.some((level) => cellOf(level, mode))) return { capacityFigure: missing(label, `The sweep has no ${modeName(mode)}.`), bars: null };
  const [ours, theirs] = [capacity(baseline, mode, state.slos), capacity(baseline, RR, state.slos)];
  const capacityFigure: HeadlineFigure = {
    label,
    value: ours === null ? "no level" : number(ours),
    unit: ours === null ? "" : "conversations",
    detail: `with ${modeName(mode)}`,
    rr: theirs === null ? "at no level" : number(theirs),
    better: (ours ?? 0) === (theirs ?? 0) ? null : (ours ?? 0) > (theirs ?? 0),
    source: sweep(scene),
    note: "",
  };
  return { capacityFigure, bars: [(ours ?? 0) / highest, (theirs ?? 0) / highest] };
}

/** The cell of the sweep at the level of now, or at its lowest. */
function cells(scene: Scene, mode: string, figure: string): { ours: BaselineCell; rr: BaselineCell; at: number; /** Why the two are not to be compared. */ even: string | null } | null {
  const level = matchOf(scene)?.level ?? scene.baseline?.levels[0];
  const [ours, rr] = [cellOf(level, mode), cellOf(level, RR)];
  if (!level || !ours || !rr) return null;
  const even = certainty(level, mode, figure) === "not-significant" ? `No significant difference at ${number(level.concurrency)} conversations.` : null;
  return { ours, rr, at: level.concurrency, even };
}

function ofTtft(scene: Scene, mode: string, why: string): HeadlineFigure {
  const label = "TTFT p95";
  const window = scene.state.load?.window;
  const [now, rr] = [judged(scene, "ttft"), rrOf(scene)];
  const figure = (before: number | null | undefined, after: number | null | undefined, source: Source): HeadlineFigure => {
    if (!before || !after) return missing(label, "The sweep has no TTFT here.");
    const times = before / after;
    const better = Math.abs(times - 1) < 0.01 ? null : times > 1;
    const ratio = `${number(better === false ? 1 / times : times, 1)}×`;
    return { label, value: better === null ? "the same" : ratio, unit: better === null ? "" : better ? "faster" : "slower", detail: ms(after), rr: ms(before), better, source, note: now.doubt?.long ?? "" };
  };
  if (window && now.verdict?.of === "p95" && measuredModes(scene.state, scene.points).at(-1) === mode) {
    return figure(rr?.ttft_ms.p95, window.ttft_ms.p95, live(scene));
  }
  const found = cells(scene, mode, "ttft_ms_p95");
  if (!found) return missing(label, why);
  if (found.even !== null) return missing(label, found.even);
  if (Math.min(found.ours.requests, found.rr.requests) < ENOUGH_P95) return missing(label, `The sweep has fewer than ${ENOUGH_P95} requests at ${number(found.at)} conversations.`);
  return figure(found.rr.ttft_ms.p95, found.ours.ttft_ms.p95, sweep(scene, found.at));
}

function ofThroughput(scene: Scene, mode: string, why: string): HeadlineFigure {
  const label = "Output";
  const [now, rr, window] = [judgedThroughput(scene), rrOf(scene), scene.state.load?.window];
  const figure = (before: number, after: number, source: Source): HeadlineFigure => {
    const more = more100(before, after);
    if (more === null) return missing(label, "The sweep has no throughput here.");
    return { label, value: signed(more), unit: "tokens/s", detail: number(after), rr: number(before), better: Math.abs(more) < 1 ? null : more > 0, source, note: now.doubt?.long ?? "" };
  };
  if (window && rr && now.verdict && measuredModes(scene.state, scene.points).at(-1) === mode) return figure(rr.tops, window.tops, live(scene));
  const found = cells(scene, mode, "tops");
  if (found?.even) return missing(label, found.even);
  return found ? figure(found.rr.tops, found.ours.tops, sweep(scene, found.at)) : missing(label, why);
}
