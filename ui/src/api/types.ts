// Generated from Rust by `cargo xtask codegen`: change the types there.

/** The body of every answer that is an error. */
export type ApiError = { error: ErrorDetail, };

/** The results of a whole sweep. */
export type Baseline = { schema: number,
  /** Equal for equal plans and figures. */
  run_id: string,
  /** Milliseconds since the Unix epoch. */
  created_ms: number,
  /** How it was computed or the file's name, to be displayed. */
  source: string, simulated: boolean,
  /** The simulated hardware and model. */
  profile: string, workload: string, workers: number, seed: number,
  /** Runs behind each cell; its figures are their medians. */
  repeats: number, warmup_s: number, window_s: number, levels: Array<BaselineLevel>, };

/** One mode at one level. */
export type BaselineCell = { mode: string, requests: number, errors: number, ttft_ms: BaselineFigures, tpot_ms: BaselineFigures, itl_ms: BaselineFigures, e2e_ms: BaselineFigures,
  /** Completed requests per second. */
  rps: number,
  /** Output tokens per second. */
  tops: number,
  /** Cached prompt tokens in percent of all. */
  kv_hit_pct: number | null, turns: Array<TurnNumberFigures>,
  /**
   * Against the level's first mode, by the figure's name, such as `ttft_ms_p95`: `better`,
   * `worse` or `not-significant`. Empty if there are not enough runs to say, and for the
   * first mode.
   */
  verdicts: { [key in string]: string }, };

export type BaselineFigures = { p50: number | null, p95: number | null, p99: number | null, };

/** All modes at one level. */
export type BaselineLevel = {
  /** Conversations at once. */
  concurrency: number, cells: Array<BaselineCell>, };

/** The baseline's state as a page gets it. */
export type BaselineStatus = { "state": "none" } | { "state": "computing", done: number, total: number, } | { "state": "ready", run_id: string, } | { "state": "failed", message: string, };

/** A worker's KV cache, in blocks. */
export type CacheState = { total_blocks: number,
  /** Blocks used by running requests. */
  active_blocks: number,
  /** Blocks kept for reuse. */
  cached_blocks: number,
  /** Prompt tokens that came out of it, of all since the worker started. */
  hit_pct: number | null, };

/** A candidate of a routing decision. The terms of its cost exist only in mode `kv`. */
export type Candidate = CandidateFigures & Partial<Terms>;

/** A worker that may take the request, with the figures on which it is judged. */
export type CandidateFigures = { worker: WorkerId,
  /** Sequences that it runs at once. */
  slots: number, in_flight: number,
  /** Leading blocks of the prompt that it holds or is about to hold. */
  overlap_blocks: number,
  /** Prompt tokens that it would reuse. */
  cached_tokens: number,
  /** Prompt tokens sent to it earlier and still to be computed. */
  pending_prefill_tokens: number,
  /** The requests that they belong to. */
  pending_requests: number,
  /**
   * What it would have to compute until this request's first token, pending work
   * included, in blocks.
   */
  prefill_blocks: number,
  /** Blocks that its running requests use, without this one. */
  decode_blocks: number,
  /** Blocks that this request would add to those. */
  new_blocks: number,
  /** Its cache holds about as much as it can, so what is stored evicts something. */
  cache_full: boolean,
  /** What the policy weighed; lower is better. `None` if it does not weigh. */
  cost: number | null, };

/** Whether this viewer may change anything. */
export type Control = { token_required: boolean, granted: boolean, };

/** A whole conversation. */
export type Conversation = { turns: Array<Turn>, id: string,
  /** In order of beginning, from 0. */
  number: number, title: string, status: ConversationStatus, turns_answered: number, turns_planned: number,
  /** Milliseconds since the Unix epoch. */
  started_ms: number,
  /** Since the beginning; for one that is over, until its end. */
  duration_s: number, };

/** How many conversations are where. */
export type ConversationCounts = {
  /** Not over. The sum of the next three. */
  active: number,
  /** Waiting for an answer, or reading it. */
  in_flight: number,
  /** Waiting for the user model to write a question. */
  writing: number,
  /** Users think, wait to ask again, or are not allowed to speak yet. */
  idle: number, begun: number, completed: number, stopped: number, failed: number, };

