//! Requests that wait for a slot, and which of them a freed slot takes.
//!
//! One queue for all workers: a request is bound to a worker when a slot frees and not
//! before, because until then nobody knows which worker that will be. In order of priority
//! and arrival, with one exception that keeps conversations at home: a freed slot takes the
//! oldest request *that is at home there*, among the first [`WINDOW`]. Plain order would
//! scatter conversations over the fleet exactly when there is no time to compute their
//! prompts anew.
//!
//! # Guarantees
//!
//! - **Bounded overtaking.** Nobody is overtaken more than [`MOST_OVERTAKEN`] times; then the
//!   next slot is theirs. A bound on age would turn the queue into plain order as soon as
//!   everyone has waited that long, which is when order matters most.
//! - **Cancelled is gone.** A cancelled request leaves at once and is never bound.
//!
//! # Elsewhere
//!
//! Who is at home where is asked of the caller, [`crate::state`], who also bounds the queue.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use contract::{BlockHash, Moment, RequestId, WorkerId};

use crate::query::RouteQuery;

#[cfg(test)]
mod tests;

/// Requests that are looked at when a slot frees.
pub const WINDOW: usize = 64;
/// A request is at home on a worker if it would have to compute at most this many tokens
/// more there than where it would compute least: some 20 ms of work.
pub const HOME_TOKENS: u32 = 256;
/// Times that a request may be overtaken.
pub const MOST_OVERTAKEN: u32 = 16;

/// A place in the queue.
///
/// Ordered as the queue is: the higher priority first, then the earlier arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    priority: Reverse<i32>,
    number: u64,
}

/// A request that waits, with all that is needed to place it later.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub request: RequestId,
    pub prompt_tokens: u32,
    pub chain: Box<[BlockHash]>,
    pub excluded: Box<[WorkerId]>,
    pub priority: i32,
    pub deadline: Option<Duration>,
    pub since: Moment,
    /// How many requests that came later have been bound before.
    pub overtaken: u32,
}

impl Waiting {
    pub fn new(query: &RouteQuery<'_>, now: Moment) -> Self {
        Self {
            request: query.request.clone(),
            prompt_tokens: query.prompt_tokens,
            chain: query.chain.into(),
            excluded: query.excluded.into(),
            priority: query.priority,
            deadline: query.deadline,
            since: now,
            overtaken: 0,
        }
    }

    /// The request as it was asked.
    pub fn query(&self) -> RouteQuery<'_> {
        RouteQuery {
            request: self.request.clone(),
            prompt_tokens: self.prompt_tokens,
            chain: &self.chain,
            excluded: &self.excluded,
            priority: self.priority,
            deadline: self.deadline,
        }
    }

    fn may_go_to(&self, worker: WorkerId) -> bool {
        !self.excluded.contains(&worker)
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<Ticket, Waiting>,
    arrivals: u64,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many would be served before a request of that priority that comes now.
    pub fn ahead_of(&self, priority: i32) -> usize {
        let newcomer = Ticket {
            priority: Reverse(priority),
            number: u64::MAX,
        };
        match self.waiting.last_key_value() {
            // The usual case, without counting: nobody of lower priority waits.
            Some((last, _)) if *last < newcomer => self.len(),
            _ => self.waiting.range(..newcomer).count(),
        }
    }

    pub fn push(&mut self, waiting: Waiting) -> Ticket {
        let ticket = Ticket {
            priority: Reverse(waiting.priority),
            number: self.arrivals,
        };
        self.arrivals += 1;
        self.waiting.insert(ticket, waiting);
        ticket
    }

    /// Takes a request out of the queue.
    pub fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.waiting.remove(&ticket)
    }

    /// Takes out the request that a free slot of `worker` should have: the first that has
    /// been overtaken often enough or is at home there, else the first that may go there.
    pub fn take_for(
        &mut self,
        worker: WorkerId,
        mut is_home: impl FnMut(&Waiting) -> bool,
    ) -> Option<(Ticket, Waiting)> {
        let mut first = None;
        let mut home = None;
        let window = self.waiting.iter().take(WINDOW);
        for (&ticket, waiting) in window.filter(|(_, waiting)| waiting.may_go_to(worker)) {
            first.get_or_insert(ticket);
            if waiting.overtaken >= MOST_OVERTAKEN || is_home(waiting) {
                home = Some(ticket);
                break;
            }
        }
        let ticket = match home.or(first) {
            Some(ticket) => ticket,
            // All of the window have failed there. Whoever comes first behind it.
            None => {
                *self
                    .waiting
                    .iter()
                    .skip(WINDOW)
                    .find(|(_, waiting)| waiting.may_go_to(worker))?
                    .0
            }
        };
        for (_, passed) in self.waiting.range_mut(..ticket) {
            passed.overtaken += u32::from(passed.may_go_to(worker));
        }
        self.waiting.remove_entry(&ticket)
    }

    /// Takes out everyone for whom `is_lost` holds, in order.
    pub fn take_lost(&mut self, mut is_lost: impl FnMut(&Waiting) -> bool) -> Vec<Ticket> {
        let lost: Vec<Ticket> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| is_lost(waiting))
            .map(|(&ticket, _)| ticket)
            .collect();
        for ticket in &lost {
            self.waiting.remove(ticket);
        }
        lost
    }
}
