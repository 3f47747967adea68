/** A routing decision in figures that can be checked by hand. */
import { MODES } from "../api/modes";
import type { Candidate, Decision, RouterState, WhyNot } from "../api/types";
import { number } from "./format";
import { modeSpec } from "./mode";

/** The terms of a cost in time: those of the one mode that has such a cost. */
export const TERMS = MODES.flatMap((spec) => spec.terms);

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

/** What a mode without costs goes by; `null` where there are costs. */
export function noCost(decision: Decision): string | null {
  if (decision.candidates.some((candidate) => candidate.cost !== null)) return null;
  return modeSpec(decision.mode)?.no_cost ?? "No cost in this mode.";
}

/** From the decision to the first token, once it has come. */
export function actualTtftMs(decision: Decision): number | null {
  return "first_token_after" in decision.outcome ? 1000 * decision.outcome.first_token_after : null;
}

const STATES: Record<Decision["outcome"]["state"], string> = {
  placed: "placed, no token yet",
  started: "answering",
  ended: "answered",
  abandoned: "cancelled before the first token",
};

export const outcomeWords = (decision: Decision): string => STATES[decision.outcome.state];

const WHY_NOT: Record<WhyNot, string> = {
  draining: "is draining and takes no new requests",
  tried: "already failed this request",
  "no-adapter": "has not loaded the adapter",
  "short-context": "has too short a context",
  "not-offered": "is not offered by the proxy",
  full: "has no free slot",
  unsound: "failed recently and is being tested",
};

export const whyNot = (why: WhyNot): string => WHY_NOT[why];
