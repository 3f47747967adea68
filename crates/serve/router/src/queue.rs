//! Requests that wait for a slot, and which of them a freed slot takes.
//!
//! One queue for all workers: a request is bound to a worker when a slot frees and not
//! before, because until then nobody knows which worker that will be. The order has three
//! parts: classes of priority, the higher first; within a class, tenants share by tokens and
//! weights and a tenant's sessions share alike ([`fair`]); within a session, arrival. One
//! exception keeps conversations at home: a freed slot takes the first request *that is at
//! home there*, among the first [`WINDOW`] of the order. Plain order would scatter
//! conversations over the fleet exactly when there is no time to recompute their prompts.
//!
//! # Guarantees
//!
//! - **A class is passed over at most [`MOST_OVERTAKEN`] times**: then the next slot is its,
//!   so with two classes the lower has at least one slot in 17, and with `n` one in `15 + n`.
//! - **Within a class nobody is overtaken more than [`MOST_OVERTAKEN`] times**: so often may
//!   one who stands behind in the order be bound first; then the overtaken request goes
//!   next, home or not. A bound on age would turn the queue into plain order as soon as
//!   everyone has waited that long, which is when order matters most.
//! - **Shares.** Every request that is bound is charged, at home or not, so tenants that wait
//!   all the time get tokens in proportion to their weights, within the cost of [`WINDOW`]
//!   requests.
//! - **A full queue is shared too**: a tenant with less than its share takes a place of the
//!   tenant that has most ([`Queue::displace`]).
//! - **Cancelled is gone.** A cancelled request leaves at once and is never bound.
//!
//! # Elsewhere
//!
//! Who is at home where is asked of the caller, [`crate::state`], who also bounds the queue
//! and says what a request costs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use contract::{BlockHash, Moment, RequestId, WorkerId};

use self::fair::{Flows, Line as _};
use crate::decision::Excluded;
use crate::query::{Identity, RouteQuery, Ticket};

mod fair;
#[cfg(test)]
mod tests;

/// Requests that are looked at when a slot frees.
pub const WINDOW: usize = 64;
/// Times that a request, and a class of priority, may be overtaken.
pub const MOST_OVERTAKEN: u32 = 16;
/// Highest priority, and with a minus the lowest: beyond, all are alike. Each class that waits
/// may have to be served before a starved one, so there cannot be any number.
pub const HIGHEST_PRIORITY: i32 = 8;
/// What an answer is believed to have before any has ended, in tokens.
const FIRST_OUTPUT: f64 = 256.0;
/// How much one answer changes what is believed.
const OUTPUT_GAIN: f64 = 0.05;

/// A request that waits, with all that is needed to place it later.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub request: RequestId,
    pub prompt_tokens: u32,
    pub chain: Box<[BlockHash]>,
    pub excluded: Box<[Excluded]>,
    pub identity: Identity,
    pub priority: i32,
    pub deadline: Option<Moment>,
    pub since: Moment,
    /// How many requests that stood behind it have been bound before.
    pub overtaken: u32,
}

impl Waiting {
    pub fn new(query: &RouteQuery<'_>, now: Moment) -> Self {
        Self {
            request: query.request.clone(),
            prompt_tokens: query.prompt_tokens,
            chain: query.chain.into(),
            excluded: query.excluded.into(),
            identity: query.identity,
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
            identity: self.identity,
            priority: self.priority,
            deadline: self.deadline,
        }
    }

    pub(crate) fn may_go_to(&self, worker: WorkerId) -> bool {
        !self.excluded.iter().any(|one| one.worker == worker)
    }
}

/// What a tenant was charged for a request that waited.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    class: Class,
    identity: Identity,
    /// Of the answer; the prompt's are known.
    expected_output: u32,
}

/// The higher comes first.
type Class = Reverse<i32>;

fn class(priority: i32) -> Class {
    Reverse(priority.clamp(-HIGHEST_PRIORITY, HIGHEST_PRIORITY))
}

/// The waiting requests of one priority.
#[derive(Debug, Default)]
struct Rank {
    tenants: Flows<Flows<BTreeSet<u64>>>,
    waiting: usize,
    /// Slots that went to higher classes since this one last got one.
    passed_over: u32,
}

/// What a tenant has in the queue.
#[derive(Clone, Copy, Debug)]
struct Holding {
    waiting: u64,
    share: u64,
}