/** An answer to a [`Query`]. */
export type ConversationList = { conversations: Array<ConversationSummary>,
  /** How many there are beyond the limit, too. */
  total: number, };

/** Where a conversation stands. */
export type ConversationStatus = "active" | "completed" | "stopped" | "error";

/** One line of the list. */
export type ConversationSummary = { id: string,
  /** In order of beginning, from 0. */
  number: number, title: string, status: ConversationStatus, turns_answered: number, turns_planned: number,
  /** Milliseconds since the Unix epoch. */
  started_ms: number,
  /** Since the beginning; for one that is over, until its end. */
  duration_s: number, };

/** What the page of dashboards can show. */
export type DashboardList = { dashboards: Array<DashboardName>,
  /** The address of the Prometheus that answers their queries; `null` if there is none. */
  prometheus: string | null, };

/** How a dashboard is found and what it is called. */
export type DashboardName = { uid: string, title: string, };

/** One placement, with everything that led to it. */
export type Decision = {
  /** Counts from 1. */
  number: number, at: number, request: string,
  /** The policy's name. */
  mode: string, prompt_tokens: number,
  /** Full blocks of the prompt. */
  blocks: number, winner: WorkerId, reason: string, candidates: Array<Candidate>, excluded: Array<Excluded>,
  /** A worker that holds much more of the prompt was passed over on purpose. */
  hot_spread: boolean,
  /** How long the request had waited for a slot. */
  queued_ms: number,
  /** From the decision to the first token, as learned figures have it. */
  predicted_ttft_ms: number, predicted_cached_tokens: number,
  /** The engine's figure, once it is known. */
  actual_cached_tokens: number | null, outcome: Outcome,
  /**
   * What the request needed for which it was sent to the engine's own server, in the client's
   * words: `tools`, for example. It cannot move in the midst of its answer.
   */
  forwarded: string | null,
  /** Something that changes with every request was removed from the head of the prompt. */
  normalized: boolean, };

export type ErrorDetail = { message: string,
  /** `invalid_request_error`, `server_error`, … */
  type: string, param: string | null, code: string | null, };

/** A member that was not a candidate. */
export type Excluded = { worker: WorkerId, why: WhyNot, };

/** One failure, as it is recorded and shown. */
export type Failure = {
  /** The name of a kind; there may be more of them one day. */
  kind: string,
  /** The HTTP status, if the server refused with one. */
  status?: number,
  /** The server's own words where it had any. */
  message: string, };

/** Percentiles with the number of samples behind them; `null` without a sample. */
export type Figures = { p50: number | null, p95: number | null, p99: number | null, samples: number, };

/** Why an answer ended. */
export type FinishReason = "stop" | "length" | "tool_calls" | "other";

/** Where utilisation and memory of GPUs come from. */
export type GpuSource = { "kind": "process" } | { "kind": "prometheus", url: string,
  /** Why nothing could be read. */
  error: string | null, };

/** The accelerators of one worker. */
export type GpuSpec = { kind: string,
  /** Tensor-parallel degree. */
  count: number,
  /** Memory of one of them. */
  memory_bytes: number, };

/** At most the last 15 minutes, oldest first. */
export type History = { points: Array<HistoryPoint>, };

/** One second. Latencies and rates are those of the minute before it. */
export type HistoryPoint = {
  /** Milliseconds since the Unix epoch. */
  at_ms: number, mode: string,
  /** Active conversations. */
  conversations: number, ttft_ms_p50: number | null, ttft_ms_p95: number | null, tpot_ms_p50: number | null, tpot_ms_p95: number | null, cached_pct: number | null, rps: number, tops: number,
  /** Requests that wait for a worker. */
  queued: number | null, in_flight: Array<WorkerInFlight>, };

export type LastFailure = { failure: Failure, ago_s: number, };

/** A decision of a router in this process, or as another process has written it. */
export type LatestDecision = Decision | Decision;

/** Where a page's load generator runs. */
export type LoadPlace = { "kind": "none" } | { "kind": "here" } | { "kind": "elsewhere", url: string,
  /** Why it cannot be reached. */
  error: string | null, };

/** What requests felt that were routed under one mode. */
export type ModeFigures = { mode: string,
  /** Turns that had an answer, in order. */
  turns: Array<TurnNumberFigures>, };

