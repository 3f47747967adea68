/** States for tests: a running demo, of which a test changes what it is about. */
import type { Baseline, BaselineCell, Figures, HistoryPoint, Snapshot, State, WindowFigures, WorkerState } from "../api/types";

export const figures = (p50: number | null, p95: number | null, samples = 100): Figures => ({ p50, p95, p99: p95, samples });
const none = figures(null, null, 0);
const turn = { cached_pct: null, ttft_ms: none, tpot_ms: none };

export const windowFigures = (change: Partial<WindowFigures> = {}): WindowFigures => ({
  seconds: 60, requests: 0, failures: 0, error_pct: null, rps: 0, tops: 0, cached_pct: null, tokens_per_chunk: null,
  ttft_ms: none, tpot_ms: none, itl_ms: none, e2e_ms: none, dispatch_lag_ms: none, initial: turn, followup: turn, ...change,
});

export const load = (change: Partial<Snapshot> = {}): Snapshot => ({
  phase: "running",
  at_s: 200,
  running_s: 120,
  target: { url: "http://127.0.0.1:8000/v1", model: "model", user_model: null },
  workload: { seed: 42, starters: 10, unique: false },
  settings: { concurrency: 60, turns: { start: 3, end: 5 }, think_time_s: { start: 0, end: 0 }, max_tokens: 1024, starts_per_second: 10, max_requests_per_second: null, arrivals_per_second: null },
  conversations: { active: 60, in_flight: 58, writing: 0, idle: 2, begun: 80, completed: 20, stopped: 0, failed: 0 },
  window: windowFigures(),
  by_mode: [],
  totals: { requests: 0, failures: 0, failures_by_kind: {}, prompt_tokens: 0, cached_tokens: 0, output_tokens: 0, user_model_fallbacks: 0 },
  last_failure: null,
  ...change,
});

export const worker = (id: number, change: Partial<WorkerState> = {}): WorkerState => ({
  id, name: `worker-${id}`, engine: "profile", simulated: true, draining: false, gpu: { kind: "NVIDIA H200", count: 1, memory_bytes: 100e9 },
  utilization: 0.5, memory_used_bytes: 80e9, in_flight: 20, running: 20, waiting: 0, slots: 64,
  cache: { total_blocks: 1000, active_blocks: 100, cached_blocks: 500, hit_pct: 90 },
  speculation: { drafts: 0, drafted_tokens: 0, accepted_tokens: 0, acceptance_pct: null, tokens_per_step: null },
  ...change,
});

export const aState = (change: Partial<State> = {}): State => ({
  version: "1", title: "A title", subtitle: "A subtitle", at_ms: 1_000_000, control: { token_required: false, granted: true },
  slos: { ttft_p95_ms: 600, tpot_p95_ms: 60 }, model: "model", simulated: true, block_size: 32,
  router: { mode: "kv", modes: ["kv", "round-robin"], overlap_score_weight: null, router_temperature: null },
  requests: { in_flight: 58, queued: 0 }, workers: [worker(0), worker(1)], last_decision: null,
  gpu: { kind: "process" }, baseline: { state: "none" }, load: load(), ...change,
});

export const cell = (mode: string, ttft: number, tpot: number): BaselineCell => ({
  mode, requests: 500, errors: 0, ttft_ms: { p50: ttft / 4, p95: ttft, p99: ttft }, tpot_ms: { p50: tpot, p95: tpot, p99: tpot },
  itl_ms: { p50: tpot, p95: tpot, p99: tpot }, e2e_ms: { p50: 10_000, p95: 20_000, p99: 30_000 }, rps: 3, tops: 2000, kv_hit_pct: 90,
  turns: [{ turn: 1, ttft_ms_p50: 200, ttft_ms_p95: 300, samples: 9, cached_pct: 0 }, { turn: 2, ttft_ms_p50: null, ttft_ms_p95: null, samples: 0, cached_pct: null }],
});

/** Round robin misses at 80; KV-aware loses there. */
export const aBaseline = (): Baseline => ({
  schema: 1, run_id: "virtual-1", created_ms: 0, source: "virtual-time sweep", simulated: true, profile: "profile", workload: "specification",
  workers: 2, seed: 42, repeats: 1, warmup_s: 60, window_s: 300,
  levels: [
    { concurrency: 60, cells: [cell("round-robin", 655, 48), cell("kv", 446, 44)] },
    { concurrency: 80, cells: [cell("round-robin", 637, 50), cell("kv", 700, 46)] },
  ],
});

export const point = (at_ms: number, change: Partial<HistoryPoint> = {}): HistoryPoint => ({
  at_ms, mode: "kv", conversations: 60, ttft_ms_p50: 40, ttft_ms_p95: 50, tpot_ms_p50: 20, tpot_ms_p95: 25, cached_pct: 90, rps: 3, tops: 2000, queued: 0, in_flight: [{ worker: 0, in_flight: 20 }], ...change,
});
