/** Small, typed examples for tests: what the server could have said. */
import type { FeedStore } from "./api/feed";
import type { Candidate, Conversation, Decision, Figures, RequestRecord, Snapshot, State, WorkerState } from "./api/types";

export const figures = (p50: number | null, p95: number | null, samples = 100): Figures => ({ p50, p95, p99: p95, samples });

export const aCandidate = (change: Partial<Candidate>): Candidate => ({
  worker: "0", slots: 64, in_flight: 20, overlap_blocks: 0, cached_tokens: 0, pending_prefill_tokens: 0, pending_requests: 0,
  prefill_blocks: 115.6, decode_blocks: 600, new_blocks: 116, cache_full: false, cost: 100, ...change,
});

const time = (ttft_ms: number, decode_ms: number) => ({ ttft_ms, queue_ms: 0, decode_ms, eviction_ms: 0, wait_ms: 0, cost: ttft_ms + decode_ms });

export const aDecision = (change: Partial<Decision>): Decision => ({
  number: 60, at: 6, request: "req-1", mode: "kv", prompt_tokens: 3699, blocks: 115, winner: "0",
  reason: "least expected time 28.9 ms (first token 21.6, queue 0.0, decodes 7.3, eviction 0.0, wait 0.0 ms)",
  candidates: [
    aCandidate({ worker: "0", overlap_blocks: 115, cached_tokens: 3680, prefill_blocks: 0.6, ...time(21.6, 7.3) }),
    aCandidate({ worker: "1", ...time(313.2, 962.8) }),
  ],
  excluded: [{ worker: "2", why: "full" }], hot_spread: false, forwarded: null, normalized: false, queued_ms: 0, predicted_ttft_ms: 21.6, predicted_cached_tokens: 3680,
  actual_cached_tokens: 3680, outcome: { state: "started", first_token_after: 0.029 }, ...change,
});

export const aRecord = (change: Partial<RequestRecord>): RequestRecord => ({
  conversation_id: "c-1", conversation: 0, turn: 0, turns: 3, turn_type: "initial", attempt: 0, due_s: 0, sent_s: 0, ended_s: 15,
  dispatch_lag_ms: 0.1, ttft_ms: 450, tpot_ms: 24, itl_p50_ms: 21, longest_gap_ms: 880, e2e_ms: 15_000, prompt_tokens: 3826,
  cached_tokens: 0, output_tokens: 592, chunks: 592, finish_reason: "stop", worker: "2",
  server_timing: { prefill_wait_time_ms: 0, prefill_time_ms: 447 },
  routing: {
    mode: "kv", reason: "least expected time 121.2 ms", blocks: 119, queued_ms: 0, predicted_ttft_ms: 440,
    candidates: [{ worker: "2", overlap_blocks: 0, in_flight: 18, cost: 121.2 }, { worker: "0", overlap_blocks: 0, in_flight: 19, cost: 180 }],
  },
  ...change,
});

export const aConversation = (change: Partial<Conversation> = {}): Conversation => ({
  id: "c-1", number: 0, title: "Time and Order in Distributed Systems", status: "active", turns_answered: 2, turns_planned: 3,
  started_ms: 1_794_733_043_520, duration_s: 42,
  turns: [
    { user: "# Time and Order\n\n".padEnd(4000, "clocks disagree "), assistant: "[simulated]\n\nFirst.\n\nSecond.", answered: aRecord({}), failed: [] },
    {
      user: "What would change?", assistant: "[simulated]\n\nLittle.",
      answered: aRecord({
        turn: 1, turn_type: "followup", ttft_ms: 43, e2e_ms: 9400, prompt_tokens: 4431, cached_tokens: 4384,
        server_timing: { prefill_wait_time_ms: 20, prefill_time_ms: 22 },
        routing: { mode: "kv", reason: "least expected time 40.0 ms", blocks: 138, queued_ms: 0, predicted_ttft_ms: 40, candidates: [{ worker: "2", overlap_blocks: 137, in_flight: 20, cost: 40 }, { worker: "0", overlap_blocks: 0, in_flight: 19, cost: 1800 }] },
      }),
      failed: [aRecord({ turn: 1, error: { kind: "timeout", message: "no answer in 30 s" } })],
    },
    { user: "And an example?", assistant: null, answered: null, failed: [] },
  ],
  ...change,
});