#[derive(Debug)]
pub struct Queue {
    waiting: BTreeMap<u64, Waiting>,
    /// Priorities with waiting requests.
    ranks: BTreeMap<Class, Rank>,
    /// What each tenant has in the queue, by tenant.
    holdings: BTreeMap<u64, Holding>,
    arrivals: u64,
    expected_output: f64,
    /// Kept for its memory: those that stand before the one being looked at.
    passed: Vec<u64>,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            ranks: BTreeMap::new(),
            holdings: BTreeMap::new(),
            arrivals: 0,
            expected_output: FIRST_OUTPUT,
            passed: Vec::new(),
        }
    }
}

impl Queue {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// About how many would be served before such a request that comes now: all of higher
    /// classes and, of its own, who is due before it if everyone takes what they are due.
    pub fn ahead_of(&self, priority: i32, identity: Identity) -> usize {
        let class = class(priority);
        let higher: usize = self
            .ranks
            .range(..class)
            .map(|(_, rank)| rank.waiting)
            .sum();
        let Some(rank) = self.ranks.get(&class) else {
            return higher;
        };
        let own = rank.tenants.line(identity.tenant);
        let (sessions, before) = own.map_or((1.0, 0), |sessions| {
            let before = sessions.line(identity.session).map_or(0, BTreeSet::len);
            (sessions.times(identity.session, 1), before)
        });
        // One turn of everyone for each of its own.
        let rounds = (before + 1) as f64 * sessions;
        let turns = rounds
            * rank
                .tenants
                .times(identity.tenant, u64::from(identity.share));
        higher + (turns.ceil() as usize - 1).min(rank.waiting)
    }

    pub fn push(&mut self, waiting: Waiting) -> Ticket {
        let number = self.arrivals;
        self.arrivals += 1;
        let Identity {
            tenant,
            share,
            session,
        } = waiting.identity;
        let share = u64::from(share);
        let rank = self.ranks.entry(class(waiting.priority)).or_default();
        rank.waiting += 1;
        rank.tenants.extend(tenant, share, |sessions| {
            sessions.extend(session, 1, |line| {
                line.insert(number);
            });
        });
        let holding = self.holdings.entry(tenant);
        let holding = holding.or_insert(Holding { waiting: 0, share });
        holding.waiting += 1;
        holding.share = share.max(1);
        self.waiting.insert(number, waiting);
        Ticket(number)
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Waiting> {
        self.waiting.get(&ticket.0)
    }

    /// Takes a request out of the queue.
    pub fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        self.remove(ticket.0)
    }

    /// Takes out the request that a free slot of `worker` should have: of the class whose turn
    /// it is, the first that has been overtaken often enough or is at home there, else the
    /// first that may go there.
    pub fn take_for(
        &mut self,
        worker: WorkerId,
        mut is_home: impl FnMut(&Waiting) -> bool,
    ) -> Option<(Ticket, Waiting)> {
        let mut passed = std::mem::take(&mut self.passed);
        let chosen = self.classes_in_turn().into_iter().find_map(|class| {
            passed.clear();
            self.choose(class, worker, &mut is_home, &mut passed)
        });
        let taken = chosen.and_then(|number| {
            for passed in &passed {
                if let Some(passed) = self.waiting.get_mut(passed) {
                    passed.overtaken += 1;
                }
            }
            let waiting = self.remove(number)?;
            self.pass_over(class(waiting.priority));
            Some((Ticket(number), waiting))
        });
        self.passed = passed;
        taken
    }

    /// A request that was taken out is bound, and has so many tokens of its prompt computed.
    pub fn charge(&mut self, waiting: &Waiting, prompt_tokens: u32) -> Charge {
        let charge = Charge {
            class: class(waiting.priority),
            identity: waiting.identity,
            expected_output: self.expected_output as u32,
        };
        let tokens = u64::from(prompt_tokens) + u64::from(charge.expected_output);
        let Identity {
            tenant, session, ..
        } = charge.identity;
        if let Some(rank) = self.ranks.get_mut(&charge.class) {
            rank.tenants.charge(tenant, tokens);
            if let Some(sessions) = rank.tenants.line_mut(tenant) {
                sessions.charge(session, tokens);
            }
        }
        charge
    }

    /// A request that was charged for has ended, with so many tokens of its answer.
    pub fn settle(&mut self, charge: Charge, output_tokens: u32) {
        let Identity {
            tenant, session, ..
        } = charge.identity;
        let difference = i64::from(output_tokens) - i64::from(charge.expected_output);
        if let Some(rank) = self.ranks.get_mut(&charge.class) {
            rank.tenants.settle(tenant, difference);
            if let Some(sessions) = rank.tenants.line_mut(tenant) {
                sessions.settle(session, difference);
            }
        }
    }