/** One of the served models. */
export type ModelState = { name: string,
  /** How its workers are chosen. */
  mode: string, workers: number, };

/** How far the placed request has come, in seconds since the decision. */
export type Outcome = { "state": "placed" } | { "state": "started", first_token_after: number, } | { "state": "ended", first_token_after: number, ended_after: number, } | { "state": "abandoned", ended_after: number, };

/** One part of a deployment. */
export type Part = { kind: PartKind,
  /** What it is: `NATS`, `etcd`, `Envoy Gateway`. */
  name: string,
  /** Where it is, or how large. */
  detail: string | null, };

export type PartKind = "platform" | "gateway" | "nodes" | "frontend" | "discovery" | "events" | "requests" | "workers" | "load" | "user-model" | "corpus" | "storage" | "metrics" | "dashboards";

/** The state of the load. */
export type Phase = "stopped" | "waiting" | "running" | "paused" | "draining";

/** Requests inside the server, from all clients; `null` where that is not known. */
export type RequestCounts = { in_flight: number | null,
  /** Requests that wait for a worker. */
  queued: number | null, };

/** The measurements of one request. */
export type RequestRecord = {
  /** The id that the server got as `X-Session-ID`. */
  conversation_id: string,
  /** In order of beginning, from 0; the same in every run with the same seed. */
  conversation: number,
  /** The turn's number in its conversation, from 0. */
  turn: number,
  /** How many turns the conversation has. */
  turns: number, turn_type: TurnType,
  /** From 0: how often this turn had failed before. */
  attempt: number,
  /** When the turn should have been sent. */
  due_s: number,
  /** When sending began, in seconds since the load generator started. */
  sent_s: number, ended_s: number,
  /** From due to sent: how late the load generator was. */
  dispatch_lag_ms: number,
  /** Also of a request that failed after its first token. */
  ttft_ms?: number, tpot_ms?: number,
  /** The median gap before a token. */
  itl_p50_ms?: number,
  /** The longest pause between two events. */
  longest_gap_ms?: number, e2e_ms?: number, prompt_tokens?: number, cached_tokens?: number, output_tokens?: number,
  /** Events with content. */
  chunks?: number, finish_reason?: FinishReason, worker?: string,
  /** The server's own timing, as it came. */
  server_timing?: ServerTiming,
  /** Why the request went to that worker, if the server reports it. */
  routing?: Routing, error?: Failure, };

/** How workers are chosen. */
export type RouterState = { mode: string,
  /** All mode names. */
  modes: Array<string>,
  /** Of modes that have it. */
  overlap_score_weight: number | null,
  /** Of modes that have it. */
  router_temperature: number | null, };

/** The router's decision about a request. */
export type Routing = {
  /** The policy's name. */
  mode: string,
  /** Why the chosen worker won, in words. */
  reason: string,
  /** Full blocks of the prompt. */
  blocks: number,
  /** How long the request waited for a slot. */
  queued_ms: number,
  /** From the decision to the first token, as the router expected it. */
  predicted_ttft_ms: number,
  /** Cheapest first, at most [`MOST_CANDIDATES`]; the chosen one is always among them. */
  candidates: Array<RoutingCandidate>, };

/** A worker that could have taken the request. */
export type RoutingCandidate = {
  /** Its id, as text: some are larger than the whole numbers that floats can hold. */
  worker: string,
  /** Leading blocks of the prompt that it held or was about to hold. */
  overlap_blocks: number, in_flight: number,
  /** What the policy weighed; `null` if it does not weigh. */
  cost: number | null,
  /**
   * The time to the first token that the router expected there; absent if the policy does not
   * expect any.
   */
  ttft_ms?: number, };

/** The server's own timing as it came; ours has these fields. */
export type ServerTiming = { ttft_ms?: number, prefill_wait_time_ms?: number, prefill_time_ms?: number, total_time_ms?: number, itl_ms?: number, kv_hit_rate?: number, };

/**
 * The knobs of a load generator. Everything applies at once: to the level now, to a
 * running conversation from its next turn on.
 */
