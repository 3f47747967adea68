//! What the router reports about its choices and about what it believes of the caches.

use super::{Metric, Stage, buckets, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Router",
    about: "Which worker was chosen and why, how long choosing took, what has been learned about \
            the workers, and how well cached tokens and first tokens were predicted.",
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
    ROUTER_DECISION_REASONS_TOTAL = Metric::counter(
        "homing_router_decision_reasons_total",
        &["mode", "reason"],
        "Requests placed on a worker, by why that one: the reason of the decision's record as one word.",
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
        "Distinct blocks with at least one known holder in the index.",
    );
    ROUTER_INDEX_SPECULATIVE_BLOCKS = Metric::gauge(
        "homing_router_index_speculative_blocks",
        &[],
        "Blocks expected on workers because of running requests, whether confirmed by events or not.",
    );
    ROUTER_INDEX_LAG_SECONDS = Metric::histogram(
        "homing_router_index_lag_seconds",
        &["worker_id"],
        buckets::LAG,
        "Time from a worker's publishing a batch of KV events to the index having it, the repair of a gap included.",
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
    ROUTER_FEED_LOST_BLOCKS_TOTAL = Metric::counter(
        "homing_router_feed_lost_blocks_total",
        &["worker_id"],
        "Blocks about which the index was wrong when a gap in a worker's events was repaired.",
    );
    ROUTER_FEED_LIVE = Metric::gauge(
        "homing_router_feed_live",
        &["worker_id"],
        "1 while the index's view of a worker is reliable, 0 before its first event and until a gap is repaired.",
    );
    ROUTER_WORKER_TRUST = Metric::gauge(
        "homing_router_worker_trust",
        &["worker_id"],
        "1 for a worker that gets all requests it has slots for, 0.5 for one that comes back and is tried with a few, 0 for one that is left alone because it failed.",
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
        "Time that a request waited in the router until a worker had a free slot; requests that found one immediately are not counted.",
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
    ROUTER_PREDICTED_TTFT_SECONDS = Metric::histogram(
        "homing_router_predicted_ttft_seconds",
        &["worker_id"],
        buckets::TIME_TO_FIRST_TOKEN,
        "Time from dispatch to first token that was expected at dispatch, of requests whose first token came.",
    );
    ROUTER_ACTUAL_TTFT_SECONDS = Metric::histogram(
        "homing_router_actual_ttft_seconds",
        &["worker_id"],
        buckets::TIME_TO_FIRST_TOKEN,
        "Time from dispatch to first token that the same requests took.",
    );
    ROUTER_LEARNED_PREFILL_SECONDS_PER_TOKEN = Metric::gauge(
        "homing_router_learned_prefill_seconds_per_token",
        &["worker_id"],
        "Estimated increase of the time to first token per prompt token to compute.",
    );
    ROUTER_LEARNED_FIRST_TOKEN_SECONDS = Metric::gauge(
        "homing_router_learned_first_token_seconds",
        &["worker_id"],
        "Estimated time to first token apart from the prompt, with the requests now in flight.",
    );
    ROUTER_LEARNED_STEP_SECONDS = Metric::gauge(
        "homing_router_learned_step_seconds",
        &["worker_id"],
        "Estimated time between two tokens on the worker, with the requests now in flight.",
    );
    ROUTER_LEARNED_STEP_GROWTH_SECONDS = Metric::gauge(
        "homing_router_learned_step_growth_seconds",
        &["worker_id"],
        "Estimated increase of the time between two tokens per further request.",
    );
    ROUTER_LEARNED_RESIDENCE_SECONDS = Metric::gauge(
        "homing_router_learned_residence_seconds",
        &["worker_id"],
        "Estimated time that a request keeps its slot.",
    );
}
