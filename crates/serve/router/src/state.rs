//! Everything the router knows, and the rules by which it changes.
//!
//! A plain value: no lock, no clock, no I/O. [`crate::router`] puts it behind a lock for the
//! server; a discrete-event loop owns one and calls the same methods.
//!
//! # Guarantees
//!
//! - **Reserved inside the pick.** [`State::place`] books the request on the chosen worker
//!   before it returns, so the next pick sees it and a burst spreads.
//! - **A free slot first.** In mode `kv` no request goes to a full worker: while any worker
//!   that may take it has a free slot it goes to one of those, otherwise it waits here.
//! - **Exact books.** Whatever the order of first tokens, releases, departures and returns,
//!   each request is taken off exactly once, and only off the worker that it was booked on:
//!   a [`Claim`] opens its reservation once, and a worker that left and came back is
//!   somebody else.
//! - **Ownership is exact, knowledge is not.** Reservations are the router's own; overlap
//!   comes from an index that lags and only steers.
//!
//! # Elsewhere
//!
//! Who wins is [`crate::policy`]'s business. Here is decided who may take part. Placing and
//! waiting are in `placing`, the life of a placed request in `requests`.

use std::sync::Arc;

use contract::random::Random as Draws;
use contract::{
    FrontendId, FrontendLoad, Hashing, KvBatch, KvSnapshot, Lease, Moment, WorkerCard, WorkerId,
    WorkerStatus,
};
use serde::Serialize;

use crate::active_blocks::ActiveBlocks;
use crate::completions::Completions;
use crate::config::RouterConfig;
use crate::decision::{Decision, DecisionLog};
use crate::feed::{EventTally, FeedState, Holdings, Observed};
use crate::health::{Condition, Health};
use crate::learn::{Learner, Priors};
use crate::mode::Mode;
use crate::policy::Policy;
use crate::prefix_index::PrefixIndex;
use crate::query::Ticket;
use crate::queue::Queue;
use crate::reservations::Reservations;
use crate::sessions::Sessions;
use members::{Member, Members};
use requests::Reservation;
use survey::{Survey, blocks_in_use};

mod members;
mod placing;
mod requests;
mod survey;
#[cfg(test)]
pub(crate) mod tests;

/// Workers that vanished and are remembered.
const MOST_LOST: usize = 256;

/// Why a worker was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("worker {worker} uses a different block hash ({found}) than this router ({expected})")]
    Hashing {
        worker: WorkerId,
        expected: Hashing,
        found: Hashing,
    },
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

/// What this router has on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLoad {
    pub worker: WorkerId,
    /// As the worker says, or as learned when it does not.
    pub slots: u32,
    pub load: FrontendLoad,
}

/// One worker as the router sees it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerView {
    pub card: Arc<WorkerCard>,
    /// As the worker last reported.
    pub status: WorkerStatus,
    pub draining: bool,
    pub health: Condition,
    /// What other frontends have on it.
    pub in_flight_elsewhere: u32,
    /// Requests that this frontend may have on it, where the worker divides its slots.
    pub lease: Option<u32>,
    /// From here on, the router's own accounting.
    pub in_flight: u32,
    pub pending_prefill_tokens: u64,
    pub active_blocks: u32,
    pub indexed_blocks: u64,
    pub feed: FeedState,
    /// What has been learned about its speed.
    pub learned: Learned,
}

/// What has been learned about a worker, in the units people use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Learned {
    pub prefill_tokens_per_second: f64,
    pub first_token_fixed_ms: f64,
    pub step_ms: f64,
    pub step_growth_ms: f64,
    pub output_tokens: f64,
    pub residence_seconds: f64,
    pub slots: u32,
}

impl Learned {
    fn of(member: &Member) -> Self {
        let outlook = &member.outlook;
        let in_flight = member.in_flight() as f32;
        Self {
            prefill_tokens_per_second: f64::from(1.0 / outlook.prefill_seconds_per_token),
            first_token_fixed_ms: 1e3 * f64::from(outlook.first_token(in_flight, 0.0)),
            step_ms: 1e3 * f64::from(outlook.step(in_flight)),
            step_growth_ms: 1e3 * f64::from(outlook.step_growth_seconds),
            output_tokens: f64::from(outlook.output_tokens),
            residence_seconds: f64::from(outlook.residence_seconds),
            slots: member.slots,
        }
    }
}

/// Members, holdings, reservations and the current policy.
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
    sessions: Sessions,
    queue: Queue,
    /// Requests that were displaced from a full queue and have not been notified.
    displaced: Vec<Ticket>,
    /// The latest workers that vanished, latest first.
    lost: Vec<WorkerId>,
    /// A worker has left or begun to drain since waiting requests were last looked over.
    may_strand: bool,
    priors: Priors,
    /// When outlooks were last weighed against each other.
    compared: Option<Moment>,
    log: DecisionLog,
    survey: Survey,
    /// Workers with room and their load, when one is looked for. Kept for its memory.
    open: Vec<(f64, WorkerId)>,
}