export type Settings = {
  /** Conversations at once; without effect while `arrivals_per_second` is set. */
  concurrency: number,
  /** Requests in a conversation. */
  turns: { start: number, end: number, },
  /** Seconds that a user thinks before the next turn. */
  think_time_s: { start: number, end: number, },
  /** Longest answer, in tokens. */
  max_tokens: number,
  /** Conversations that begin in a second while there are too few; 0 for all at once. */
  starts_per_second: number,
  /** At most so many requests per second; `null` for no limit. */
  max_requests_per_second: number | null,
  /** Open loop: conversations that arrive per second, however slow the running ones are. */
  arrivals_per_second: number | null,
  /** Whether conversations share their texts. Applies to conversations that begin later. */
  starters: StarterMode,
  /**
   * Popularity of shared texts: the *k*-th is chosen in proportion to `k` to the power of
   * minus this; `null` for all alike.
   */
  zipf: number | null, };

/** Latencies that are not to be exceeded. */
export type Slos = { ttft_p95_ms: number, tpot_p95_ms: number, };

/** One second of a load generator's life. */
export type Snapshot = { phase: Phase,
  /** Seconds since the load generator was made. */
  at_s: number,
  /** Seconds since load was last started; 0 before. */
  running_s: number,
  /** Seconds since load was last started or its settings were changed; 0 before. */
  unchanged_s: number, target: TargetSummary, workload: WorkloadSummary, settings: Settings, conversations: ConversationCounts,
  /** Figures of the last minute. */
  window: WindowFigures,
  /** TTFT by routing mode and turn since load was last started or its settings were changed. */
  by_mode: Array<ModeFigures>,
  /** Since load was last started. */
  totals: TotalCounts,
  /** The latest failure, and how many seconds ago it was. */
  last_failure: LastFailure | null, };

/** What speculation has drafted and what was kept, since the worker started. */
export type SpeculationState = {
  /** Steps of a sequence that carried a draft. */
  drafts: number, drafted_tokens: number, accepted_tokens: number,
  /** Drafted tokens in a hundred that were kept; `null` before the first draft. */
  acceptance_pct: number | null,
  /** Tokens that a step of a sequence gives; `null` before the first draft. */
  tokens_per_step: number | null,
  /**
   * Drafted tokens in a hundred that were kept, by their place in the draft; `null` where
   * none was drafted.
   */
  position_acceptance_pct: Array<number | null>,
  /** Tokens of the longest draft in the latest step that had one; `null` before the first. */
  draft_length: number | null,
  /**
   * Share of the time of all steps that making drafts took, of a hundred; `null` before the
   * first draft.
   */
  draft_time_pct: number | null,
  /** The same of the forward passes that carried drafts. */
  verify_time_pct: number | null, };

/** What a conversation begins with. */
export type StarterMode = "shared" | "unique";

/** The state of the whole system at one moment. */
export type State = { version: string, title: string, subtitle: string,
  /** The server's clock, since the Unix epoch. */
  at_ms: number, control: Control, slos: Slos, baseline: BaselineStatus,
  /** `null` where no load generator runs, or none can be reached. */
  load: Snapshot | null, load_at: LoadPlace,
  /** Where Grafana shows this deployment, if somebody said so. */
  grafana_url: string | null,
  /** What the deployment consists of besides what this page sees for itself. */
  parts: Array<Part>,
  /** The model whose router is shown. */
  model: string,
  /** All that are served. */
  models: Array<ModelState>,
  /** Some figures come from a simulation, and whatever shows them says so. */
  simulated: boolean,
  /** Tokens in a KV block. */
  block_size: number, router: RouterState, requests: RequestCounts, workers: Array<WorkerState>,
  /** Profiles that simulated workers of this process can be replaced with: `PUT /workers`. */
  profiles: Array<string>,
  /** The latest, if there was one. */
  last_decision: LatestDecision | null, gpu: GpuSource, };

export type TargetSummary = { url: string, model: string,
  /** Address of the model that writes follow-ups; `null` with the built-in questions. */
  user_model: string | null, };

/** An expected cost in time, in milliseconds. */
export type Terms = {
  /** Until the request's own first token, once it has a slot. */
  ttft_ms: number,
  /** What it and those that wait for their first token there do to each other. */
  queue_ms: number,
  /** Delay of the requests that the worker is decoding. */
  decode_ms: number,
  /** Work that others will have to do again because their blocks make room. */
  eviction_ms: number,
  /** Until a slot is free. */
  wait_ms: number, };

