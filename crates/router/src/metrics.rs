//! The router's rows of the metric catalogue.
//!
//! Handles are looked up when a worker joins or the mode changes, so that reporting a
//! decision is a handful of atomic additions. A worker's rows go when it leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::{Moment, WorkerId};
use telemetry::{Counter, Gauge, Histogram, Registry, catalog};

use crate::feed::{EventTally, Observed};
use crate::mode::ModeName;
use crate::query::{Claim, RouteError};
use crate::state::{FeedOutcome, State};

/// Lives under the router's lock, beside the state that it reports on.
#[derive(Debug)]
pub(crate) struct RouterMetrics {
    registry: Registry,
    mode: ModeName,
    decision_seconds: Histogram,
    no_worker: Counter,
    saturated: Counter,
    queue_wait: Histogram,
    hot_spread: Counter,
    index_blocks: Gauge,
    expected_blocks: Gauge,
    spread: Gauge,
    workers: BTreeMap<WorkerId, WorkerCells>,
}

/// The rows of one worker.
#[derive(Debug)]
struct WorkerCells {
    /// In the mode in force.
    decisions: Counter,
    predicted_cached_tokens: Counter,
    actual_cached_tokens: Counter,
    ttft_error: Histogram,
    gaps: Counter,
    snapshots: Counter,
    stored: Counter,
    removed: Counter,
    cleared: Counter,
}

impl RouterMetrics {
    pub(crate) fn new(registry: &Registry, mode: ModeName) -> Self {
        let rejections = |reason| registry.counter(&catalog::ROUTER_REJECTIONS_TOTAL, &[reason]);
        Self {
            decision_seconds: registry
                .histogram(&catalog::ROUTER_DECISION_SECONDS, &[mode.as_str()]),
            no_worker: rejections("no_worker"),
            saturated: rejections("saturated"),
            queue_wait: registry.histogram(&catalog::ROUTER_QUEUE_WAIT_SECONDS, &[]),
            hot_spread: registry.counter(&catalog::ROUTER_HOT_SPREAD_TOTAL, &[]),
            index_blocks: registry.gauge(&catalog::ROUTER_INDEX_BLOCKS, &[]),
            expected_blocks: registry.gauge(&catalog::ROUTER_INDEX_SPECULATIVE_BLOCKS, &[]),
            spread: registry.gauge(&catalog::ROUTER_INFLIGHT_SPREAD, &[]),
            workers: BTreeMap::new(),
            registry: registry.clone(),
            mode,
        }
    }

    pub(crate) fn set_mode(&mut self, mode: ModeName) {
        self.mode = mode;
        self.decision_seconds = self
            .registry
            .histogram(&catalog::ROUTER_DECISION_SECONDS, &[mode.as_str()]);
        for (worker, cells) in &mut self.workers {
            cells.decisions = decisions(&self.registry, mode, &worker.to_string());
        }
    }

    pub(crate) fn join(&mut self, worker: WorkerId) {
        let cells = WorkerCells::new(&self.registry, self.mode, &worker.to_string());
        self.workers.insert(worker, cells);
    }

    pub(crate) fn leave(&mut self, worker: WorkerId) {
        if self.workers.remove(&worker).is_none() {
            return;
        }
        let id = worker.to_string();
        for mode in ModeName::ALL {
            self.registry
                .forget(&catalog::ROUTER_DECISIONS_TOTAL, &[mode.as_str(), &id]);
        }
        for metric in [
            &catalog::ROUTER_PREDICTED_CACHED_TOKENS_TOTAL,
            &catalog::ROUTER_ACTUAL_CACHED_TOKENS_TOTAL,
            &catalog::ROUTER_TTFT_ERROR_SECONDS,
            &catalog::ROUTER_FEED_GAPS_TOTAL,
            &catalog::ROUTER_FEED_SNAPSHOTS_TOTAL,
        ] {
            self.registry.forget(metric, &[&id]);
        }
        for event in ["stored", "removed", "cleared"] {
            let labels = ["ok", event, &id];
            self.registry
                .forget(&catalog::COMPONENT_KV_CACHE_EVENTS_APPLIED, &labels);
        }
    }

