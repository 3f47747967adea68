//! Everything the router knows, and the rules by which it changes.
//!
//! A plain value: no lock, no clock, no I/O. [`crate::router`] puts it behind a lock for the
//! server; a discrete-event loop owns one and calls the same methods.
//!
//! # Guarantees
//!
//! - **Reserved inside the pick.** [`State::place`] books the request on the chosen worker
//!   before it returns, so the next pick sees it and a burst spreads.
//! - **Exact books.** Whatever the order of first tokens, releases, departures and returns,
//!   each request is taken off exactly once, and only off the worker that it was booked on:
//!   a [`Claim`] opens its reservation once, and a worker that left and came back is
//!   somebody else.
//! - **Ownership is exact, knowledge is not.** Reservations are the router's own; overlap
//!   comes from an index that lags and only steers.
//!
//! # Elsewhere
//!
//! Who wins is [`crate::policy`]'s business. Here is decided who may take part.

use std::sync::Arc;

use contract::random::Random as Draws;
use contract::{BlockHash, KvBatch, KvSnapshot, Moment, WorkerCard, WorkerId, WorkerStatus};
use serde::Serialize;

use crate::active_blocks::ActiveBlocks;
use crate::completions::Completions;
use crate::config::RouterConfig;
use crate::decision::{Decision, DecisionLog, Outcome, WhyNot};
use crate::feed::{EventTally, FeedState, Holdings, Observed};
use crate::load::Share;
use crate::mode::Mode;
use crate::policy::{Candidate, Choice, Policy, Reason, RequestView};
use crate::prefix_index::PrefixIndex;
use crate::query::{Claim, RouteError, RouteQuery};
use crate::reservations::{Key, Reservations};
use members::{Member, Members};
use survey::{Books, Survey, blocks_in_use};

mod members;
mod survey;
#[cfg(test)]
pub(crate) mod tests;

/// Why a worker was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("worker {worker} has blocks of {found} tokens, but this router's have {expected}")]
    BlockSize {
        worker: WorkerId,
        expected: u32,
        found: u32,
    },
}

/// What came of a batch or snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOutcome {
    pub observed: Observed,
    pub applied: EventTally,
}

/// One worker as the router sees it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerView {
    pub card: Arc<WorkerCard>,
    /// As the worker last reported.
    pub status: WorkerStatus,
    pub draining: bool,
    /// From here on, the router's own books.
    pub in_flight: u32,
    pub pending_prefill_tokens: u64,
    pub active_blocks: u32,
    pub indexed_blocks: u64,
    pub feed: FeedState,
}

/// What one claim stands for.
#[derive(Debug)]
struct Reservation {
    slot: usize,
    incarnation: u64,
    chain: Box<[BlockHash]>,
    share: Share,
    started: bool,
    decision: u64,
}

/// Members, holdings, books and the policy in force.
#[derive(Debug)]
pub struct State {
    config: RouterConfig,
    policy: Box<dyn Policy>,
    draws: Draws,
    members: Members,
    index: PrefixIndex,
    active: ActiveBlocks,
    reservations: Reservations<Reservation>,
    completions: Completions,
    log: DecisionLog,
    survey: Survey,
}

impl State {
    pub fn new(config: RouterConfig) -> Self {
        assert!(config.block_size > 0, "a block has at least one token");
        Self {
            policy: config.mode.policy(),
            draws: Draws::new(config.seed),
            members: Members::default(),
            index: PrefixIndex::default(),
            active: ActiveBlocks::default(),
            reservations: Reservations::default(),
            completions: Completions::default(),
            log: DecisionLog::new(config.decisions_kept),
            survey: Survey::default(),
            config,
        }
    }

    /// Takes a worker in. One that is a member already is replaced, as if it had left:
    /// what it held and what was under way on it belonged to its earlier life.
    pub fn join(&mut self, card: WorkerCard) -> Result<(), JoinError> {
        let expected = self.config.block_size;
        if card.block_size != expected {
            let (worker, found) = (card.id, card.block_size);
            return Err(JoinError::BlockSize {
                worker,
                expected,
                found,
            });
        }
        self.leave(card.id);
        self.members.add(card);
        let slots = self.members.slots();
        self.index.reserve_slots(slots);
        self.active.reserve_slots(slots);
        self.survey.reserve_slots(slots);
        Ok(())
    }

