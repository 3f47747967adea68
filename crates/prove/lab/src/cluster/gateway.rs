//! The router as the event loop sees it.
//!
//! Keeps who waits in the router's queue, so that the loop speaks of requests and not of
//! tickets.

use std::collections::BTreeMap;

use contract::{KvBatch, KvSnapshot, Moment, WorkerCard, WorkerId, WorkerStatus};
use router::{Claim, Observed, Placed, Priors, RouteError, RouteQuery, State, Ticket, WorkerView};

#[derive(Debug)]
pub(super) struct Gateway {
    state: State,
    waiting: BTreeMap<Ticket, usize>,
}

impl Gateway {
    pub(super) fn new(mut state: State, priors: Priors) -> Self {
        state.set_priors(priors);
        Self {
            state,
            waiting: BTreeMap::new(),
        }
    }

    pub(super) fn join(&mut self, card: WorkerCard) {
        self.state
            .join(card)
            .expect("all workers of a run have the router's block size");
    }

    pub(super) fn leave(&mut self, worker: WorkerId) {
        self.state.leave(worker);
    }

    pub(super) fn report(&mut self, worker: WorkerId, status: WorkerStatus, now: Moment) {
        self.state.report(worker, status, now);
    }

    /// Nothing is lost on the way. But several requests in a row that find less than events have
    /// confirmed, because it was evicted before they began, make the router ask for a `snapshot`.
    pub(super) fn observe(&mut self, batch: &KvBatch, snapshot: impl FnOnce() -> KvSnapshot) {
        let mut observed = self.state.observe(batch).observed;
        if observed == Observed::NeedsSnapshot {
            observed = self.state.restore(batch.worker, &snapshot()).observed;
        }
        debug_assert_eq!(observed, Observed::Applied, "nothing is lost on the way");
    }

    /// Places a request now, or lets it wait: then it comes out of [`ready`](Self::ready).
    pub(super) fn place(
        &mut self,
        key: usize,
        query: &RouteQuery<'_>,
        now: Moment,
    ) -> Result<Option<Claim>, RouteError> {
        match self.state.place(query, now)? {
            Placed::Now(claim) => Ok(Some(claim)),
            Placed::Waiting(ticket) => {
                self.waiting.insert(ticket, key);
                Ok(None)
            }
        }
    }

    /// The next request that has waited and now has a place.
    pub(super) fn ready(&mut self, now: Moment) -> Option<(usize, Claim)> {
        let (ticket, claim) = self.state.ready(now)?;
        let key = self.waiting.remove(&ticket);
        Some((key.expect("tickets belong to requests that wait"), claim))
    }

    /// Requests that had to make place in the queue for the one that came last.
    pub(super) fn displaced(&mut self, now: Moment) -> Vec<usize> {
        let displaced = self.state.displaced(now);
        displaced
            .iter()
            .filter_map(|(ticket, _)| self.waiting.remove(ticket))
            .collect()
    }

    /// Requests that waited for workers of whom none is left.
    pub(super) fn stranded(&mut self) -> Vec<usize> {
        let tickets = self.state.stranded();
        tickets
            .iter()
            .filter_map(|ticket| self.waiting.remove(ticket))
            .collect()
    }

    pub(super) fn first_token(&mut self, claim: &Claim, cached_tokens: u32, now: Moment) {
        self.state.first_token(claim, cached_tokens, now);
    }

    pub(super) fn progress(&mut self, claim: &Claim, tokens: u32, now: Moment) {
        self.state.progress(claim, tokens, now);
    }

    pub(super) fn release(&mut self, claim: &Claim, now: Moment) {
        self.state.release(claim, now);
    }

    pub(super) fn assume(&mut self, worker: WorkerId, priors: &Priors) {
        self.state.assume(worker, priors);
    }

    pub(super) fn views(&self) -> Vec<WorkerView> {
        self.state.workers(contract::Moment::ZERO)
    }

    /// Requests that have a place.
    pub(super) fn in_flight(&self) -> usize {
        self.state.in_flight()
    }

    /// Requests that wait for one.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