impl State {
    pub fn new(config: RouterConfig) -> Self {
        let policy = config.mode.policy();
        Self::with_policy(config, policy)
    }

    /// A router whose rule is none of the modes', for comparisons. The mode still says where
    /// requests wait while every worker is full.
    pub fn with_policy(config: RouterConfig, policy: Box<dyn Policy>) -> Self {
        assert!(config.blocks.size > 0, "a block has at least one token");
        Self {
            policy,
            draws: Draws::new(config.seed),
            members: Members::default(),
            index: PrefixIndex::default(),
            active: ActiveBlocks::default(),
            reservations: Reservations::default(),
            completions: Completions::default(),
            sessions: Sessions::default(),
            queue: Queue::default(),
            displaced: Vec::new(),
            lost: Vec::new(),
            may_strand: false,
            priors: Priors::default(),
            compared: None,
            log: DecisionLog::new(config.decisions_kept),
            survey: Survey::default(),
            open: Vec::new(),
            config,
        }
    }

    /// What to believe about workers that join from now on.
    pub fn set_priors(&mut self, priors: Priors) {
        self.priors = priors;
    }

    /// Forgets what was learned about a worker and believes this instead. For experiments that
    /// compare learning with knowing.
    pub fn assume(&mut self, worker: WorkerId, priors: &Priors) {
        if let Some((_, member)) = self.members.get_mut(worker) {
            member.profile.learner = Learner::new(priors);
            member.apply_learned();
        }
    }

    /// Takes a worker in. One that is a member already is replaced, as if it had left:
    /// what it held and what was running on it belonged to its earlier life.
    pub fn join(&mut self, card: WorkerCard) -> Result<(), JoinError> {
        let expected = self.config.blocks.hashing;
        if card.blocks.hashing != expected {
            let (worker, found) = (card.id, card.blocks.hashing);
            return Err(JoinError::Hashing {
                worker,
                expected,
                found,
            });
        }
        let expected = self.config.blocks.size;
        if card.blocks.size != expected {
            let (worker, found) = (card.id, card.blocks.size);
            return Err(JoinError::BlockSize {
                worker,
                expected,
                found,
            });
        }
        let known = self.leave(card.id) | self.lost.contains(&card.id);
        let health = if known {
            Health::RETURNED
        } else {
            Health::SOUND
        };
        self.members.add(card, &self.priors, health);
        self.compared = None;
        let slots = self.members.slots();
        self.index.reserve_slots(slots);
        self.active.reserve_slots(slots);
        self.survey.reserve_slots(slots);
        Ok(())
    }

    /// Forgets a worker that vanished without a word. Should it come back, it is trusted
    /// gradually. Returns whether it was a member.
    pub fn lose(&mut self, worker: WorkerId) -> bool {
        let was_member = self.leave(worker);
        if was_member {
            self.lost.retain(|lost| *lost != worker);
            self.lost.truncate(MOST_LOST - 1);
            self.lost.insert(0, worker);
        }
        was_member
    }

    /// Removes a worker. Claims on it can still be released, without effect. Returns whether it was
    /// a member.
    pub fn leave(&mut self, worker: WorkerId) -> bool {
        let Some(slot) = self.members.remove(worker) else {
            return false;
        };
        self.index.forget(slot);
        self.active.forget(slot);
        self.may_strand = true;
        true
    }

    /// Places nothing more on a worker; running requests continue. Returns whether it is a member.
    pub fn drain(&mut self, worker: WorkerId) -> bool {
        self.may_strand = true;
        let member = self.members.get_mut(worker);
        member.map(|(_, member)| member.draining = true).is_some()
    }

    /// Keeps what a worker says about itself. For display, except that waiting requests say
    /// something about slots when the worker's card does not, and new tokens that it serves.
    pub fn report(&mut self, worker: WorkerId, status: WorkerStatus, now: Moment) {
        if let Some((_, member)) = self.members.get_mut(worker) {
            if let Some(slots) = &mut member.profile.slots
                && status.waiting > 0
            {
                slots.waiting();
                member.slots = slots.count();
            }
            if status.output_tokens > member.profile.status.output_tokens {
                member.profile.progressed = now;
            }
            member.profile.status = status;
        }
    }

    /// Stores what every frontend has on a worker; `own` is this one, which knows its own load
    /// better.
    pub fn share(
        &mut self,
        worker: WorkerId,
        own: FrontendId,
        loads: &[(FrontendId, FrontendLoad)],
        now: Moment,
    ) {
        let Some((_, member)) = self.members.get_mut(worker) else {
            return;
        };
        let others = loads.iter().filter(|(frontend, _)| *frontend != own);
        member.others = members::sum(others.map(|(_, load)| load));
        let in_flight = member.in_flight();
        member.profile.occupancy.set(in_flight, now);
    }