    /// Forgets a worker. Claims on it stay valid and come to nothing. Whether it was one.
    pub fn leave(&mut self, worker: WorkerId) -> bool {
        let Some(slot) = self.members.remove(worker) else {
            return false;
        };
        self.index.forget(slot);
        self.active.forget(slot);
        true
    }

    /// Places nothing more on a worker; what is under way goes on. Whether it is a member.
    pub fn drain(&mut self, worker: WorkerId) -> bool {
        let member = self.members.get_mut(worker);
        member.map(|(_, member)| member.draining = true).is_some()
    }

    /// Keeps what a worker says about itself, for display.
    pub fn report(&mut self, worker: WorkerId, status: WorkerStatus) {
        if let Some((_, member)) = self.members.get_mut(worker) {
            member.profile.status = status;
        }
    }

    /// Takes in a batch of cache events.
    pub fn observe(&mut self, batch: &KvBatch) -> FeedOutcome {
        self.with_feed(batch.worker, |member, holdings| {
            member.profile.feed.observe(batch, holdings)
        })
    }

    /// Takes in a snapshot that [`Observed::NeedsSnapshot`] asked for, or one fetched when
    /// the worker joined.
    pub fn restore(&mut self, worker: WorkerId, snapshot: &KvSnapshot) -> FeedOutcome {
        self.with_feed(worker, |member, holdings| {
            member.profile.feed.restore(snapshot, holdings)
        })
    }

