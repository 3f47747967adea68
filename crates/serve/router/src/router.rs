//! The router that a server holds: the state, one lock, and a guard per request.
//!
//! One short lock and not a task with an inbox. A pick takes microseconds and waits for
//! nothing, so a lock around it costs less than the two channel crossings and wake-ups that
//! asking a task would; and a guard can give its place back right in `Drop`, where nothing
//! can be awaited, without a second channel that might still be full of releases when the
//! next pick looks at the load. Only a request that finds every worker full waits: the caller
//! that makes room binds it, under the same lock, and wakes it after releasing the lock.
//!
//! # Guarantees
//!
//! - **A placement is a reservation.** It is counted before [`Router::route`] returns and
//!   given back when the [`Placement`] is dropped, however the request ended.
//! - **Room is never left unused.** Every method that may make room hands it to those who
//!   wait before the lock is released, so no newcomer finds a slot that another waits for.
//! - **Readers do not hold up routing**: they copy small values or shared records and
//!   format outside the lock.

use std::sync::Arc;

use contract::{
    BlockFormat, Clock, FrontendId, FrontendLoad, KvBatch, KvSnapshot, Lease, LinkError, Moment,
    WorkerCard, WorkerId, WorkerStatus,
};
use telemetry::Registry;
use tracing::{Level, debug, warn};

use crate::config::RouterConfig;
use crate::decision::{Decision, Handling};
use crate::feed::Observed;
use crate::metrics::RouterMetrics;
use crate::mode::Mode;
use crate::query::{Claim, Placed, RouteError, RouteQuery};
use crate::state::{JoinError, State, WorkerLoad, WorkerView};
use crate::sync::Mutex;

#[cfg(test)]
mod tests;
mod waiting;

use waiting::{Bound, Waiters};

/// Handle to the router. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Router {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    guarded: Mutex<Guarded>,
    clock: Clock,
    blocks: BlockFormat,
}

#[derive(Debug)]
struct Guarded {
    state: State,
    metrics: RouterMetrics,
    waiters: Waiters,
}

impl Router {
    pub fn new(config: RouterConfig, registry: &Registry, clock: Clock) -> Self {
        let metrics = RouterMetrics::new(registry, config.mode.name());
        let blocks = config.blocks;
        let guarded = Mutex::new(Guarded {
            state: State::new(config),
            metrics,
            waiters: Waiters::default(),
        });
        Self {
            shared: Arc::new(Shared {
                guarded,
                clock,
                blocks,
            }),
        }
    }

    /// How prompts become blocks here, and at every worker.
    pub fn blocks(&self) -> BlockFormat {
        self.shared.blocks
    }

    /// The clock by which the router counts time.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Chooses a worker and reserves a place on it. Waits only in a mode that binds late,
    /// while every worker that may take the request is full, and not beyond its deadline;
    /// dropping the future then gives the turn up.
    pub async fn route(&self, query: &RouteQuery<'_>) -> Result<Placement, RouteError> {
        match self.try_route(query)? {
            Routed::Placed(placement) => Ok(placement),
            Routed::Waiting(turn) => turn.placement().await,
        }
    }

    fn try_route(&self, query: &RouteQuery<'_>) -> Result<Routed, RouteError> {
        let began = self.shared.clock.now();
        let mut guarded = self.shared.guarded.lock();
        let Guarded {
            state,
            metrics,
            waiters,
        } = &mut *guarded;
        let result = state.place(query, began);
        match &result {
            Ok(Placed::Now(claim)) => metrics.placed(claim),
            Ok(Placed::Waiting(_)) => {}
            Err(error) => metrics.refused(error),
        }
        metrics.levels(state, began);
        metrics.took(self.shared.clock.now() - began);
        match result? {
            Placed::Now(claim) => {
                let told = tracing::enabled!(Level::DEBUG);
                let decision = if told { state.decisions(1).pop() } else { None };
                drop(guarded);
                if let Some(decision) = decision {
                    debug!("{}", decision.explain());
                }
                Ok(Routed::Placed(self.placement(claim)))
            }
            Placed::Waiting(ticket) => {
                let deadline = query.deadline;
                let turn = waiters.enter(self, ticket, deadline);
                let displaced = guarded.displace(began);
                drop(guarded);
                for bound in displaced {
                    bound.deliver(self);
                }
                Ok(Routed::Waiting(turn))
            }
        }
    }

    fn placement(&self, claim: Claim) -> Placement {
        Placement {
            router: self.clone(),
            claim,
        }
    }

    /// Takes a worker in, or replaces it.
    pub fn join(&self, card: WorkerCard) -> Result<(), JoinError> {
        self.join_leased(card, None)
    }