    /// How many requests this router may have on a worker.
    pub fn lease(&mut self, worker: WorkerId, lease: Lease) {
        if let Some((_, member)) = self.members.get_mut(worker) {
            member.lease = Some(lease);
        }
    }

    /// What this router has on each worker, for the others.
    pub fn loads(&self) -> Vec<WorkerLoad> {
        let load = |(slot, member): (usize, &Member)| {
            let load = FrontendLoad {
                in_flight: member.load.in_flight,
                pending_prefill_tokens: member.load.pending_prefill_tokens,
                pending_requests: member.load.pending_requests,
                active_blocks: self.active.count(slot) as u32 + member.load.partial_blocks,
                waiting: self.queue.len() as u32,
                lease: member.lease.map(|lease| lease.number),
            };
            WorkerLoad {
                worker: member.worker,
                slots: member.slots,
                load,
            }
        };
        self.members.iter().map(load).collect()
    }

    /// Hears how far a worker's batches go.
    pub fn head(&mut self, worker: WorkerId, epoch: u64, next_sequence: u64) -> FeedOutcome {
        self.with_feed(worker, |member, holdings| {
            member.profile.feed.head((epoch, next_sequence), holdings)
        })
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

    pub fn mode(&self) -> Mode {
        self.config.mode
    }

    /// Changes the policy from the next request on, those that wait included: call
    /// [`ready`](Self::ready). Running requests are not touched.
    pub fn set_mode(&mut self, mode: Mode) {
        self.config.mode = mode;
        self.policy = mode.policy();
    }

    /// Every member, in ascending order of worker.
    pub fn workers(&self, now: Moment) -> Vec<WorkerView> {
        let view = |(slot, member): (usize, &Member)| WorkerView {
            card: Arc::clone(&member.profile.card),
            status: member.profile.status.clone(),
            draining: member.draining,
            health: member.health.condition(now),
            in_flight_elsewhere: member.others.in_flight,
            lease: member.lease.map(|lease| lease.slots),
            in_flight: member.load.in_flight,
            pending_prefill_tokens: member.load.pending_prefill_tokens,
            active_blocks: blocks_in_use(&self.active, slot, member),
            indexed_blocks: self.index.held(slot) as u64,
            feed: member.profile.feed.state(),
            learned: Learned::of(member),
        };
        self.members.iter().map(view).collect()
    }

    /// The id of every member, in ascending order.
    pub fn members(&self) -> Vec<WorkerId> {
        let members = self.members.iter();
        members.map(|(_, member)| member.profile.card.id).collect()
    }

    /// What has been learned about every member, in ascending order of worker.
    pub(crate) fn learned(&self) -> impl Iterator<Item = (WorkerId, Learned)> {
        let members = self.members.iter();
        members.map(|(_, member)| (member.worker, Learned::of(member)))
    }

    /// Whether every member's events are complete and its past is good.
    pub(crate) fn standings(
        &self,
        now: Moment,
    ) -> impl Iterator<Item = (WorkerId, FeedState, Condition)> {
        let standing = move |(_, member): (usize, &Member)| {
            let condition = member.health.condition(now);
            (member.worker, member.profile.feed.state(), condition)
        };
        self.members.iter().map(standing)
    }

    /// The latest `limit` decisions, latest first.
    pub fn decisions(&self, limit: usize) -> Vec<Arc<Decision>> {
        self.log.latest(limit)
    }

    /// One decision, if it is still kept.
    pub fn decision(&self, number: u64) -> Option<Arc<Decision>> {
        self.log.find(number)
    }

    /// Claims that have not been released, including those on workers that left.
    pub fn in_flight(&self) -> usize {
        self.reservations.len()
    }

    /// Requests that wait for a slot, here or beyond their worker's slots in the engines.
    pub fn total_queued(&self) -> u64 {
        let beyond = |(_, member): (usize, &Member)| {
            u64::from(member.in_flight().saturating_sub(member.slots))
        };
        self.members.iter().map(beyond).sum::<u64>() + self.queue.len() as u64
    }

    /// Requests that wait here.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Difference between the most and the fewest requests in flight on a member.
    pub fn spread(&self) -> u32 {
        let counts = self.members.iter().map(|(_, member)| member.in_flight());
        let (fewest, most) = counts.fold((u32::MAX, 0), |(fewest, most), count| {
            (fewest.min(count), most.max(count))
        });
        most.saturating_sub(fewest)
    }

    /// Blocks confirmed by events, and blocks expected because of running requests.
    pub fn known_blocks(&self) -> (usize, usize) {
        (self.index.len(), self.active.len())
    }
}
