/** What visitors ask, and answers made of the figures of this moment. */
import type { Baseline, State } from "../api/types";
import { cellOf, inVirtualTime, liveMatch, RR } from "./baseline";
import { duration, ms, number, percent, seconds } from "./format";
import { gpuSummary } from "./hardware";
import { isElsewhere, looksAtCaches, modeName } from "./mode";
import { PUBLISHED } from "./published";

export type QuestionId = "rps" | "tops" | "benchmarks" | "decision" | "model" | "itl" | "hits" | "real" | "disaggregation" | "crossing";
export type Question = { id: QuestionId; question: string; answer: string };

export function questions(state: State, baseline: Baseline | null): Question[] {
  const all: Question[] = [
    { id: "real", question: "Is this real?", answer: real(state) },
    { id: "model", question: "What model is this?", answer: model(state) },
    { id: "rps", question: "Why is RPS so low?", answer: rps(state) },
    { id: "tops", question: "Is that much throughput?", answer: tops(state, baseline) },
    { id: "decision", question: "How does the router decide?", answer: decision(state) },
    { id: "disaggregation", question: "Is this disaggregated inference?", answer: disaggregation(state) },
    { id: "hits", question: "Why is the hit rate high under round robin, too?", answer: hits(state, baseline) },
    { id: "itl", question: "Why is ITL the same?", answer: itl(baseline) },
    { id: "crossing", question: "Why does round robin win at the highest load?", answer: crossing(baseline) },
    { id: "benchmarks", question: "How were the benchmarks run?", answer: benchmarks(baseline) },
  ];
  return all.filter(({ answer }) => answer !== "");
}

export const questionOf = (all: readonly Question[], id: QuestionId): Question | null => all.find((each) => each.id === id) ?? null;

function real({ simulated, router }: State): string {
  if (isElsewhere(router)) return "Requests, answers and latencies are those of the target, measured at the client.";
  if (!simulated) return "Yes: engines compute, and requests, routing, caches and latencies are measured as they happen.";
  return "Requests, routing, cache contents and measurements are real. The engines are simulated: no GPU computes here, answers are stand-ins, and every step takes as long as the profile of the hardware says. Whatever comes from this is marked as simulated.";
}

function model(state: State): string {
  // Not every engine says what it runs on.
  const gpus = gpuSummary(state.workers);
  const hardware = gpus === "" ? "" : ` on ${gpus}`;
  const others = state.models.filter((each) => each.name !== state.model).map((each) => each.name);
  return `${state.model}${hardware}${state.simulated ? ", simulated" : ""}.${others.length > 0 ? ` Served too: ${others.join(", ")}.` : ""}`;
}

/** Conversations in flight over the time that one answer takes: Little's law, with the figures of now. */
function rps({ load }: State): string {
  const general = "A request here is a turn of a long conversation, not a short call: it carries the whole history, and its answer takes as long as its tokens take to be generated. Compare tokens per second.";
  if (!load || load.totals.requests === 0 || load.window.e2e_ms.p50 === null) return general;
  const { totals, window } = load;
  const answered = Math.max(1, totals.requests - totals.failures);
  const [prompt, output] = [totals.prompt_tokens / answered, totals.output_tokens / answered];
  return `${general} Now: prompts of ${number(prompt)} tokens, answers of ${number(output)} that take ${seconds(window.e2e_ms.p50)}. ${number(load.conversations.in_flight)} in flight, each that long, make ${number(window.rps, 1)} requests and ${number(window.tops)} tokens per second.`;
}

function tops({ load }: State, baseline: Baseline | null): string {
  const rr = cellOf(liveMatch(baseline, load)?.level, RR);
  const beside = rr ? ` Round robin's ${number(rr.tops)} tokens/s come from the ${baseline?.simulated ? "simulated " : ""}sweep at the same number of conversations.` : "";
  return `Each conversation sends its next turn only when the last is answered, so throughput grows as answers come sooner.${beside}`;
}

