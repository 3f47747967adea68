import { describe, expect, it } from "vitest";
import { aCandidate, aDecision } from "../fixtures";
import { actualTtftMs, formula, noCost, terms, weightOf } from "./cost";

// The specification's worked example: costs 90, 30 and 99.
const example = aDecision({
  mode: "kv-blocks",
  candidates: [
    aCandidate({ worker: "0", prefill_blocks: 80, decode_blocks: 10, cost: 90 }),
    aCandidate({ worker: "1", prefill_blocks: 10, decode_blocks: 20, cost: 30 }),
    aCandidate({ worker: "2", prefill_blocks: 90, decode_blocks: 9, cost: 99 }),
  ],
});

describe("the formula of kv-blocks", () => {
  it("puts the numbers in", () => {
    expect(example.candidates.map((candidate) => formula(candidate, 1))).toEqual([
      "1.00 × 80.00 + 10 = 90.00",
      "1.00 × 10.00 + 20 = 30.00",
      "1.00 × 90.00 + 9 = 99.00",
    ]);
  });

  it("takes the weight in force, unless the sums say that it was another", () => {
    expect(weightOf(example, { overlap_score_weight: 1 })).toBe(1);
    expect(weightOf(example, { overlap_score_weight: 2 })).toBe(1);
    expect(weightOf(example, { overlap_score_weight: null })).toBe(1);
    expect(weightOf(aDecision({ candidates: [] }), { overlap_score_weight: null })).toBeNull();
  });
});

it("has time terms in mode kv only", () => {
  const candidate = aCandidate({ ttft_ms: 21, queue_ms: 1, decode_ms: 7, eviction_ms: 0, wait_ms: 0, cost: 29 });
  expect(terms(candidate)?.map((term) => term.ms)).toEqual([21, 1, 7, 0, 0]);
  const { ttft_ms: _, ...without } = candidate;
  expect(terms(without)).toBeNull();
});

it("says so where there is no cost", () => {
  expect(noCost(example)).toBeNull();
  expect(noCost(aDecision({ mode: "round-robin", candidates: [aCandidate({ cost: null })] }))).toContain("take turns");
});

it("knows the actual time to first token once there is one", () => {
  expect(actualTtftMs(aDecision({ outcome: { state: "placed" } }))).toBeNull();
  expect(actualTtftMs(aDecision({ outcome: { state: "started", first_token_after: 0.03 } }))).toBeCloseTo(30);
});
