//! The rows of one worker: taken when it joins, withdrawn when it leaves.

use std::time::Duration;

use telemetry::catalog::{self, Metric};
use telemetry::{Counter, Gauge, Histogram, Registry};

use crate::feed::{EventTally, FeedState};
use crate::health::Condition;
use crate::mode::ModeName;
use crate::query::Claim;
use crate::state::Learned;

/// Events that are counted by type.
const EVENTS: [&str; 3] = ["stored", "removed", "cleared"];

/// Families whose only label is the worker.
const BY_WORKER: [&Metric; 16] = [
    &catalog::ROUTER_PREDICTED_CACHED_TOKENS_TOTAL,
    &catalog::ROUTER_ACTUAL_CACHED_TOKENS_TOTAL,
    &catalog::ROUTER_PREDICTED_TTFT_SECONDS,
    &catalog::ROUTER_ACTUAL_TTFT_SECONDS,
    &catalog::ROUTER_TTFT_ERROR_SECONDS,
    &catalog::ROUTER_INDEX_LAG_SECONDS,
    &catalog::ROUTER_FEED_GAPS_TOTAL,
    &catalog::ROUTER_FEED_SNAPSHOTS_TOTAL,
    &catalog::ROUTER_FEED_LOST_BLOCKS_TOTAL,
    &catalog::ROUTER_FEED_LIVE,
    &catalog::ROUTER_WORKER_TRUST,
    &catalog::ROUTER_LEARNED_PREFILL_SECONDS_PER_TOKEN,
    &catalog::ROUTER_LEARNED_FIRST_TOKEN_SECONDS,
    &catalog::ROUTER_LEARNED_STEP_SECONDS,
    &catalog::ROUTER_LEARNED_STEP_GROWTH_SECONDS,
    &catalog::ROUTER_LEARNED_RESIDENCE_SECONDS,
];

#[derive(Debug)]
pub(super) struct WorkerCells {
    /// In the mode in force.
    decisions: Counter,
    predicted_cached_tokens: Counter,
    actual_cached_tokens: Counter,
    predicted_ttft: Histogram,
    actual_ttft: Histogram,
    ttft_error: Histogram,
    pub(super) index_lag: Histogram,
    pub(super) gaps: Counter,
    pub(super) snapshots: Counter,
    lost_blocks: Counter,
    feed_live: Gauge,
    trust: Gauge,
    stored: Counter,
    removed: Counter,
    cleared: Counter,
    learned: LearnedCells,
}

/// What is believed about the worker's speed.
#[derive(Debug)]
struct LearnedCells {
    prefill: Gauge,
    first_token: Gauge,
    step: Gauge,
    step_growth: Gauge,
    residence: Gauge,
}

impl WorkerCells {
    pub(super) fn new(registry: &Registry, mode: ModeName, worker: &str) -> Self {
        let [stored, removed, cleared] = EVENTS.map(|event| {
            let labels = ["ok", event, worker];
            registry.counter(&catalog::COMPONENT_KV_CACHE_EVENTS_APPLIED, &labels)
        });
        let counter = |metric| registry.counter(metric, &[worker]);
        let gauge = |metric| registry.gauge(metric, &[worker]);
        let histogram = |metric| registry.histogram(metric, &[worker]);
        Self {
            decisions: decisions(registry, mode, worker),
            predicted_cached_tokens: counter(&catalog::ROUTER_PREDICTED_CACHED_TOKENS_TOTAL),
            actual_cached_tokens: counter(&catalog::ROUTER_ACTUAL_CACHED_TOKENS_TOTAL),
            predicted_ttft: histogram(&catalog::ROUTER_PREDICTED_TTFT_SECONDS),
            actual_ttft: histogram(&catalog::ROUTER_ACTUAL_TTFT_SECONDS),
            ttft_error: histogram(&catalog::ROUTER_TTFT_ERROR_SECONDS),
            index_lag: histogram(&catalog::ROUTER_INDEX_LAG_SECONDS),
            gaps: counter(&catalog::ROUTER_FEED_GAPS_TOTAL),
            snapshots: counter(&catalog::ROUTER_FEED_SNAPSHOTS_TOTAL),
            lost_blocks: counter(&catalog::ROUTER_FEED_LOST_BLOCKS_TOTAL),
            feed_live: gauge(&catalog::ROUTER_FEED_LIVE),
            trust: gauge(&catalog::ROUTER_WORKER_TRUST),
            stored,
            removed,
            cleared,
            learned: LearnedCells {
                prefill: gauge(&catalog::ROUTER_LEARNED_PREFILL_SECONDS_PER_TOKEN),
                first_token: gauge(&catalog::ROUTER_LEARNED_FIRST_TOKEN_SECONDS),
                step: gauge(&catalog::ROUTER_LEARNED_STEP_SECONDS),
                step_growth: gauge(&catalog::ROUTER_LEARNED_STEP_GROWTH_SECONDS),
                residence: gauge(&catalog::ROUTER_LEARNED_RESIDENCE_SECONDS),
            },
        }
    }

