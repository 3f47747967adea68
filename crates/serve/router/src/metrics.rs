//! The router's rows of the metric catalogue.
//!
//! Handles are looked up when a worker joins or the mode changes, so that reporting a
//! decision is a handful of atomic additions. A worker's rows go when it leaves. What has
//! been learned is written down once per second: it changes with every token, and nobody
//! scrapes faster.

mod cells;

use std::collections::BTreeMap;
use std::time::Duration;

use contract::{Moment, WorkerId};
use telemetry::{Counter, Gauge, Histogram, Registry, catalog};

use self::cells::WorkerCells;
use crate::feed::Observed;
use crate::mode::ModeName;
use crate::query::{Claim, RouteError};
use crate::state::{FeedOutcome, State};

/// How often the figures that were learned are written down.
const LEARNED_EVERY: Duration = Duration::from_secs(1);

/// Lives under the router's lock, beside the state that it reports on.
#[derive(Debug)]
pub(crate) struct RouterMetrics {
    registry: Registry,
    mode: ModeName,
    decision_seconds: Histogram,
    /// In the mode in force; one is there once it has been given.
    reasons: BTreeMap<&'static str, Counter>,
    no_worker: Counter,
    saturated: Counter,
    queue_timeout: Counter,
    queue_wait: Histogram,
    hot_spread: Counter,
    index_blocks: Gauge,
    expected_blocks: Gauge,
    spread: Gauge,
    workers: BTreeMap<WorkerId, WorkerCells>,
    /// When the learned figures were last written down.
    learned: Option<Moment>,
}

impl RouterMetrics {
    pub(crate) fn new(registry: &Registry, mode: ModeName) -> Self {
        let rejections = |reason| registry.counter(&catalog::ROUTER_REJECTIONS_TOTAL, &[reason]);
        Self {
            decision_seconds: registry
                .histogram(&catalog::ROUTER_DECISION_SECONDS, &[mode.as_str()]),
            reasons: BTreeMap::new(),
            no_worker: rejections("no_worker"),
            saturated: rejections("saturated"),
            queue_timeout: rejections("queue_timeout"),
            queue_wait: registry.histogram(&catalog::ROUTER_QUEUE_WAIT_SECONDS, &[]),
            hot_spread: registry.counter(&catalog::ROUTER_HOT_SPREAD_TOTAL, &[]),
            index_blocks: registry.gauge(&catalog::ROUTER_INDEX_BLOCKS, &[]),
            expected_blocks: registry.gauge(&catalog::ROUTER_INDEX_SPECULATIVE_BLOCKS, &[]),
            spread: registry.gauge(&catalog::ROUTER_INFLIGHT_SPREAD, &[]),
            workers: BTreeMap::new(),
            learned: None,
            registry: registry.clone(),
            mode,
        }
    }

    pub(crate) fn set_mode(&mut self, mode: ModeName) {
        self.mode = mode;
        self.decision_seconds = self
            .registry
            .histogram(&catalog::ROUTER_DECISION_SECONDS, &[mode.as_str()]);
        self.reasons.clear();
        for (worker, cells) in &mut self.workers {
            cells.set_mode(&self.registry, mode, &worker.to_string());
        }
    }

    pub(crate) fn join(&mut self, worker: WorkerId) {
        let cells = WorkerCells::new(&self.registry, self.mode, &worker.to_string());
        self.workers.insert(worker, cells);
        self.learned = None;
    }

    pub(crate) fn leave(&mut self, worker: WorkerId) {
        if self.workers.remove(&worker).is_some() {
            WorkerCells::forget(&self.registry, &worker.to_string());
        }
    }

    pub(crate) fn placed(&mut self, claim: &Claim) {
        if let Some(cells) = self.workers.get(&claim.worker) {
            cells.placed();
        }
        if claim.hot_spread {
            self.hot_spread.inc();
        }
        let (registry, mode) = (&self.registry, self.mode.as_str());
        let reason = claim.reason.name();
        let labels = [mode, reason];
        let count = || registry.counter(&catalog::ROUTER_DECISION_REASONS_TOTAL, &labels);
        self.reasons.entry(reason).or_insert_with(count).inc();
    }

    /// A request that had waited was placed.
    pub(crate) fn bound(&mut self, claim: &Claim) {
        self.placed(claim);
        self.queue_wait.observe(claim.waited.as_secs_f64());
    }

    pub(crate) fn refused(&self, error: &RouteError) {
        match error {
            RouteError::NoWorker => self.no_worker.inc(),
            RouteError::Saturated { .. } => self.saturated.inc(),
            RouteError::QueueTimeout { .. } => self.queue_timeout.inc(),
        }
    }

    pub(crate) fn took(&self, elapsed: Duration) {
        self.decision_seconds.observe(elapsed.as_secs_f64());
    }

    pub(crate) fn first_token(&self, claim: &Claim, cached_tokens: u32, now: Moment) {
        if let Some(cells) = self.workers.get(&claim.worker) {
            cells.first_token(claim, cached_tokens, now.since(claim.at));
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

    pub(crate) fn caught_up(&self, worker: WorkerId, lag: Duration) {
        if let Some(cells) = self.workers.get(&worker) {
            cells.index_lag.observe(lag.as_secs_f64());
        }
    }

    /// Brings the gauges up to date.
    pub(crate) fn levels(&mut self, state: &State, now: Moment) {
        let (confirmed, expected) = state.known_blocks();
        self.index_blocks.set(confirmed as f64);
        self.expected_blocks.set(expected as f64);
        self.spread.set(f64::from(state.spread()));
        if self.learned.is_some_and(|at| now.since(at) < LEARNED_EVERY) {
            return;
        }
        self.learned = Some(now);
        for (worker, learned) in state.learned() {
            if let Some(cells) = self.workers.get(&worker) {
                cells.learned(&learned);
            }
        }
        for (worker, feed, condition) in state.standings(now) {
            if let Some(cells) = self.workers.get(&worker) {
                cells.standing(feed, condition);
            }
        }
    }
}
