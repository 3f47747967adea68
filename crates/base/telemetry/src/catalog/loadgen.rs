//! What the load generator reports: latency as a client sees it.

use super::{Metric, Stage, buckets, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Load generator",
    about: "What a client of the API sees, by `turn_type`: `initial` for the first turn of a \
            conversation, `followup` for every later one. Requests that failed \
            are counted under `status` `error` and by kind; of their latencies only the TTFT is \
            observed, if the first token had come.",
    metrics: ALL,
};

metrics! {
    LOADGEN_TTFT_ALL_SECONDS = Metric::summary(
        "loadgen_ttft_all_seconds",
        &[],
        "TTFT of all turns.",
    );
    LOADGEN_TPOT_ALL_SECONDS = Metric::summary(
        "loadgen_tpot_all_seconds",
        &[],
        "TPOT of all turns.",
    );
    LOADGEN_TTFT_SECONDS = Metric::summary(
        "loadgen_ttft_seconds",
        &["turn_type"],
        "TTFT by type of turn.",
    );
    LOADGEN_TPOT_SECONDS = Metric::summary(
        "loadgen_tpot_seconds",
        &["turn_type"],
        "TPOT by type of turn.",
    );
    LOADGEN_ITL_SECONDS = Metric::summary(
        "loadgen_itl_seconds",
        &["turn_type"],
        "ITL by type of turn, one observation per token.",
    );
    LOADGEN_E2E_SECONDS = Metric::summary(
        "loadgen_e2e_seconds",
        &["turn_type"],
        "E2E by type of turn.",
    );
    LOADGEN_TTFT_DISTRIBUTION_SECONDS = Metric::histogram(
        "loadgen_ttft_distribution_seconds",
        &["turn_type"],
        buckets::TIME_TO_FIRST_TOKEN,
        "TTFT, to be added up over several load generators.",
    );
    LOADGEN_TPOT_DISTRIBUTION_SECONDS = Metric::histogram(
        "loadgen_tpot_distribution_seconds",
        &["turn_type"],
        buckets::INTER_TOKEN,
        "TPOT, to be added up over several load generators.",
    );
    LOADGEN_ITL_DISTRIBUTION_SECONDS = Metric::histogram(
        "loadgen_itl_distribution_seconds",
        &["turn_type"],
        buckets::INTER_TOKEN,
        "ITL, to be added up over several load generators.",
    );
    LOADGEN_E2E_DISTRIBUTION_SECONDS = Metric::histogram(
        "loadgen_e2e_distribution_seconds",
        &["turn_type"],
        buckets::REQUEST_DURATION,
        "E2E, to be added up over several load generators.",
    );
    LOADGEN_DISPATCH_LAG_SECONDS = Metric::histogram(
        "loadgen_dispatch_lag_seconds",
        &[],
        buckets::STAGE,
        "From when a turn was due to the start of sending it: how late the load generator itself is.",
    );
    LOADGEN_REQUESTS_TOTAL = Metric::counter(
        "loadgen_requests_total",
        &["turn_type", "status"],
        "Requests that ended, by `status` `success` or `error`.",
    );
    LOADGEN_ERRORS_TOTAL = Metric::counter(
        "loadgen_errors_total",
        &["kind"],
        "Requests that failed: `connect`, `timeout`, `stalled`, `status`, `broken_stream`, `server_error` or `no_usage`.",
    );
    LOADGEN_CONVERSATIONS_TOTAL = Metric::counter(
        "loadgen_conversations_total",
        &["status"],
        "Conversations that ended, by `status` `completed`, `stopped` or `error`.",
    );
    LOADGEN_TARGET_CONVERSATIONS = Metric::gauge(
        "loadgen_target_conversations",
        &[],
        "Target number of concurrent conversations.",
    );
    LOADGEN_ACTIVE_CONVERSATIONS = Metric::gauge(
        "loadgen_active_conversations",
        &[],
        "Conversations that are not over, those whose user is thinking included.",
    );
    LOADGEN_INFLIGHT_REQUESTS = Metric::gauge(
        "loadgen_inflight_requests",
        &[],
        "Requests sent and not yet answered.",
    );
    LOADGEN_PROMPT_TOKENS_TOTAL = Metric::counter(
        "loadgen_prompt_tokens_total",
        &[],
        "Prompt tokens of answered requests, as the server counted them.",
    );
    LOADGEN_CACHED_TOKENS_TOTAL = Metric::counter(
        "loadgen_cached_tokens_total",
        &[],
        "Of those, the ones that the server had cached.",
    );
    LOADGEN_OUTPUT_TOKENS_TOTAL = Metric::counter(
        "loadgen_output_tokens_total",
        &[],
        "Tokens of the answers, as the server counted them.",
    );
    LOADGEN_USER_MODEL_FALLBACKS_TOTAL = Metric::counter(
        "loadgen_user_model_fallbacks_total",
        &[],
        "Follow-ups that the user model did not write in time, so that a built-in question was asked.",
    );
}