export const aWorker = (id: number, change: Partial<WorkerState> = {}): WorkerState => ({
  id: String(id), number: id, name: `worker-${id}`, model: "Llama-3.1-70B-Instruct-FP8", unknown: null, engine: "h200-llama-70b-fp8", simulated: true, draining: false,
  gpu: { kind: "NVIDIA H200", count: 1, memory_bytes: 150.7e9 }, utilization: 0.97, memory_used_bytes: 81e9, in_flight: 20, running: 20,
  waiting: 0, slots: 64, drafter: "none", cache: { total_blocks: 12_539, active_blocks: 1600, cached_blocks: 2200, hit_pct: 96.3 },
  speculation: { drafts: 1000, drafted_tokens: 3000, accepted_tokens: 1500, acceptance_pct: 50, tokens_per_step: 2.5, position_acceptance_pct: [72, 48.4, 30], draft_length: 3, draft_time_pct: 4.5, verify_time_pct: 90 }, ...change,
});

const turnFigures = (cached_pct: number) => ({ cached_pct, ttft_ms: figures(45, 60), tpot_ms: figures(23, 24) });

export const aSnapshot = (change: Partial<Snapshot> = {}): Snapshot => ({
  phase: "running", at_s: 120, running_s: 120, unchanged_s: 120, target: { url: "http://127.0.0.1:8000/v1", model: "Llama-3.1-70B-Instruct-FP8", user_model: null },
  workload: { seed: 42, starters: 10, unique: false },
  settings: { concurrency: 60, turns: { start: 3, end: 5 }, think_time_s: { start: 0, end: 0 }, max_tokens: 1024, starts_per_second: 10, max_requests_per_second: null, arrivals_per_second: null, starters: "shared", zipf: null },
  conversations: { active: 60, in_flight: 60, writing: 0, idle: 0, begun: 137, completed: 77, stopped: 0, failed: 0 },
  window: {
    seconds: 60, requests: 185, failures: 0, error_pct: 0, rps: 3.08, tops: 2511, cached_pct: 98.9, tokens_per_chunk: 1, ttft_ms: figures(45, 54),
    tpot_ms: figures(23, 24), itl_ms: figures(23, 27), e2e_ms: figures(19_000, 24_000), dispatch_lag_ms: figures(0.3, 0.4), initial: turnFigures(99.5), followup: turnFigures(98.7),
  },
  by_mode: [], totals: { requests: 300, failures: 0, failures_by_kind: {}, prompt_tokens: 1, cached_tokens: 1, output_tokens: 1, user_model_fallbacks: 0 },
  last_failure: null, ...change,
});

export const aState = (change: Partial<State> = {}): State => ({
  version: "0.1.0", title: "Serve More Users", subtitle: "Powered by Homing", at_ms: 1_794_733_051_368, control: { token_required: false, granted: true },
  slos: { ttft_p95_ms: 600, tpot_p95_ms: 60 }, model: "Llama-3.1-70B-Instruct-FP8", models: [{ name: "Llama-3.1-70B-Instruct-FP8", mode: "kv", workers: 3 }], simulated: true, block_size: 32,
  router: { mode: "kv", modes: ["kv", "round-robin", "kv-blocks"], overlap_score_weight: null, router_temperature: null },
  requests: { in_flight: 60, queued: 0 }, workers: [aWorker(0), aWorker(1), aWorker(2)], profiles: [], last_decision: aDecision({}), gpu: { kind: "process" },
  baseline: { state: "ready", run_id: "virtual-3fa9c1d2" }, load: aSnapshot(), load_at: { kind: "here" }, grafana_url: null, parts: [], ...change,
});

/** A feed that always says the same. */
export function aStore(state: State | null = aState()): FeedStore {
  const feed = { connection: "open" as const, state, receivedMs: 0 };
  return { get: () => feed, subscribe: () => () => {}, close: () => {} };
}