    /// The same for a worker that divides its slots among frontends: no more requests than the
    /// lease are placed on it, from the first moment on.
    pub fn join_leased(&self, card: WorkerCard, lease: Option<Lease>) -> Result<(), JoinError> {
        let worker = card.id;
        self.changing(|Guarded { state, metrics, .. }| {
            state.join(card)?;
            if let Some(lease) = lease {
                state.lease(worker, lease);
            }
            metrics.leave(worker);
            metrics.join(worker);
            Ok(())
        })
    }

    /// Removes a worker. Returns whether it was a member.
    pub fn leave(&self, worker: WorkerId) -> bool {
        self.changing(|Guarded { state, metrics, .. }| {
            metrics.leave(worker);
            state.leave(worker)
        })
    }

    /// Removes a worker that vanished without notice. Returns whether it was a member.
    pub fn lose(&self, worker: WorkerId) -> bool {
        self.changing(|Guarded { state, metrics, .. }| {
            metrics.leave(worker);
            state.lose(worker)
        })
    }

    /// Places nothing more on a worker. Returns whether it is a member.
    pub fn drain(&self, worker: WorkerId) -> bool {
        self.changing(|guarded| guarded.state.drain(worker))
    }

    /// Keeps what a worker says about itself, for [`workers`](Self::workers).
    pub fn report(&self, worker: WorkerId, status: WorkerStatus) {
        let now = self.shared.clock.now();
        self.changing(|guarded| guarded.state.report(worker, status, now));
    }

    /// Keeps what every frontend has on a worker, this one (`own`) included.
    pub fn share(&self, worker: WorkerId, own: FrontendId, loads: &[(FrontendId, FrontendLoad)]) {
        let now = self.shared.clock.now();
        self.changing(|guarded| guarded.state.share(worker, own, loads, now));
    }

    /// How many requests this router may have on a worker.
    pub fn lease(&self, worker: WorkerId, lease: Lease) {
        self.changing(|guarded| guarded.state.lease(worker, lease));
    }

    /// What this router has on each worker. Also gives those who wait their chance where time
    /// alone makes room, so it is to be called several times per second.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        self.changing(|guarded| guarded.state.loads())
    }

    /// Hears how far a worker's batches go, when they should have arrived. Answers like
    /// [`observe`](Self::observe).
    pub fn head(&self, worker: WorkerId, epoch: u64, next_sequence: u64) -> Observed {
        let Guarded { state, metrics, .. } = &mut *self.shared.guarded.lock();
        let outcome = state.head(worker, epoch, next_sequence);
        metrics.observed(worker, &outcome);
        outcome.observed
    }

    /// Takes in a batch of cache events. On [`Observed::NeedsSnapshot`] the caller fetches
    /// one from the worker and hands it to [`restore`](Self::restore).
    pub fn observe(&self, batch: &KvBatch) -> Observed {
        let observed = {
            let Guarded { state, metrics, .. } = &mut *self.shared.guarded.lock();
            let outcome = state.observe(batch);
            metrics.observed(batch.worker, &outcome);
            metrics.levels(state, self.shared.clock.now());
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
        let Guarded { state, metrics, .. } = &mut *self.shared.guarded.lock();
        let outcome = state.restore(worker, snapshot);
        metrics.restored(worker, &outcome);
        metrics.levels(state, self.shared.clock.now());
        outcome.observed
    }

    /// Says that the index has a batch by now, at once or after a snapshot, and when the worker
    /// published it, by the router's [`clock`](Self::clock).
    pub fn caught_up(&self, worker: WorkerId, published: Moment) {
        let now = self.shared.clock.now();
        let guarded = self.shared.guarded.lock();
        guarded.metrics.caught_up(worker, now.since(published));
    }

    pub fn mode(&self) -> Mode {
        self.shared.guarded.lock().state.mode()
    }

    /// Changes the policy from the next request on, those that wait included.
    pub fn set_mode(&self, mode: Mode) {
        self.changing(|Guarded { state, metrics, .. }| {
            state.set_mode(mode);
            metrics.set_mode(mode.name());
        });
    }

    /// Every member, in ascending order of worker.
    pub fn workers(&self) -> Vec<WorkerView> {
        let now = self.shared.clock.now();
        self.shared.guarded.lock().state.workers(now)
    }

    /// The members' ids, in ascending order.
    pub fn members(&self) -> Vec<WorkerId> {
        self.shared.guarded.lock().state.members()
    }

    /// The latest `limit` decisions, latest first.
    pub fn decisions(&self, limit: usize) -> Vec<Arc<Decision>> {
        self.shared.guarded.lock().state.decisions(limit)
    }

    /// Placements that have not been dropped.
    pub fn in_flight(&self) -> usize {
        self.shared.guarded.lock().state.in_flight()
    }

    /// Requests that wait for a slot, here or beyond their worker's slots in the engines.
    pub fn total_queued(&self) -> u64 {
        self.shared.guarded.lock().state.total_queued()
    }

    fn first_token(&self, claim: &Claim, cached_tokens: u32, now: Moment) {
        self.changing(|Guarded { state, metrics, .. }| {
            if state.first_token(claim, cached_tokens, now) {
                metrics.first_token(claim, cached_tokens, now);
            }
        });
    }

    fn broke_off(&self, claim: &Claim, error: &LinkError) {
        let now = self.shared.clock.now();
        let state = &mut self.shared.guarded.lock().state;
        if let LinkError::Stalled { quiet, .. } = error {
            state.stalled(claim, *quiet, now);
        } else if error.blames_worker() {
            state.failed(claim, now);
        }
    }

    fn release(&self, claim: &Claim) {
        let now = self.shared.clock.now();
        self.changing(|guarded| guarded.state.release(claim, now));
    }

    /// Makes a change after which there may be room, or nobody left to make any, and serves
    /// those who wait.
    fn changing<T>(&self, change: impl FnOnce(&mut Guarded) -> T) -> T {
        let (changed, bound) = {
            let guarded = &mut *self.shared.guarded.lock();
            let changed = change(guarded);
            let bound = guarded.serve(self.shared.clock);
            let Guarded { state, metrics, .. } = guarded;
            metrics.levels(state, self.shared.clock.now());
            (changed, bound)
        };
        // Out of the lock: this wakes tasks, and gives back the place of one that has just
        // given up.
        for bound in bound {
            bound.deliver(self);
        }
        changed
    }
}