    pub(super) fn forget(registry: &Registry, worker: &str) {
        for mode in ModeName::ALL {
            let labels = [mode.as_str(), worker];
            registry.forget(&catalog::ROUTER_DECISIONS_TOTAL, &labels);
        }
        for metric in BY_WORKER {
            registry.forget(metric, &[worker]);
        }
        for event in EVENTS {
            let labels = ["ok", event, worker];
            registry.forget(&catalog::COMPONENT_KV_CACHE_EVENTS_APPLIED, &labels);
        }
    }

    pub(super) fn set_mode(&mut self, registry: &Registry, mode: ModeName, worker: &str) {
        self.decisions = decisions(registry, mode, worker);
    }

    pub(super) fn placed(&self) {
        self.decisions.inc();
    }

    /// Prediction and truth are counted together, so that both are of the same requests.
    pub(super) fn first_token(&self, claim: &Claim, cached_tokens: u32, after: Duration) {
        let predicted = claim.predicted_first_token;
        self.predicted_cached_tokens
            .add(u64::from(claim.predicted_cached_tokens));
        self.actual_cached_tokens.add(u64::from(cached_tokens));
        self.predicted_ttft.observe(predicted.as_secs_f64());
        self.actual_ttft.observe(after.as_secs_f64());
        let error = after.abs_diff(predicted);
        self.ttft_error.observe(error.as_secs_f64());
    }

    pub(super) fn applied(&self, tally: EventTally) {
        self.stored.add(tally.stored);
        self.removed.add(tally.removed);
        self.cleared.add(tally.cleared);
        self.lost_blocks.add(tally.lost_blocks);
    }

    pub(super) fn standing(&self, feed: FeedState, condition: Condition) {
        self.feed_live.set(match feed {
            FeedState::Live => 1.0,
            FeedState::Silent | FeedState::AwaitingSnapshot => 0.0,
        });
        self.trust.set(match condition {
            Condition::Sound => 1.0,
            Condition::Recovering | Condition::OnTrial => 0.5,
            Condition::Shunned => 0.0,
        });
    }

    pub(super) fn learned(&self, learned: &Learned) {
        let cells = &self.learned;
        cells.prefill.set(1.0 / learned.prefill_tokens_per_second);
        cells.first_token.set(learned.first_token_fixed_ms / 1e3);
        cells.step.set(learned.step_ms / 1e3);
        cells.step_growth.set(learned.step_growth_ms / 1e3);
        cells.residence.set(learned.residence_seconds);
    }
}

fn decisions(registry: &Registry, mode: ModeName, worker: &str) -> Counter {
    registry.counter(&catalog::ROUTER_DECISIONS_TOTAL, &[mode.as_str(), worker])
}
