/** Why a worker was chosen, in words that need no knowledge of the router. */
import { number } from "./format";
import { looksAtCaches, modeName } from "./mode";
import { workerName } from "./workers";

/** The least that a decision and a turn's record have in common. */
export type Choice = {
  mode: string;
  blocks: number;
  candidates: ReadonlyArray<{ worker: string; overlap_blocks: number; in_flight: number; cost: number | null; /** Expected time to the first token, where it is told. */ ttft_ms?: number }>;
  queued_ms: number;
};
type Candidate = Choice["candidates"][number];

/** In seconds from a tenth on, below in milliseconds. */
const time = (ms: number): string => (ms < 95 ? `${number(ms)} ms` : `${number(ms / 1000, ms < 9_950 ? 1 : 0)} s`);

const least = (some: readonly Candidate[], of: (candidate: Candidate) => number): Candidate | null =>
  some.reduce<Candidate | null>((best, one) => (best === null || of(one) < of(best) ? one : best), null);

/** Such as `worker 1 holds 115 of 115 blocks: first token in 0.2 s instead of 0.6 s`. */
export function plainReason(choice: Choice, winner: string | null): string {
  const { mode, blocks, candidates, queued_ms } = choice;
  const chosen = candidates.find((one) => one.worker === winner);
  if (!chosen) return `Routed by ${modeName(mode)}.`;
  const others = candidates.filter((one) => one.worker !== winner);
  const waited = queued_ms >= 0.05 ? `After ${time(queued_ms)} in the queue for a free slot: ` : "";
  return waited + (looksAtCaches(mode) ? byCache(chosen, others, blocks) : byTurn(chosen, others, blocks));
}

const holds = ({ worker, overlap_blocks }: Candidate, blocks: number) => `${workerName(worker)} holds ${number(overlap_blocks)} of ${number(blocks)} blocks`;

function byCache(chosen: Candidate, others: readonly Candidate[], blocks: number): string {
  if (others.length === 0) return `${holds(chosen, blocks)}, and no other worker could take it`;
  const most = Math.max(...others.map((one) => one.overlap_blocks));
  const holder = others.find((one) => one.overlap_blocks === most);
  const busy = others.every((one) => chosen.in_flight <= one.in_flight) ? ` It is the least busy: ${number(chosen.in_flight)} in flight.` : "";
  if (chosen.overlap_blocks > most) return `${holds(chosen, blocks)}${instead(chosen, others, `; no other more than ${number(most)}`)}`;
  if (chosen.overlap_blocks < most && holder) {
    return `${workerName(holder.worker)} holds more (${number(most)} of ${number(blocks)} blocks, here ${number(chosen.overlap_blocks)}), but it would have taken longer in all: ${number(holder.in_flight)} in flight, here ${number(chosen.in_flight)}`;
  }
  if (most === 0) return `no worker holds any of the ${number(blocks)} blocks, so the one that is soonest done takes it.${busy}`;
  return `${holds(chosen, blocks)}, and so do others.${busy}`;
}

/** What the best of the others would have taken. */
function instead(chosen: Candidate, others: readonly Candidate[], otherwise: string): string {
  const soonest = least(others, (one) => one.ttft_ms ?? Number.POSITIVE_INFINITY);
  if (chosen.ttft_ms === undefined || soonest?.ttft_ms === undefined) return otherwise;
  return `: first token in ${time(chosen.ttft_ms)} instead of ${time(soonest.ttft_ms)}`;
}

function byTurn(chosen: Candidate, others: readonly Candidate[], blocks: number): string {
  const holder = least(others, (one) => -one.overlap_blocks);
  const missed = holder && holder.overlap_blocks > chosen.overlap_blocks ? `; ${workerName(holder.worker)} holds ${number(holder.overlap_blocks)}` : "";
  return `caches are not looked at: ${holds(chosen, blocks)}${missed}`;
}
