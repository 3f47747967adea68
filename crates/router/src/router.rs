//! The router that a server holds: the state, one lock, and a guard per request.
//!
//! One short lock and not a task with an inbox. A pick takes microseconds and waits for
//! nothing, so a lock around it costs less than the two channel crossings and wake-ups that
//! asking a task would; every answer is there when the call returns; and a guard can give
//! its place back right in `Drop`, where nothing can be awaited, without a second channel
//! that might still be full of releases when the next pick looks at the load. No method
//! here is `async`, so the lock cannot be held across an await.
//!
//! # Guarantees
//!
//! - **A placement is a reservation.** It is counted before [`Router::route`] returns and
//!   given back when the [`Placement`] is dropped, however the request ended.
//! - **Readers do not hold up routing**: they copy small values or shared records and
//!   format outside the lock.

use std::sync::Arc;

use contract::{Clock, KvBatch, KvSnapshot, Moment, WorkerCard, WorkerId, WorkerStatus};
use parking_lot::Mutex;
use telemetry::Registry;
use tracing::{Level, debug, warn};

use crate::config::RouterConfig;
use crate::decision::Decision;
use crate::feed::Observed;
use crate::metrics::RouterMetrics;
use crate::mode::Mode;
use crate::query::{Claim, RouteError, RouteQuery};
use crate::state::{JoinError, State, WorkerView};

#[cfg(test)]
mod tests;

/// Handle to the router. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Router {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    guarded: Mutex<Guarded>,
    clock: Clock,
}

#[derive(Debug)]
struct Guarded {
    state: State,
    metrics: RouterMetrics,
}

impl Router {
    pub fn new(config: RouterConfig, registry: &Registry, clock: Clock) -> Self {
        let metrics = RouterMetrics::new(registry, config.mode.name());
        let guarded = Mutex::new(Guarded {
            state: State::new(config),
            metrics,
        });
        Self {
            shared: Arc::new(Shared { guarded, clock }),
        }
    }

    /// The clock by which the router counts time.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Chooses a worker and reserves a place on it.
    pub fn route(&self, query: &RouteQuery<'_>) -> Result<Placement, RouteError> {
        let began = self.shared.clock.now();
        let mut guarded = self.shared.guarded.lock();
        let Guarded { state, metrics } = &mut *guarded;
        let result = state.place(query, began);
        match &result {
            Ok(claim) => metrics.placed(claim),
            Err(error) => metrics.refused(error),
        }
        metrics.levels(state);
        metrics.took(self.shared.clock.now() - began);
        let told = tracing::enabled!(Level::DEBUG) && result.is_ok();
        let decision = if told { state.decisions(1).pop() } else { None };
        drop(guarded);
        if let Some(decision) = decision {
            debug!("{}", decision.explain());
        }
        result.map(|claim| Placement {
            router: self.clone(),
            claim,
        })
    }

    /// Takes a worker in, or replaces it.
    pub fn join(&self, card: WorkerCard) -> Result<(), JoinError> {
        let worker = card.id;
        let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
        state.join(card)?;
        metrics.leave(worker);
        metrics.join(worker);
        metrics.levels(state);
        Ok(())
    }

    /// Forgets a worker. Whether it was a member.
    pub fn leave(&self, worker: WorkerId) -> bool {
        let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
        let left = state.leave(worker);
        metrics.leave(worker);
        metrics.levels(state);
        left
    }

    /// Places nothing more on a worker. Whether it is a member.
    pub fn drain(&self, worker: WorkerId) -> bool {
        self.shared.guarded.lock().state.drain(worker)
    }

    /// Keeps what a worker says about itself, for [`workers`](Self::workers).
    pub fn report(&self, worker: WorkerId, status: WorkerStatus) {
        self.shared.guarded.lock().state.report(worker, status);
    }

    /// Takes in a batch of cache events. On [`Observed::NeedsSnapshot`] the caller fetches
    /// one from the worker and hands it to [`restore`](Self::restore).
    pub fn observe(&self, batch: &KvBatch) -> Observed {
        let observed = {
            let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
            let outcome = state.observe(batch);
            metrics.observed(batch.worker, &outcome);
            metrics.levels(state);
            outcome.observed
        };
        if observed == Observed::NeedsSnapshot {
            let KvBatch {
                worker,
                epoch,
                sequence,
                ..
            } = batch;
            warn!(%worker, epoch, sequence, "kv feed has a gap or a new epoch; resyncing");
        }
        observed
    }

    /// Takes in a worker's snapshot. [`Observed::NeedsSnapshot`] asks for another.
    pub fn restore(&self, worker: WorkerId, snapshot: &KvSnapshot) -> Observed {
        let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
        let outcome = state.restore(worker, snapshot);
        metrics.restored(worker, &outcome);
        metrics.levels(state);
        outcome.observed
    }

    pub fn mode(&self) -> Mode {
        self.shared.guarded.lock().state.mode()
    }

    /// Changes the policy from the next request on.
    pub fn set_mode(&self, mode: Mode) {
        let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
        state.set_mode(mode);
        metrics.set_mode(mode.name());
    }

    /// Every member, in ascending order of worker.
    pub fn workers(&self) -> Vec<WorkerView> {
        self.shared.guarded.lock().state.workers()
    }

    /// The latest `limit` decisions, latest first.
    pub fn decisions(&self, limit: usize) -> Vec<Arc<Decision>> {
        self.shared.guarded.lock().state.decisions(limit)
    }

    /// Placements that have not been dropped.
    pub fn in_flight(&self) -> usize {
        self.shared.guarded.lock().state.in_flight()
    }

    /// Requests beyond their worker's slots: what waits in the engines.
    pub fn total_queued(&self) -> u64 {
        self.shared.guarded.lock().state.total_queued()
    }

    fn first_token(&self, claim: &Claim, cached_tokens: u32, now: Moment) {
        let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
        if state.first_token(claim, cached_tokens, now) {
            metrics.first_token(claim, cached_tokens);
        }
    }

    fn release(&self, claim: &Claim) {
        let now = self.shared.clock.now();
        let Guarded { state, metrics } = &mut *self.shared.guarded.lock();
        state.release(claim, now);
        metrics.levels(state);
    }
}

/// A worker chosen for one request, and a claim on its capacity.
///
/// Dropping it gives the capacity back however the request ended: finished, failed, retried
/// elsewhere, or abandoned.
#[derive(Debug)]
#[must_use = "dropping a placement gives the place back"]
pub struct Placement {
    router: Router,
    claim: Claim,
}

impl Placement {
    pub fn worker(&self) -> WorkerId {
        self.claim.worker
    }

    /// Prompt tokens that the worker is expected to have.
    pub fn predicted_cached_tokens(&self) -> u32 {
        self.claim.predicted_cached_tokens
    }

    /// Under which number the decision is recorded.
    pub fn decision_number(&self) -> u64 {
        self.claim.decision
    }

    /// Says that the prompt has been computed, and how much of it came out of the cache.
    /// `now` is by the router's [`clock`](Router::clock).
    pub fn first_token(&mut self, actual_cached_tokens: u32, now: Moment) {
        self.router
            .first_token(&self.claim, actual_cached_tokens, now);
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.router.release(&self.claim);
    }
}
