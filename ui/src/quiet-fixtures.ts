/** States for tests in which nothing has been measured yet, and baselines to compare with. */
import type { Baseline, BaselineCell, HistoryPoint, Snapshot, State, WindowFigures, WorkerState } from "./api/types";
import { aSnapshot, aState as aBusyState, aWorker, figures } from "./fixtures";

export { figures };

const none = figures(null, null, 0);
const turn = { cached_pct: null, ttft_ms: none, tpot_ms: none };

export const windowFigures = (change: Partial<WindowFigures> = {}): WindowFigures => ({
  seconds: 60, requests: 0, failures: 0, error_pct: null, rps: 0, tops: 0, cached_pct: null, tokens_per_chunk: null,
  ttft_ms: none, tpot_ms: none, itl_ms: none, e2e_ms: none, dispatch_lag_ms: none, initial: turn, followup: turn, ...change,
});

export const load = (change: Partial<Snapshot> = {}): Snapshot => aSnapshot({
  conversations: { active: 60, in_flight: 58, writing: 0, idle: 2, begun: 80, completed: 20, stopped: 0, failed: 0 },
  window: windowFigures(),
  totals: { requests: 0, failures: 0, failures_by_kind: {}, prompt_tokens: 0, cached_tokens: 0, output_tokens: 0, user_model_fallbacks: 0 },
  ...change,
});

export const worker = (id: number, change: Partial<WorkerState> = {}): WorkerState => aWorker(id, {
  gpu: { kind: "NVIDIA H200", count: 1, memory_bytes: 100e9 }, utilization: 0.5, memory_used_bytes: 80e9,
  cache: { total_blocks: 1000, active_blocks: 100, cached_blocks: 500, hit_pct: 90 },
  speculation: { drafts: 0, drafted_tokens: 0, accepted_tokens: 0, acceptance_pct: null, tokens_per_step: null, position_acceptance_pct: [], draft_length: null, draft_time_pct: null, verify_time_pct: null },
  ...change,
});

export const aState = (change: Partial<State> = {}): State => aBusyState({
  title: "A title", subtitle: "A subtitle", at_ms: 1_000_000, model: "model", workers: [worker(0), worker(1)],
  requests: { in_flight: 58, queued: 0 }, last_decision: null, baseline: { state: "none" }, load: load(), ...change,
});

export const cell = (mode: string, ttft: number, tpot: number): BaselineCell => ({
  mode, requests: 500, errors: 0, ttft_ms: { p50: ttft / 4, p95: ttft, p99: ttft }, tpot_ms: { p50: tpot, p95: tpot, p99: tpot },
  itl_ms: { p50: tpot, p95: tpot, p99: tpot }, e2e_ms: { p50: 10_000, p95: 20_000, p99: 30_000 }, rps: 3, tops: 2000, kv_hit_pct: 90,
  turns: [{ turn: 1, ttft_ms_p50: 200, ttft_ms_p95: 300, samples: 9, cached_pct: 0 }, { turn: 5, ttft_ms_p50: null, ttft_ms_p95: null, samples: 0, cached_pct: null }], verdicts: {},
});

/** Round robin misses at 80; KV-aware loses there. */
export const aBaseline = (): Baseline => ({
  schema: 1, run_id: "virtual-1", created_ms: 0, source: "virtual-time sweep", simulated: true, profile: "h200-llama-70b-fp8", workload: "specification",
  workers: 2, seed: 42, repeats: 1, warmup_s: 60, window_s: 300,
  levels: [
    { concurrency: 60, cells: [cell("round-robin", 655, 48), cell("kv", 446, 44)] },
    { concurrency: 80, cells: [cell("round-robin", 637, 50), cell("kv", 700, 46)] },
  ],
});

export const point = (at_ms: number, change: Partial<HistoryPoint> = {}): HistoryPoint => ({
  at_ms, mode: "kv", conversations: 60, ttft_ms_p50: 40, ttft_ms_p95: 50, tpot_ms_p50: 20, tpot_ms_p95: 25, cached_pct: 90, rps: 3, tops: 2000, queued: 0, in_flight: [{ worker: "0", in_flight: 20 }, { worker: "1", in_flight: 20 }], ...change,
});