export type TotalCounts = {
  /** Requests that ended, including failures. */
  requests: number, failures: number, failures_by_kind: { [kind in string]: number }, prompt_tokens: number, cached_tokens: number, output_tokens: number,
  /** Questions that the user model did not write in time. */
  user_model_fallbacks: number, };

/** A question, and what came of it. */
export type Turn = { user: string,
  /** `null` until there is an answer. */
  assistant: string | null,
  /** Figures of the answer. */
  answered: RequestRecord | null,
  /** Attempts that failed before. */
  failed: Array<RequestRecord>, };

/** The same, of first turns or of later ones alone. */
export type TurnFigures = {
  /**
   * Prompt tokens in a hundred that the server had cached. Of first turns, it says how far
   * conversations profit from each other rather than from their own history.
   */
  cached_pct: number | null, ttft_ms: Figures, tpot_ms: Figures, };

/** Figures of all requests with one turn number. */
export type TurnNumberFigures = {
  /** From 1. The 16th stands for all later ones too. */
  turn: number, ttft_ms_p50: number | null, ttft_ms_p95: number | null,
  /** Answers behind these figures. */
  samples: number,
  /** Prompt tokens in a hundred that the server had cached. */
  cached_pct: number | null, };

/** Whether a turn had a history to be cached. */
export type TurnType = "initial" | "followup";

export type WhyNot = "draining" | "tried" | "no-adapter" | "short-context" | "not-offered" | "full" | "unsound";

/** What the last minute saw. Latencies are milliseconds. */
export type WindowFigures = {
  /** How much time the rates are over: 60, or less at the beginning. */
  seconds: number,
  /** Requests that ended, including failures. */
  requests: number, failures: number,
  /** Failures in percent of all requests. */
  error_pct: number | null,
  /** Answered requests per second. */
  rps: number,
  /** Output tokens per second. */
  tops: number,
  /** Cached prompt tokens in percent of all, as the server reports them. */
  cached_pct: number | null,
  /**
   * Tokens per event with content. Figures derived from events, such as ITL, are exact only if
   * this is close to 1.
   */
  tokens_per_chunk: number | null, ttft_ms: Figures, tpot_ms: Figures, itl_ms: Figures, e2e_ms: Figures,
  /** How late the load generator itself was. */
  dispatch_lag_ms: Figures, initial: TurnFigures, followup: TurnFigures, };

/**
 * Identifies a worker for as long as it is a member.
 *
 * It is written as text, because some are drawn from all 64 bits, and readers whose numbers are
 * floats (browsers, `jq`) would make one of neighbours. Numbers are read too.
 */
export type WorkerId = string;

/** Requests on one worker. */
export type WorkerInFlight = { worker: WorkerId, in_flight: number, };

/** One worker. */
export type WorkerState = { id: WorkerId,
  /** What pages call it: small, and the same while it stays. The console gives it. */
  number: number, name: string,
  /** The simulator's profile or the engine's name. */
  engine: string,
  /** The model that it serves. */
  model: string | null, simulated: boolean,
  /** It takes no new requests and will leave. */
  draining: boolean, gpu: GpuSpec,
  /** Share of time spent computing, 0 to 1; `null` where it is not known. */
  utilization: number | null,
  /** On one of its GPUs; `gpu.memory_bytes` is what there is. */
  memory_used_bytes: number | null,
  /** Why its GPU's figures are not known, where they are not. */
  unknown: string | null,
  /** Requests sent to it and not answered, as the router counts them. */
  in_flight: number,
  /** In the engine's batch, of `slots` places. */
  running: number,
  /** Requests in the engine's queue. */
  waiting: number, slots: number,
  /** What proposes tokens: `none`, `ngram`, `draft-model`, `draft` or `eagle3`. */
  drafter: string, cache: CacheState, speculation: SpeculationState, };

/** What conversations are about; what can change is in the settings. */
export type WorkloadSummary = {
  /** The same seed gives the same conversations. */
  seed: number,
  /** How many texts conversations begin with. Few texts are soon cached by every worker. */
  starters: number,
  /** Whether every conversation begins with a line of its own. */
  unique: boolean, };