    pub(crate) fn placed(&self, claim: &Claim) {
        if let Some(cells) = self.workers.get(&claim.worker) {
            cells.decisions.inc();
        }
        if claim.hot_spread {
            self.hot_spread.inc();
        }
    }

    /// A request that had waited was placed.
    pub(crate) fn bound(&self, claim: &Claim) {
        self.placed(claim);
        self.queue_wait.observe(claim.waited.as_secs_f64());
    }

    pub(crate) fn refused(&self, error: &RouteError) {
        match error {
            RouteError::NoWorker => self.no_worker.inc(),
            RouteError::Saturated { .. } => self.saturated.inc(),
        }
    }

    pub(crate) fn took(&self, elapsed: Duration) {
        self.decision_seconds.observe(elapsed.as_secs_f64());
    }

    /// Prediction and truth are counted together, at the first token, so that the two sums
    /// are over the same requests.
    pub(crate) fn first_token(&self, claim: &Claim, cached_tokens: u32, now: Moment) {
        if let Some(cells) = self.workers.get(&claim.worker) {
            cells
                .predicted_cached_tokens
                .add(u64::from(claim.predicted_cached_tokens));
            cells.actual_cached_tokens.add(u64::from(cached_tokens));
            let error = now.since(claim.at).abs_diff(claim.predicted_first_token);
            cells.ttft_error.observe(error.as_secs_f64());
        }
    }

    pub(crate) fn observed(&self, worker: WorkerId, outcome: &FeedOutcome) {
        if let Some(cells) = self.workers.get(&worker) {
            if outcome.observed == Observed::NeedsSnapshot {
                cells.gaps.inc();
            }
            cells.applied(outcome.applied);
        }
    }

    pub(crate) fn restored(&self, worker: WorkerId, outcome: &FeedOutcome) {
        if let Some(cells) = self.workers.get(&worker) {
            if outcome.observed != Observed::Duplicate {
                cells.snapshots.inc();
            }
            cells.applied(outcome.applied);
        }
    }

    /// Brings the gauges up to date.
    pub(crate) fn levels(&self, state: &State) {
        let (confirmed, expected) = state.known_blocks();
        self.index_blocks.set(confirmed as f64);
        self.expected_blocks.set(expected as f64);
        self.spread.set(f64::from(state.spread()));
    }
}

impl WorkerCells {
    fn new(registry: &Registry, mode: ModeName, worker: &str) -> Self {
        let events = |event| {
            let labels = ["ok", event, worker];
            registry.counter(&catalog::COMPONENT_KV_CACHE_EVENTS_APPLIED, &labels)
        };
        let counter = |metric| registry.counter(metric, &[worker]);
        Self {
            decisions: decisions(registry, mode, worker),
            predicted_cached_tokens: counter(&catalog::ROUTER_PREDICTED_CACHED_TOKENS_TOTAL),
            actual_cached_tokens: counter(&catalog::ROUTER_ACTUAL_CACHED_TOKENS_TOTAL),
            ttft_error: registry.histogram(&catalog::ROUTER_TTFT_ERROR_SECONDS, &[worker]),
            gaps: counter(&catalog::ROUTER_FEED_GAPS_TOTAL),
            snapshots: counter(&catalog::ROUTER_FEED_SNAPSHOTS_TOTAL),
            stored: events("stored"),
            removed: events("removed"),
            cleared: events("cleared"),
        }
    }

    fn applied(&self, tally: EventTally) {
        self.stored.add(tally.stored);
        self.removed.add(tally.removed);
        self.cleared.add(tally.cleared);
    }
}

fn decisions(registry: &Registry, mode: ModeName, worker: &str) -> Counter {
    registry.counter(&catalog::ROUTER_DECISIONS_TOTAL, &[mode.as_str(), worker])
}