impl Guarded {
    /// Those who had to make place in the queue for the one who came last.
    fn displace(&mut self, now: Moment) -> Vec<Bound> {
        let displaced = self.state.displaced(now);
        let told = displaced.into_iter().filter_map(|(ticket, error)| {
            self.metrics.refused(&error);
            self.waiters.leave(ticket, Err(error))
        });
        told.collect()
    }

    /// Hands all the room there is to those who wait.
    fn serve(&mut self, clock: Clock) -> Vec<Bound> {
        let mut bound = Vec::new();
        if self.state.waiting() == 0 {
            return bound;
        }
        while let Some((ticket, claim)) = self.state.ready(clock.now()) {
            self.metrics.bound(&claim);
            bound.extend(self.waiters.leave(ticket, Ok(claim)));
        }
        for ticket in self.state.stranded() {
            let error = RouteError::NoWorker;
            self.metrics.refused(&error);
            bound.extend(self.waiters.leave(ticket, Err(error)));
        }
        bound
    }
}

/// What a query came to.
enum Routed {
    Placed(Placement),
    Waiting(waiting::Turn),
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

    /// The decision behind it, if it is still among those that are kept.
    pub fn decision(&self) -> Option<Arc<Decision>> {
        let guarded = self.router.shared.guarded.lock();
        guarded.state.decision(self.claim.decision)
    }

    /// Says that the prompt has been computed, and how much of it came out of the cache.
    /// `now` is by the router's [`clock`](Router::clock).
    pub fn first_token(&mut self, actual_cached_tokens: u32, now: Moment) {
        self.router
            .first_token(&self.claim, actual_cached_tokens, now);
    }

    /// Says that the whole answer came in one piece, which says nothing of the worker's speed.
    pub fn whole_answer(&mut self, actual_cached_tokens: u32, now: Moment) {
        self.router.changing(|Guarded { state, .. }| {
            state.whole_answer(&self.claim, actual_cached_tokens, now);
        });
    }

    /// Adds to the decision's record what was decided about the request before it was routed.
    pub fn handled(&mut self, handling: &Handling) {
        let Guarded { state, .. } = &mut *self.router.shared.guarded.lock();
        state.handled(&self.claim, handling);
    }

    /// Corrects the cached tokens that [`first_token`](Self::first_token) reported.
    pub fn found_cached(&mut self, cached_tokens: u32) {
        let Guarded { state, .. } = &mut *self.router.shared.guarded.lock();
        state.found_cached(&self.claim, cached_tokens);
    }

    /// Says how the worker ended the request before its end, and holds it against the worker
    /// if the reason lies there.
    pub fn broke_off(&mut self, error: &LinkError) {
        self.router.broke_off(&self.claim, error);
    }

    /// Says how many tokens have come since the first or since the last call. Meant to be
    /// called now and then, not for every token.
    pub fn progress(&mut self, tokens: u32, now: Moment) {
        let Guarded { state, .. } = &mut *self.router.shared.guarded.lock();
        state.progress(&self.claim, tokens, now);
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.router.release(&self.claim);
    }
}
