export type Figures = { p50: number | null, p95: number | null, p99: number | null, samples: number, };
export type Slos = { ttft_p95_ms: number, tpot_p95_ms: number, };
export type Control = { token_required: boolean, granted: boolean, };
export type GpuSpec = { kind: string, count: number, memory_bytes: number, };
export type RouterState = { mode: string, modes: Array<string>, overlap_score_weight: number | null, router_temperature: number | null, };
export type RequestCounts = { in_flight: number, queued: number, };
export type CacheState = { total_blocks: number, active_blocks: number, cached_blocks: number, hit_pct: number | null, };
/** Since the worker started. */
export type SpeculationState = { drafts: number, drafted_tokens: number, accepted_tokens: number,
  /** Drafted tokens in a hundred that were kept; null before the first draft. */
  acceptance_pct: number | null,
  /** Tokens that a step of a sequence gives; null before the first draft. */
  tokens_per_step: number | null, };
export type WorkerState = { id: number, name: string, engine: string, simulated: boolean, draining: boolean, gpu: GpuSpec,
  /** 0 to 1. null where it is unknown (Prometheus unavailable). */
  utilization: number | null, memory_used_bytes: number | null, in_flight: number, running: number, waiting: number, slots: number, cache: CacheState, speculation: SpeculationState, };

/** A candidate of a routing decision. The *_ms terms exist only for mode "kv". */
export type Candidate = { worker: number, slots: number, in_flight: number, overlap_blocks: number, cached_tokens: number, pending_prefill_tokens: number, pending_requests: number, prefill_blocks: number, decode_blocks: number, new_blocks: number, cache_full: boolean, ttft_ms?: number, queue_ms?: number, decode_ms?: number, eviction_ms?: number, wait_ms?: number, cost: number | null, };
export type Excluded = { worker: number, why: string, };
export type Outcome = { state: "placed" } | { state: "started", first_token_after: number } | { state: "ended", first_token_after: number, ended_after: number } | { state: "abandoned", ended_after: number };
export type Decision = { number: number, at: number, request: string, mode: string, prompt_tokens: number, blocks: number, winner: number, reason: string, candidates: Array<Candidate>, excluded: Array<Excluded>, hot_spread: boolean, queued_ms: number, predicted_ttft_ms: number, predicted_cached_tokens: number, actual_cached_tokens: number | null, outcome: Outcome, };

/** Where utilisation and memory of GPUs come from. */
export type GpuSource = { kind: "process" } | { kind: "prometheus", url: string, /** Why nothing could be read. */ error: string | null, };

export type BaselineStatus = { state: "none" } | { state: "computing", done: number, total: number } | { state: "ready", run_id: string } | { state: "failed", message: string };

export type Phase = "stopped" | "running" | "paused" | "draining";
export type TurnFigures = { cached_pct: number | null, ttft_ms: Figures, tpot_ms: Figures, };
export type WindowFigures = { seconds: number, requests: number, failures: number, error_pct: number | null, rps: number, tops: number, cached_pct: number | null, tokens_per_chunk: number | null, ttft_ms: Figures, tpot_ms: Figures, itl_ms: Figures, e2e_ms: Figures, dispatch_lag_ms: Figures, initial: TurnFigures, followup: TurnFigures, };
/** Of one turn number, since load was last started. */
export type TurnNumberFigures = { /** From 1. */ turn: number, ttft_ms_p50: number | null, ttft_ms_p95: number | null, samples: number, cached_pct: number | null, };
/** What requests felt that were routed under one mode, since load was last started. */
export type ModeFigures = { mode: string, turns: Array<TurnNumberFigures>, };
export type TargetSummary = { url: string, model: string, user_model: string | null, };
export type WorkloadSummary = { seed: number, starters: number, unique: boolean, };
export type Settings = { concurrency: number, turns: { start: number, end: number }, think_time_s: { start: number, end: number }, max_tokens: number, starts_per_second: number, max_requests_per_second: number | null, arrivals_per_second: number | null, };
export type ConversationCounts = { active: number, in_flight: number, writing: number, idle: number, begun: number, completed: number, stopped: number, failed: number, };
export type TotalCounts = { requests: number, failures: number, failures_by_kind: { [kind in string]: number }, prompt_tokens: number, cached_tokens: number, output_tokens: number, user_model_fallbacks: number, };
export type Failure = { kind: string, message: string, };
export type LastFailure = { failure: Failure, ago_s: number, };
export type Snapshot = { phase: Phase, at_s: number, running_s: number, target: TargetSummary, workload: WorkloadSummary, settings: Settings, conversations: ConversationCounts, window: WindowFigures, by_mode: Array<ModeFigures>, totals: TotalCounts, last_failure: LastFailure | null, };