function decision({ router, block_size }: State): string {
  if (isElsewhere(router)) return "";
  const now = looksAtCaches(router.mode) ? "" : ` The mode now, ${modeName(router.mode)}, does not look at caches.`;
  return `It knows which blocks of ${number(block_size)} tokens every worker holds. In mode KV-aware it adds up, for each worker, the time to the first token there, the wait, and what the request costs the others, and takes the least. The KV Routing page shows every sum.${now}`;
}

function hits({ load }: State, baseline: Baseline | null): string {
  if (!load) return "";
  const rr = cellOf(liveMatch(baseline, load)?.level, RR);
  const figure = rr && rr.kv_hit_pct !== null ? ` The sweep has ${percent(rr.kv_hit_pct)} for it.` : "";
  const why = load.workload.unique
    ? "Every conversation begins with a text of its own here, so under round robin a hit is chance: the turn before happened to go to the same worker."
    : `Conversations begin with ${number(load.workload.starters)} shared texts, and soon every worker holds them all. What round robin loses is the rest of the history, which one worker alone holds: few tokens by share, but computed anew each time.`;
  return why + figure;
}

function itl(baseline: Baseline | null): string {
  const why = "Routing decides where a prompt is computed, which shows before the first token. After it, every answer advances one token a step, in a batch of the same size, whatever routed it.";
  const how = baseline && inVirtualTime(baseline) ? " The baseline's virtual time has no jitter, so live ITL is not judged against it." : "";
  return why + how;
}

const disaggregation = ({ router }: State): string =>
  isElsewhere(router) ? "" : "No: every worker computes both prompts and answers, and no KV block moves from one to another. What is shown is the effect of routing alone.";

/** A mode that weighs blocks. */
const BLOCKS = "kv-blocks";

/** From the sweep if it has such a mode, otherwise from the published table. */
function crossing(baseline: Baseline | null): string {
  const swept = baseline?.levels.some((level) => cellOf(level, BLOCKS) !== null) ? baseline.levels : null;
  const last = (swept ?? PUBLISHED.levels).at(-1);
  const [rr, blocks] = [cellOf(last, RR), cellOf(last, BLOCKS)];
  if (!last || !rr || !blocks || rr.ttft_ms.p95 === null || blocks.ttft_ms.p95 === null || blocks.ttft_ms.p95 <= rr.ttft_ms.p95) return "";
  const whose = swept ? "In this sweep" : "In the published table";
  const figures = `${whose}, at ${number(last.concurrency)} conversations: TTFT p95 ${ms(blocks.ttft_ms.p95)}, round robin ${ms(rr.ttft_ms.p95)}; tokens per second ${number(blocks.tops)}, round robin ${number(rr.tops)}.`;
  return `A rule that weighs blocks keeps conversations where their blocks are, even when the batch there is full. Requests then wait for a place, and their first token waits with them. ${figures} Mode KV-aware never sends to a full batch while another worker has a free slot.`;
}

function benchmarks(baseline: Baseline | null): string {
  if (!baseline) return "There is no sweep to show here: --baseline shows one that homing sweep wrote.";
  const levels = baseline.levels.map((level) => level.concurrency);
  const modes = (baseline.levels[0]?.cells ?? []).map((cell) => modeName(cell.mode));
  const clock = inVirtualTime(baseline) ? " in virtual time: the same router, scheduler and caches, driven by a clock that jumps" : baseline.simulated ? " on simulated engines in real time" : " on real engines";
  const times = baseline.repeats > 1 ? `, ${number(baseline.repeats)} times` : "";
  return `The same conversations in each mode (${modes.join(", ")}) at ${number(levels.length)} levels, ${Math.min(...levels)} to ${Math.max(...levels)} at once${clock}. Each run: ${duration(baseline.warmup_s)} to warm up, ${duration(baseline.window_s)} measured${times}.`;
}