    /// Updates the expected output length with an answer of so many tokens.
    pub fn heed_output(&mut self, tokens: u32) {
        self.expected_output += OUTPUT_GAIN * (f64::from(tokens) - self.expected_output);
    }

    /// Makes a place for a newcomer of `identity`: takes out the last request of the tenant who
    /// has most of the queue for their share, unless the newcomer would have as much then.
    pub fn displace(&mut self, identity: Identity) -> Option<Ticket> {
        let own = self.holdings.get(&identity.tenant);
        let own = own.map_or(0, |holding| holding.waiting) + 1;
        // Fractions without dividing: left / share against right / other share.
        let more = |left: Holding, right: Holding| {
            (left.waiting * right.share).cmp(&(right.waiting * left.share))
        };
        let (&tenant, &most) = self
            .holdings
            .iter()
            .max_by(|left, right| more(*left.1, *right.1))?;
        let newcomer = Holding {
            waiting: own,
            share: u64::from(identity.share).max(1),
        };
        let without = Holding {
            waiting: most.waiting - 1,
            ..most
        };
        if tenant == identity.tenant || more(without, newcomer).is_lt() {
            return None;
        }
        // The lowest class first.
        let mut ranks = self.ranks.values().rev();
        let number = ranks.find_map(|rank| rank.tenants.line(tenant)?.last())?;
        self.remove(number).map(|_| Ticket(number))
    }

    /// Takes out everyone for whom `is_lost` holds, in order of arrival.
    pub fn take_lost(&mut self, mut is_lost: impl FnMut(&Waiting) -> bool) -> Vec<Ticket> {
        let lost: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| is_lost(waiting))
            .map(|(&number, _)| number)
            .collect();
        for &number in &lost {
            self.remove(number);
        }
        lost.into_iter().map(Ticket).collect()
    }

    /// Classes with waiting requests: those passed over too often, then by priority.
    fn classes_in_turn(&self) -> Vec<Class> {
        let starved = |rank: &Rank| rank.passed_over >= MOST_OVERTAKEN;
        let mut classes: Vec<_> = self
            .ranks
            .iter()
            .map(|(&class, rank)| (!starved(rank), class))
            .collect();
        classes.sort_unstable();
        classes.into_iter().map(|(_, class)| class).collect()
    }

    /// Whom of a class a slot should have; and who stands before it and could have had it.
    fn choose(
        &self,
        class: Class,
        worker: WorkerId,
        is_home: &mut impl FnMut(&Waiting) -> bool,
        passed: &mut Vec<u64>,
    ) -> Option<u64> {
        let rank = self.ranks.get(&class)?;
        let typical = (self.expected_output as u64).max(1);
        for (position, number) in rank.tenants.numbers(typical).enumerate() {
            if position >= WINDOW && !passed.is_empty() {
                break;
            }
            let waiting = self.waiting.get(&number)?;
            if !waiting.may_go_to(worker) {
                continue;
            }
            // If all of the window have failed there: the first one behind it.
            let beyond = position >= WINDOW;
            if beyond || waiting.overtaken >= MOST_OVERTAKEN || is_home(waiting) {
                return Some(number);
            }
            passed.push(number);
        }
        let first = passed.first().copied();
        passed.clear();
        first
    }

    /// A slot went to a class.
    fn pass_over(&mut self, served: Class) {
        for (&class, rank) in &mut self.ranks {
            match class.cmp(&served) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => rank.passed_over = 0,
                std::cmp::Ordering::Greater => rank.passed_over += 1,
            }
        }
    }

    fn remove(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        let Identity {
            tenant, session, ..
        } = waiting.identity;
        let class = class(waiting.priority);
        if let Some(rank) = self.ranks.get_mut(&class) {
            rank.waiting -= 1;
            rank.tenants.shorten(tenant, |sessions| {
                sessions.shorten(session, |line| {
                    line.remove(&number);
                });
            });
            if rank.waiting == 0 {
                // Nobody was kept waiting at this moment: what was used before is forgotten.
                self.ranks.remove(&class);
            }
        }
        if let Some(holding) = self.holdings.get_mut(&tenant) {
            holding.waiting -= 1;
            if holding.waiting == 0 {
                self.holdings.remove(&tenant);
            }
        }
        Some(waiting)
    }
}