/** GET /api/state, and every message of the WebSocket /api/stream. */
export type State = { version: string, title: string, subtitle: string, /** The server's clock, Unix milliseconds. */ at_ms: number, control: Control, slos: Slos, model: string, simulated: boolean, /** Tokens in a KV block. */ block_size: number, router: RouterState, requests: RequestCounts, workers: Array<WorkerState>, last_decision: Decision | null, gpu: GpuSource, baseline: BaselineStatus, /** null where no load generator runs. */ load: Snapshot | null, };

/** One second of GET /api/history. */
export type HistoryPoint = { at_ms: number, mode: string, /** Conversations under way. */ conversations: number, ttft_ms_p50: number | null, ttft_ms_p95: number | null, tpot_ms_p50: number | null, tpot_ms_p95: number | null, cached_pct: number | null, rps: number, tops: number, queued: number, in_flight: Array<WorkerInFlight>, };
export type WorkerInFlight = { worker: number, in_flight: number, };
/** GET /api/history: at most the last 15 minutes, oldest first. The same shape is made from each State by lib/history. */
export type History = { points: Array<HistoryPoint>, };

/** GET /api/baseline (404 with an error object while there is none). */
export type Baseline = { schema: number, run_id: string, /** Unix ms. */ created_ms: number, /** Such as "virtual-time sweep, computed at start" or a file's name. */ source: string, simulated: boolean, profile: string, workload: string, workers: number, seed: number, repeats: number, warmup_s: number, window_s: number, levels: Array<BaselineLevel>, };
export type BaselineLevel = { concurrency: number, /** By mode: "round-robin" and "kv", perhaps others. */ cells: Array<BaselineCell>, };
export type BaselineCell = { mode: string, requests: number, errors: number, ttft_ms: BaselineFigures, tpot_ms: BaselineFigures, itl_ms: BaselineFigures, e2e_ms: BaselineFigures, rps: number, tops: number, kv_hit_pct: number | null, turns: Array<TurnNumberFigures>, };
export type BaselineFigures = { p50: number | null, p95: number | null, p99: number | null, };

export type ConversationStatus = "active" | "completed" | "stopped" | "error";
export type ConversationSummary = { id: string, number: number, title: string, status: ConversationStatus, turns_answered: number, turns_planned: number, started_ms: number, duration_s: number, };
/** GET /api/conversations?limit=&status=&sort=newest|oldest|longest|turns */
export type ConversationList = { conversations: Array<ConversationSummary>, total: number, };
/** What the router said about a request, if the server tells. */
export type Routing = { mode: string, reason: string, /** Full blocks of the prompt. */ blocks: number, queued_ms: number, predicted_ttft_ms: number, /** Cheapest first, at most 16. */ candidates: Array<RoutingCandidate>, };
export type RoutingCandidate = { worker: number, overlap_blocks: number, in_flight: number, cost: number | null, };
/** The server's own timing as it came; ours has these fields. */
export type ServerTiming = { ttft_ms?: number, prefill_wait_time_ms?: number, prefill_time_ms?: number, total_time_ms?: number, itl_ms?: number, kv_hit_rate?: number };
export type RequestRecord = { conversation_id: string, conversation: number, turn: number, turns: number, turn_type: "initial" | "followup", attempt: number, due_s: number, sent_s: number, ended_s: number, dispatch_lag_ms: number, ttft_ms?: number, tpot_ms?: number, itl_p50_ms?: number, longest_gap_ms?: number, e2e_ms?: number, prompt_tokens?: number, cached_tokens?: number, output_tokens?: number, chunks?: number, finish_reason?: string, worker?: string, server_timing?: ServerTiming, routing?: Routing, error?: Failure, };
export type Turn = { user: string, assistant: string | null, answered: RequestRecord | null, failed: Array<RequestRecord>, };
/** GET /api/conversations/{id} */
export type Conversation = ConversationSummary & { turns: Array<Turn>, };

/** What any failed call answers: { "error": { ... } } */
export type ApiError = { error: { message: string, type: string, code: string | null, param: string | null } };
