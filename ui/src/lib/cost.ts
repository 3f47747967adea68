/** A routing decision in figures that can be checked by hand. */
import type { Candidate, Decision, RouterState } from "../api/types";
import { number } from "./format";

export const TERMS = [
  { key: "ttft_ms", label: "first token", title: "Expected time to this request's first token: what is pending there and what is not cached." },
  { key: "queue_ms", label: "queue", title: "What this prompt and those that wait for their first token there cost each other." },
  { key: "decode_ms", label: "decodes", title: "Time that this request costs the answers under way there." },
  { key: "eviction_ms", label: "eviction", title: "Time to compute again what would be thrown out of a full cache." },
  { key: "wait_ms", label: "wait", title: "Time until a place in the batch is free." },
] as const;

export type TermKey = (typeof TERMS)[number]["key"];
export type Term = { key: TermKey; label: string; ms: number };

/** Only mode `kv` has them. */
export function terms(candidate: Candidate): Term[] | null {
  if (candidate.ttft_ms === undefined) return null;
  return TERMS.map(({ key, label }) => ({ key, label, ms: candidate[key] ?? 0 }));
}

const close = (one: number, other: number) => Math.abs(one - other) <= 0.01 * Math.max(1, Math.abs(other));

/**
 * The weight that the decision was made with: the one in force if the sums agree with it, else
 * (it was changed since) the one that they imply.
 */
export function weightOf(decision: Decision, router: Pick<RouterState, "overlap_score_weight">): number | null {
  const weighed = decision.candidates.filter((candidate) => candidate.cost !== null);
  const inForce = router.overlap_score_weight;
  const agrees = (weight: number) => weighed.every((one) => close(weight * one.prefill_blocks + one.decode_blocks, one.cost ?? 0));
  if (inForce !== null && agrees(inForce)) return inForce;
  const telling = weighed.find((candidate) => candidate.prefill_blocks > 0);
  return telling ? ((telling.cost ?? 0) - telling.decode_blocks) / telling.prefill_blocks : inForce;
}

/** Such as `1.00 × 115.59 + 494 = 609.59`. */
export function formula(candidate: Candidate, weight: number | null): string {
  return `${number(weight, 2)} × ${number(candidate.prefill_blocks, 2)} + ${number(candidate.decode_blocks)} = ${number(candidate.cost, 2)}`;
}

const NO_COST: Record<string, string> = {
  "round-robin": "No cost: workers take turns.",
  random: "No cost: a worker is drawn at random.",
  "least-loaded": "No cost: the worker with the smallest share of its slots taken.",
  "power-of-two": "No cost: two workers are drawn and the less loaded one takes it.",
};

/** What a mode without costs goes by; `null` where there are costs. */
export function noCost(decision: Decision): string | null {
  if (decision.candidates.some((candidate) => candidate.cost !== null)) return null;
  return NO_COST[decision.mode] ?? "No cost in this mode.";
}

/** From the decision to the first token, once it has come. */
export function actualTtftMs(decision: Decision): number | null {
  return "first_token_after" in decision.outcome ? 1000 * decision.outcome.first_token_after : null;
}

const STATES: Record<Decision["outcome"]["state"], string> = {
  placed: "placed, no token yet",
  started: "answer under way",
  ended: "answered",
  abandoned: "given up before the first token",
};

export const outcomeWords = (decision: Decision): string => STATES[decision.outcome.state];

const WHY_NOT: Record<string, string> = {
  draining: "is leaving and takes no new requests",
  tried: "failed with this request before",
  full: "has no free slot",
};

export const whyNot = (why: string): string => WHY_NOT[why] ?? why;
