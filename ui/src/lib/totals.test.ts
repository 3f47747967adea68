import { expect, it } from "vitest";
import { aSnapshot, aWorker } from "../fixtures";
import { settingsWords, speculation, sums } from "./totals";

it("adds speculation up over workers", () => {
  const none = { drafts: 0, drafted_tokens: 0, accepted_tokens: 0, acceptance_pct: null, tokens_per_step: null, position_acceptance_pct: [], draft_length: null, draft_time_pct: null, verify_time_pct: null };
  expect(speculation([aWorker(0), aWorker(1, { speculation: none })])).toEqual({ drafts: 1000, drafted: 3000, accepted: 1500, acceptancePct: 50, tokensPerStep: 2.5 });
  expect(speculation([aWorker(0, { speculation: none })])).toBeNull();
  expect(speculation([])).toBeNull();
});

it("adds up slots and blocks", () => {
  expect(sums([aWorker(0), aWorker(1)])).toMatchObject({ running: 40, slots: 128, active: 3200, cached: 4400, total: 25_078 });
});

it("puts settings into words", () => {
  const { settings } = aSnapshot();
  expect(settingsWords(settings)).toEqual(["60 conversations at once", "3 to 5 turns each", "no pause between turns", "answers of at most 1,024 tokens"]);
  const other = { ...settings, arrivals_per_second: 2.5, think_time_s: { start: 1, end: 3 }, max_requests_per_second: 9 };
  expect(settingsWords(other)).toEqual(["2.5 conversations start per second", "3 to 5 turns each", "1 to 3 s between turns", "answers of at most 1,024 tokens", "at most 9.0 requests per second"]);
});
