//! What the HTTP service reports about requests as their clients see them.

use super::{Metric, Stage, buckets, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Frontend",
    about: "Requests as their clients see them. `status` is `success` or `error`; `error_type` \
            is empty on success.",
    metrics: ALL,
};

metrics! {
    FRONTEND_REQUESTS_TOTAL = Metric::counter(
        "dynamo_frontend_requests_total",
        &["model", "endpoint", "request_type", "status", "error_type"],
        "Requests that have ended, by outcome; request_type is stream or unary.",
    );
    FRONTEND_INFLIGHT_REQUESTS = Metric::gauge(
        "dynamo_frontend_inflight_requests",
        &["model"],
        "Requests accepted and not yet ended.",
    );
    FRONTEND_QUEUED_REQUESTS = Metric::gauge(
        "dynamo_frontend_queued_requests",
        &["model"],
        "Requests accepted that wait for a worker with a free slot.",
    );
    FRONTEND_DISCONNECTED_CLIENTS = Metric::gauge(
        "dynamo_frontend_disconnected_clients",
        &[],
        "Clients that hung up before their answer was complete, since the start.",
    );
    FRONTEND_TIME_TO_FIRST_TOKEN_SECONDS = Metric::histogram(
        "dynamo_frontend_time_to_first_token_seconds",
        &["model"],
        buckets::TIME_TO_FIRST_TOKEN,
        "From the arrival of a request to its first token.",
    );
    FRONTEND_INTER_TOKEN_LATENCY_SECONDS = Metric::histogram(
        "dynamo_frontend_inter_token_latency_seconds",
        &["model"],
        buckets::INTER_TOKEN,
        "Gap before each token after the first; a chunk of several tokens counts its gap, evenly divided, for each.",
    );
    FRONTEND_REQUEST_DURATION_SECONDS = Metric::histogram(
        "dynamo_frontend_request_duration_seconds",
        &["model"],
        buckets::REQUEST_DURATION,
        "From the arrival of a request to its end.",
    );
    FRONTEND_INPUT_SEQUENCE_TOKENS = Metric::histogram(
        "dynamo_frontend_input_sequence_tokens",
        &["model"],
        buckets::INPUT_TOKENS,
        "Prompt tokens of a request, template included.",
    );
    FRONTEND_OUTPUT_SEQUENCE_TOKENS = Metric::histogram(
        "dynamo_frontend_output_sequence_tokens",
        &["model"],
        buckets::OUTPUT_TOKENS,
        "Tokens generated for a request.",
    );
    FRONTEND_CACHED_TOKENS = Metric::histogram(
        "dynamo_frontend_cached_tokens",
        &["model"],
        buckets::INPUT_TOKENS,
        "Prompt tokens of a request that the engine found in its KV cache.",
    );
    FRONTEND_OUTPUT_TOKENS_TOTAL = Metric::counter(
        "dynamo_frontend_output_tokens_total",
        &["model"],
        "Tokens generated, counted as they are streamed.",
    );
    FRONTEND_MODEL_TOTAL_KV_BLOCKS = Metric::gauge(
        "dynamo_frontend_model_total_kv_blocks",
        &["model"],
        "KV blocks of one worker of the model.",
    );
    FRONTEND_MODEL_MAX_NUM_SEQS = Metric::gauge(
        "dynamo_frontend_model_max_num_seqs",
        &["model"],
        "Sequences that one worker of the model runs concurrently.",
    );
    FRONTEND_MODEL_MAX_NUM_BATCHED_TOKENS = Metric::gauge(
        "dynamo_frontend_model_max_num_batched_tokens",
        &["model"],
        "Tokens that one step of a worker of the model may process.",
    );
    FRONTEND_MODEL_CONTEXT_LENGTH = Metric::gauge(
        "dynamo_frontend_model_context_length",
        &["model"],
        "Longest sequence of the model, prompt and answer together.",
    );
    FRONTEND_MODEL_KV_CACHE_BLOCK_SIZE = Metric::gauge(
        "dynamo_frontend_model_kv_cache_block_size",
        &["model"],
        "Tokens in one KV block of the model.",
    );
    FRONTEND_TOKENIZER_CACHE_HITS_TOTAL = Metric::counter(
        "dynamo_frontend_tokenizer_cache_hits_total",
        &["model"],
        "Pieces of prompts that were found already tokenised.",
    );
    FRONTEND_TOKENIZER_CACHE_MISSES_TOTAL = Metric::counter(
        "dynamo_frontend_tokenizer_cache_misses_total",
        &["model"],
        "Pieces of prompts that had to be tokenised.",
    );
    FRONTEND_STAGE_SECONDS = Metric::histogram(
        "homing_frontend_stage_seconds",
        &["stage"],
        buckets::STAGE,
        "Time a request spends in one stage of the frontend: prepare, route or dispatch.",
    );
    FRONTEND_QUEUE_WAIT_SECONDS = Metric::histogram(
        "homing_frontend_queue_wait_seconds",
        &["model"],
        buckets::TIME_TO_FIRST_TOKEN,
        "Time a request waited at its worker for a slot in the batch, once the engine had taken it in.",
    );
    FRONTEND_TTFT_WINDOW_SECONDS = Metric::summary(
        "homing_frontend_ttft_window_seconds",
        &["model"],
        "Time to first token over the last 60 seconds.",
    );
    FRONTEND_TPOT_WINDOW_SECONDS = Metric::summary(
        "homing_frontend_tpot_window_seconds",
        &["model"],
        "Time per output token after the first, of requests that ended in the last 60 seconds.",
    );
    FRONTEND_RETRIES_TOTAL = Metric::counter(
        "homing_frontend_retries_total",
        &["model"],
        "Requests sent to another worker because the first failed before any token.",
    );
    FRONTEND_SLOW_READERS_TOTAL = Metric::counter(
        "homing_frontend_slow_readers_total",
        &["model"],
        "Answers cancelled because their client did not read them in time (`--slow-reader-timeout`).",
    );
    FRONTEND_MODEL_MIGRATION_TOTAL = Metric::counter(
        "dynamo_frontend_model_migration_total",
        &["model", "migration_type"],
        "Requests moved to another worker because theirs failed, by whether the client had tokens already (`new_request`, `ongoing_request`).",
    );
    FRONTEND_KEY_REQUESTS_TOTAL = Metric::counter(
        "homing_frontend_key_requests_total",
        &["key", "outcome"],
        "Requests by the name of their API key: accepted, or rejected because the key was at its limit of concurrent requests (`admitted`, `limited`).",
    );
    BUILD_INFO = Metric::gauge(
        "homing_build_info",
        &["version"],
        "Always 1; the version of the running program.",
    );
}