    fn with_feed(
        &mut self,
        worker: WorkerId,
        apply: impl FnOnce(&mut Member, &mut Holdings<'_>) -> Observed,
    ) -> FeedOutcome {
        let Some((slot, member)) = self.members.get_mut(worker) else {
            return FeedOutcome {
                observed: Observed::Unknown,
                applied: EventTally::default(),
            };
        };
        let mut holdings = Holdings::new(&mut self.index, slot);
        let observed = apply(member, &mut holdings);
        FeedOutcome {
            observed,
            applied: holdings.tally,
        }
    }

    /// Chooses a worker and books the request on it.
    pub fn place(&mut self, query: &RouteQuery<'_>, now: Moment) -> Result<Claim, RouteError> {
        let Self {
            config,
            members,
            index,
            active,
            survey,
            ..
        } = self;
        survey.take(
            Books {
                config,
                members,
                index,
                active,
            },
            query,
        );
        if self.survey.candidates.is_empty() {
            return Err(self.refusal(now));
        }
        let request = RequestView {
            prompt_tokens: query.prompt_tokens,
            blocks: query.chain.len() as u32,
            block_size: self.config.block_size,
        };
        let Choice { index, reason } =
            self.policy
                .choose(&request, &mut self.survey.candidates, &mut self.draws);
        let chosen = self.survey.candidates[index];
        let claim = Claim {
            key: self.reserve(query, &chosen),
            worker: chosen.worker,
            predicted_cached_tokens: chosen.cached_tokens,
            decision: self.log.next_number(),
        };
        self.record(query, &claim, reason, now);
        Ok(claim)
    }

    /// The request's first token is out: its prompt is no longer pending. Whether this was
    /// news.
    pub fn first_token(&mut self, claim: &Claim, cached_tokens: u32, now: Moment) -> bool {
        let Some(reservation) = self.reservations.get_mut(claim.key) else {
            return false;
        };
        if std::mem::replace(&mut reservation.started, true) {
            return false;
        }
        if let Some(member) = self
            .members
            .tenant(reservation.slot, reservation.incarnation)
        {
            member.load.first_token(&mut reservation.share);
        }
        self.log.amend(reservation.decision, |decision| {
            decision.record_first_token(cached_tokens, now);
        });
        true
    }

    /// Gives the place back, however the request ended. Whether the claim was still open.
    pub fn release(&mut self, claim: &Claim, now: Moment) -> bool {
        let Some(reservation) = self.reservations.take(claim.key) else {
            return false;
        };
        let Reservation {
            slot,
            incarnation,
            chain,
            share,
            decision,
            ..
        } = reservation;
        if let Some(member) = self.members.tenant(slot, incarnation) {
            member.load.remove(share);
            self.active.release(slot, &chain);
            if member.load.in_flight == 0 {
                // Nothing can be in use. Usually nothing is left; see `active_blocks` for
                // the one case in which something may be.
                self.active.forget(slot);
            }
            self.completions.record(now);
        }
        self.log
            .amend(decision, |decision| decision.record_end(now));
        true
    }

    pub fn mode(&self) -> Mode {
        self.config.mode
    }

    /// Changes the policy from the next request on. Requests under way are not touched.
    pub fn set_mode(&mut self, mode: Mode) {
        self.config.mode = mode;
        self.policy = mode.policy();
    }

    /// Every member, in ascending order of worker.
    pub fn workers(&self) -> Vec<WorkerView> {
        let view = |(slot, member): (usize, &Member)| WorkerView {
            card: Arc::clone(&member.profile.card),
            status: member.profile.status.clone(),
            draining: member.draining,
            in_flight: member.load.in_flight,
            pending_prefill_tokens: member.load.pending_prefill_tokens,
            active_blocks: blocks_in_use(&self.active, slot, member),
            indexed_blocks: self.index.held(slot) as u64,
            feed: member.profile.feed.state(),
        };
        self.members.iter().map(view).collect()
    }

    /// The latest `limit` decisions, latest first.
    pub fn decisions(&self, limit: usize) -> Vec<Arc<Decision>> {
        self.log.latest(limit)
    }

    /// Claims that have not been released, including those on workers that left.
    pub fn in_flight(&self) -> usize {
        self.reservations.len()
    }

    /// Requests beyond their worker's slots: what waits in the engines.
    pub fn total_queued(&self) -> u64 {
        let beyond = |(_, member): (usize, &Member)| {
            u64::from(member.load.in_flight.saturating_sub(member.slots))
        };
        self.members.iter().map(beyond).sum()
    }

    /// Difference between the most and the fewest requests in flight on a member.
    pub fn spread(&self) -> u32 {
        let counts = self.members.iter().map(|(_, member)| member.load.in_flight);
        let (fewest, most) = counts.fold((u32::MAX, 0), |(fewest, most), count| {
            (fewest.min(count), most.max(count))
        });
        most.saturating_sub(fewest)
    }

    /// Blocks confirmed by events, and blocks expected because of requests under way.
    pub fn known_blocks(&self) -> (usize, usize) {
        (self.index.len(), self.active.len())
    }

    fn reserve(&mut self, query: &RouteQuery<'_>, chosen: &Candidate) -> Key {
        let (slot, member) = self
            .members
            .get_mut(chosen.worker)
            .expect("candidates are members");
        let share = Share {
            prefill_tokens: query.prompt_tokens - chosen.cached_tokens,
            partial_block: query.has_partial_block(self.config.block_size),
        };
        member.load.add(share);
        self.active.acquire(slot, query.chain);
        self.reservations.insert(Reservation {
            slot,
            incarnation: member.incarnation,
            chain: query.chain.into(),
            share,
            started: false,
            decision: self.log.next_number(),
        })
    }

    fn record(&mut self, query: &RouteQuery<'_>, claim: &Claim, reason: Reason, now: Moment) {
        self.log.push(Decision {
            number: claim.decision,
            at: now,
            request: query.request.clone(),
            mode: self.policy.name(),
            prompt_tokens: query.prompt_tokens,
            blocks: query.chain.len() as u32,
            winner: claim.worker,
            reason,
            candidates: self.survey.candidates.clone(),
            excluded: self.survey.excluded.clone(),
            predicted_cached_tokens: claim.predicted_cached_tokens,
            actual_cached_tokens: None,
            outcome: Outcome::Placed,
        });
    }

    /// Why nobody could be chosen: full workers may be asked again, others may not.
    fn refusal(&mut self, now: Moment) -> RouteError {
        if self
            .survey
            .excluded
            .iter()
            .any(|excluded| excluded.why == WhyNot::Full)
        {
            return RouteError::Saturated {
                retry_after: self.completions.expected_wait(now),
            };
        }
        RouteError::NoWorker
    }
}
