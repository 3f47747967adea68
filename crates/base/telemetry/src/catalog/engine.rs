//! What each engine reports about its queue, its steps, its blocks and its guesses.

use super::{Metric, Stage, buckets, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Engine",
    about: "Queue, steps, blocks and speculation of one engine: the names of TensorRT-LLM where \
            it has one.",
    metrics: ALL,
};

const TRTLLM: &[&str] = &["model_name", "engine_type", "worker_id"];
const WORKER: &[&str] = &["worker_id"];
const SPECULATION: &[&str] = &["worker_id", "method"];
const POSITION: &[&str] = &["worker_id", "method", "position"];

metrics! {
    TRTLLM_REQUEST_QUEUE_TIME_SECONDS = Metric::histogram(
        "trtllm_request_queue_time_seconds",
        TRTLLM,
        buckets::QUEUE_TIME,
        "From when the engine had taken a request in to its first step.",
    );
    TRTLLM_TIME_TO_FIRST_TOKEN_SECONDS = Metric::histogram(
        "trtllm_time_to_first_token_seconds",
        TRTLLM,
        buckets::TIME_TO_FIRST_TOKEN,
        "From a request's arrival at the engine to its first token.",
    );
    TRTLLM_TIME_PER_OUTPUT_TOKEN_SECONDS = Metric::histogram(
        "trtllm_time_per_output_token_seconds",
        TRTLLM,
        buckets::INTER_TOKEN,
        "A finished request's mean time per token after the first.",
    );
    TRTLLM_E2E_REQUEST_LATENCY_SECONDS = Metric::histogram(
        "trtllm_e2e_request_latency_seconds",
        TRTLLM,
        buckets::REQUEST_DURATION,
        "From a request's arrival at the engine to its last token.",
    );
    TRTLLM_REQUEST_SUCCESS_TOTAL = Metric::counter(
        "trtllm_request_success_total",
        &["model_name", "engine_type", "worker_id", "finished_reason"],
        "Requests that the engine finished.",
    );
    TRTLLM_KV_CACHE_HIT_RATE = Metric::gauge(
        "trtllm_kv_cache_hit_rate",
        TRTLLM,
        "Share of prompt blocks found in the KV cache since the start, from 0 to 1.",
    );
    TRTLLM_KV_CACHE_UTILIZATION = Metric::gauge(
        "trtllm_kv_cache_utilization",
        TRTLLM,
        "Share of the KV blocks that running requests use, from 0 to 1.",
    );
    ENGINE_STEPS_TOTAL = Metric::counter(
        "homing_engine_steps_total",
        WORKER,
        "Forward passes run.",
    );
    ENGINE_STEP_SECONDS = Metric::histogram(
        "homing_engine_step_seconds",
        WORKER,
        buckets::STEP,
        "Time of one forward pass.",
    );
    ENGINE_STEP_TOKENS_TOTAL = Metric::counter(
        "homing_engine_step_tokens_total",
        &["worker_id", "phase"],
        "Tokens processed by forward passes; phase is prefill or decode.",
    );
    ENGINE_PREEMPTIONS_TOTAL = Metric::counter(
        "homing_engine_preemptions_total",
        WORKER,
        "Running requests preempted for lack of blocks.",
    );
    ENGINE_RECOMPUTED_TOKENS_TOTAL = Metric::counter(
        "homing_engine_recomputed_tokens_total",
        WORKER,
        "Tokens that preempted requests had computed before and compute again.",
    );
    ENGINE_WAITING_REQUESTS = Metric::gauge(
        "homing_engine_waiting_requests",
        WORKER,
        "Requests in the engine's queue.",
    );
    ENGINE_RUNNING_REQUESTS = Metric::gauge(
        "homing_engine_running_requests",
        WORKER,
        "Requests in the engine's batch.",
    );
    ENGINE_CACHED_BLOCKS = Metric::gauge(
        "homing_engine_cached_blocks",
        WORKER,
        "Blocks whose content a later request can reuse.",
    );
    ENGINE_FREE_BLOCKS = Metric::gauge(
        "homing_engine_free_blocks",
        WORKER,
        "Blocks that a new request can take, by eviction if need be.",
    );
    ENGINE_EVICTED_BLOCKS_TOTAL = Metric::counter(
        "homing_engine_evicted_blocks_total",
        WORKER,
        "Reusable blocks evicted to make room.",
    );
    SPECULATION_DRAFTS_TOTAL = Metric::counter(
        "homing_speculation_drafts_total",
        SPECULATION,
        "Drafts proposed, one for each sequence and step.",
    );
    SPECULATION_DRAFTED_TOKENS_TOTAL = Metric::counter(
        "homing_speculation_drafted_tokens_total",
        SPECULATION,
        "Tokens proposed by drafts.",
    );
    SPECULATION_ACCEPTED_TOKENS_TOTAL = Metric::counter(
        "homing_speculation_accepted_tokens_total",
        SPECULATION,
        "Drafted tokens that the model confirmed.",
    );
    SPECULATION_ACCEPTANCE_RATIO = Metric::gauge(
        "homing_speculation_acceptance_ratio",
        SPECULATION,
        "Accepted over drafted tokens since the start, from 0 to 1.",
    );
    SPECULATION_TOKENS_PER_STEP = Metric::gauge(
        "homing_speculation_tokens_per_step",
        SPECULATION,
        "Tokens that a sequence gains in a step, on average since the start.",
    );
    SPECULATION_POSITION_DRAFTED_TOKENS_TOTAL = Metric::counter(
        "homing_speculation_position_drafted_tokens_total",
        POSITION,
        "Tokens proposed at one position of drafts; the first position is 1.",
    );
    SPECULATION_POSITION_ACCEPTED_TOKENS_TOTAL = Metric::counter(
        "homing_speculation_position_accepted_tokens_total",
        POSITION,
        "Tokens at one position of drafts that became part of an answer.",
    );
    SPECULATION_DRAFT_SECONDS_TOTAL = Metric::counter(
        "homing_speculation_draft_seconds_total",
        SPECULATION,
        "Time spent on making drafts and on keeping the drafter up to date.",
    );
    SPECULATION_VERIFY_SECONDS_TOTAL = Metric::counter(
        "homing_speculation_verify_seconds_total",
        SPECULATION,
        "Time of the forward passes that carried drafts.",
    );
    SPECULATION_DRAFT_LENGTH = Metric::gauge(
        "homing_speculation_draft_length",
        SPECULATION,
        "Tokens of the longest draft in the latest step that had one.",
    );
}
