//! The workers that are members, by dense slot and by name.
//!
//! The index refers to workers by small numbers, so each member has a *slot* that is reused
//! when it leaves. Reservations on an earlier member of the slot are recognised by the
//! *incarnation*, which is never reused.

use std::sync::Arc;

use contract::{FrontendLoad, Lease, Moment, WorkerCard, WorkerId, WorkerStatus};

use crate::feed::Feed;
use crate::health::Health;
use crate::learn::{Learner, Occupancy, Outlook, Priors, Slots};
use crate::load::Load;

/// Beyond all reason, and low enough that a router's own can be added: what others have on a
/// worker is hearsay, and its sum must stay a number whatever they say.
const MOST_ELSEWHERE: u32 = 1 << 30;
const MOST_TOKENS_ELSEWHERE: u64 = 1 << 60;

/// A worker, and the router's accounting for it.
///
/// What every pick reads comes first and is small: a pick over many workers is bound by
/// the memory that it touches. The rest is behind a pointer.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) worker: WorkerId,
    /// As the card says, or as learned when it does not.
    pub(super) slots: u32,
    pub(super) draining: bool,
    pub(super) load: Load,
    /// What other frontends are running on it, as the worker last reported.
    pub(super) others: FrontendLoad,
    /// Requests that this frontend may have on it, if the worker says so.
    pub(super) lease: Option<Lease>,
    pub(super) health: Health,
    /// Times that it was shunned, to know requests from before the last one.
    pub(super) shuns: u32,
    /// Requests on it that were there before.
    pub(super) veterans: u32,
    pub(super) outlook: Outlook,
    pub(super) total_blocks: u32,
    pub(super) incarnation: u64,
    pub(super) profile: Box<Profile>,
}

/// What a pick does not read.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) card: Arc<WorkerCard>,
    /// As the worker last reported; for display. Decisions use [`Member::load`].
    pub(super) status: WorkerStatus,
    pub(super) feed: Feed,
    pub(super) learner: Learner,
    pub(super) occupancy: Occupancy,
    /// Only when the card does not say.
    pub(super) slots: Option<Slots>,
    /// Requests in a row that found much less in the cache than events had confirmed.
    pub(super) contradictions: u32,
    /// When it was last known to give tokens to anyone.
    pub(super) progressed: Moment,
}

impl Member {
    /// Requests of all frontends on it.
    pub(super) fn in_flight(&self) -> u32 {
        self.load.in_flight + self.others.in_flight
    }

    /// A request has failed for a reason that lies with it.
    pub(super) fn blame(&mut self, now: Moment) {
        if self.health.failed(now) {
            self.shuns = self.shuns.wrapping_add(1);
            self.veterans = self.load.in_flight;
        }
    }

    /// Takes over what the learner has learned.
    pub(super) fn apply_learned(&mut self) {
        self.outlook = self.profile.learner.outlook();
        if let Some(slots) = &self.profile.slots {
            self.slots = slots.count();
        }
    }
}

/// What several frontends have on a worker together.
pub(super) fn sum<'a>(loads: impl Iterator<Item = &'a FrontendLoad>) -> FrontendLoad {
    let add = |sum: &mut u32, more: u32| *sum = sum.saturating_add(more).min(MOST_ELSEWHERE);
    let mut sum = FrontendLoad::default();
    for load in loads {
        let tokens = sum
            .pending_prefill_tokens
            .saturating_add(load.pending_prefill_tokens);
        sum.pending_prefill_tokens = tokens.min(MOST_TOKENS_ELSEWHERE);
        add(&mut sum.in_flight, load.in_flight);
        add(&mut sum.pending_requests, load.pending_requests);
        add(&mut sum.active_blocks, load.active_blocks);
        add(&mut sum.waiting, load.waiting);
    }
    sum
}

#[derive(Debug, Default)]
pub(super) struct Members {
    by_slot: Vec<Option<Member>>,
    /// In ascending order of worker: the order in which candidates are presented.
    slots: Vec<(WorkerId, usize)>,
    incarnations: u64,
}

impl Members {
    /// Adds a worker that is not a member, in the lowest free slot.
    pub(super) fn add(&mut self, card: WorkerCard, priors: &Priors, health: Health) -> usize {
        let free = self.by_slot.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.by_slot.len());
        if slot == self.by_slot.len() {
            self.by_slot.push(None);
        }
        let position = self.slots.partition_point(|(worker, _)| *worker < card.id);
        self.slots.insert(position, (card.id, slot));
        self.incarnations += 1;
        let learner = Learner::new(priors);
        let learned_slots = (card.slots == 0).then(Slots::default);
        self.by_slot[slot] = Some(Member {
            worker: card.id,
            slots: learned_slots.map_or(card.slots, |slots| slots.count()),
            draining: false,
            load: Load::default(),
            others: FrontendLoad::default(),
            lease: None,
            health,
            shuns: 0,
            veterans: 0,
            outlook: learner.outlook(),
            total_blocks: card.total_blocks,
            incarnation: self.incarnations,
            profile: Box::new(Profile {
                card: Arc::new(card),
                status: WorkerStatus::default(),
                feed: Feed::default(),
                learner,
                occupancy: Occupancy::default(),
                slots: learned_slots,
                contradictions: 0,
                progressed: Moment::ZERO,
            }),
        });
        slot
    }

    /// Removes a member and says which slot it had.
    pub(super) fn remove(&mut self, worker: WorkerId) -> Option<usize> {
        let position = self
            .slots
            .binary_search_by_key(&worker, |(id, _)| *id)
            .ok()?;
        let (_, slot) = self.slots.remove(position);
        self.by_slot[slot] = None;
        Some(slot)
    }

    pub(super) fn slot(&self, worker: WorkerId) -> Option<usize> {
        let position = self
            .slots
            .binary_search_by_key(&worker, |(id, _)| *id)
            .ok()?;
        Some(self.slots[position].1)
    }

    pub(super) fn get_mut(&mut self, worker: WorkerId) -> Option<(usize, &mut Member)> {
        let slot = self.slot(worker)?;
        Some((slot, self.by_slot[slot].as_mut()?))
    }

    /// The tenant of a slot, if it is still the one that was meant.
    pub(super) fn tenant(&mut self, slot: usize, incarnation: u64) -> Option<&mut Member> {
        self.by_slot[slot]
            .as_mut()
            .filter(|member| member.incarnation == incarnation)
    }

    /// In no particular order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_slot.iter_mut().flatten()
    }

    /// Slots ever let: what arrays by slot must have room for.
    pub(super) fn slots(&self) -> usize {
        self.by_slot.len()
    }

    /// In ascending order of worker.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.slots
            .iter()
            .filter_map(|&(_, slot)| Some((slot, self.by_slot[slot].as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_frontends_claim_stays_a_number() {
        let load = FrontendLoad {
            in_flight: u32::MAX,
            pending_prefill_tokens: u64::MAX,
            pending_requests: 1,
            active_blocks: u32::MAX,
            waiting: 2,
            lease: None,
        };
        let expected = FrontendLoad {
            in_flight: MOST_ELSEWHERE,
            pending_prefill_tokens: MOST_TOKENS_ELSEWHERE,
            pending_requests: 3,
            active_blocks: MOST_ELSEWHERE,
            waiting: 6,
            lease: None,
        };
        assert_eq!(sum([load; 3].iter()), expected);
        assert_eq!(sum([].iter()), FrontendLoad::default());
    }
}
