//! What the router reports about its choices and about what it believes of the caches.

use super::{Metric, Stage, buckets, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Router",
    about: "Which worker was chosen, how long choosing took, and how well the index predicted \
            what the engines had cached.",
    metrics: ALL,
};

metrics! {
    ROUTER_DECISION_SECONDS = Metric::histogram(
        "homing_router_decision_seconds",
        &["mode"],
        buckets::DECISION,
        "Time to choose and reserve a worker.",
    );
    ROUTER_DECISIONS_TOTAL = Metric::counter(
        "homing_router_decisions_total",
        &["mode", "worker_id"],
        "Requests placed on a worker.",
    );
    ROUTER_REJECTIONS_TOTAL = Metric::counter(
        "homing_router_rejections_total",
        &["reason"],
        "Requests for which no worker could be chosen.",
    );
    ROUTER_PREDICTED_CACHED_TOKENS_TOTAL = Metric::counter(
        "homing_router_predicted_cached_tokens_total",
        &["worker_id"],
        "Prompt tokens that the index expected the chosen worker to hold.",
    );
    ROUTER_ACTUAL_CACHED_TOKENS_TOTAL = Metric::counter(
        "homing_router_actual_cached_tokens_total",
        &["worker_id"],
        "Prompt tokens that the chosen worker did hold.",
    );
    ROUTER_INDEX_BLOCKS = Metric::gauge(
        "homing_router_index_blocks",
        &[],
        "Distinct blocks that the index knows at least one holder of.",
    );
    ROUTER_INDEX_SPECULATIVE_BLOCKS = Metric::gauge(
        "homing_router_index_speculative_blocks",
        &[],
        "Blocks expected on workers because of requests under way, whether confirmed by events or not.",
    );
    ROUTER_FEED_GAPS_TOTAL = Metric::counter(
        "homing_router_feed_gaps_total",
        &["worker_id"],
        "Times a worker's KV events skipped a sequence number.",
    );
    ROUTER_FEED_SNAPSHOTS_TOTAL = Metric::counter(
        "homing_router_feed_snapshots_total",
        &["worker_id"],
        "Times a worker's holdings were replaced by a full snapshot.",
    );
    ROUTER_INFLIGHT_SPREAD = Metric::gauge(
        "homing_router_inflight_spread",
        &[],
        "Requests in flight on the busiest worker less those on the idlest.",
    );
    ROUTER_QUEUE_WAIT_SECONDS = Metric::histogram(
        "homing_router_queue_wait_seconds",
        &[],
        buckets::QUEUE_TIME,
        "Time that a request waited in the router until a worker had a free slot; requests that found one at once are not counted.",
    );
    ROUTER_HOT_SPREAD_TOTAL = Metric::counter(
        "homing_router_hot_spread_total",
        &[],
        "Requests placed away from a worker that holds much more of their prompt, because it was full or would have taken longer.",
    );
    ROUTER_TTFT_ERROR_SECONDS = Metric::histogram(
        "homing_router_ttft_error_seconds",
        &["worker_id"],
        buckets::TIME_TO_FIRST_TOKEN,
        "Difference between the predicted and the actual time from dispatch to first token, either way.",
    );
}
