//! Flows that share by tokens: who of those that wait is next, by what each has used.
//!
//! Weighted fair queueing. Every flow has a tag, the virtual time at which its next request
//! should begin; the smallest tag goes first, and a request that is bound moves its flow's tag
//! ahead by its tokens over the flow's weight. The virtual clock of a set of flows advances by
//! the tokens that were bound over the weights of all who wait, and never lags behind the
//! smallest tag. A flow that begins to wait starts at the clock, so idling saves nothing up, and
//! a crowd of newcomers cannot hold back one who has been served once.
//!
//! A line of requests is a set of numbers in order of arrival; flows are lines too, so tenants
//! are flows whose lines are flows of sessions.
//!
//! # Guarantees
//!
//! - **Work is conserved**: every waiting request is in the order.
//! - **Shares.** Of two flows that wait all the time, neither is bound more tokens per weight
//!   than the other by more than one request of each, as long as the head of the order is taken.
//! - **Bounded memory.** Flows that do not wait are remembered only while they owe something,
//!   and at most [`MOST_RESTING`] of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, btree_set};
use std::iter::{Copied, Peekable};

#[cfg(test)]
mod tests;

/// Most flows that are remembered without a waiting request.
const MOST_RESTING: usize = 1024;
/// Virtual time of one token at weight 1; leaves room for weights up to some thousands and for
/// 10^14 tokens.
const TOKEN: u64 = 1 << 16;

/// Numbers that wait, in the order in which they should be bound.
pub(super) trait Line: Default {
    type Numbers<'a>: Iterator<Item = u64>
    where
        Self: 'a;

    /// `typical` is what a request is expected to cost, in tokens.
    fn numbers(&self, typical: u64) -> Self::Numbers<'_>;
    fn is_empty(&self) -> bool;
    /// The one that would be bound last, as far as it is cheap to say.
    fn last(&self) -> Option<u64>;
}

impl Line for BTreeSet<u64> {
    type Numbers<'a> = Copied<btree_set::Iter<'a, u64>>;

    fn numbers(&self, _typical: u64) -> Self::Numbers<'_> {
        self.iter().copied()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn last(&self) -> Option<u64> {
        self.last().copied()
    }
}

/// Flows by name.
#[derive(Debug)]
pub(super) struct Flows<L> {
    flows: BTreeMap<u64, Flow<L>>,
    /// Those that wait: tag, when they got it, name.
    order: BTreeSet<(u64, u64, u64)>,
    /// Sum of the weights of the flows that wait.
    weights: u64,
    clock: u64,
    /// How many tags have been given.
    tags: u64,
}

#[derive(Debug)]
struct Flow<L> {
    tag: u64,
    /// When the flow got its tag; orders flows with equal tags.
    since: u64,
    weight: u64,
    line: L,
}

impl<L> Default for Flows<L> {
    fn default() -> Self {
        Self {
            flows: BTreeMap::new(),
            order: BTreeSet::new(),
            weights: 0,
            clock: 0,
            tags: 0,
        }
    }
}

impl<L: Line> Flows<L> {
    /// Changes a flow's line, to which something may have come.
    pub(super) fn extend(&mut self, name: u64, weight: u64, change: impl FnOnce(&mut L)) {
        let weight = weight.max(1);
        let (clock, since) = (self.clock, self.tags);
        let flow = self.flows.entry(name).or_insert_with(|| Flow {
            tag: clock,
            since,
            weight,
            line: L::default(),
        });
        let waited = !flow.line.is_empty();
        change(&mut flow.line);
        if !waited {
            flow.tag = flow.tag.max(clock);
            flow.since = since;
            flow.weight = weight;
            self.tags += 1;
            self.weights += weight;
            self.order.insert((flow.tag, flow.since, name));
        } else if flow.weight != weight {
            // Somebody changed the shares meanwhile.
            self.weights = self.weights - flow.weight + weight;
            flow.weight = weight;
        }
    }

    /// Changes a flow's line, from which something may have gone.
    pub(super) fn shorten(&mut self, name: u64, change: impl FnOnce(&mut L)) {
        let Some(flow) = self.flows.get_mut(&name) else {
            return;
        };
        let waited = !flow.line.is_empty();
        change(&mut flow.line);
        if waited && flow.line.is_empty() {
            self.order.remove(&(flow.tag, flow.since, name));
            self.weights -= flow.weight;
            self.forget();
        }
    }

    /// So many tokens are bound for a flow, whether it still waits or not.
    pub(super) fn charge(&mut self, name: u64, tokens: u64) {
        let Some(flow) = self.flows.get(&name) else {
            return;
        };
        let all = match flow.line.is_empty() {
            true => self.weights + flow.weight,
            false => self.weights,
        };
        let cost = tokens.saturating_mul(TOKEN);
        let tag = flow.tag.saturating_add(cost / flow.weight);
        self.set_tag(name, tag);
        self.clock = self.clock.saturating_add(cost / all.max(1));
        if let Some(&(least, ..)) = self.order.first() {
            self.clock = self.clock.max(least);
        }
    }

    /// A flow that was charged has used so many tokens more, or less.
    pub(super) fn settle(&mut self, name: u64, tokens: i64) {
        let Some(flow) = self.flows.get(&name) else {
            return;
        };
        let time = tokens.unsigned_abs().saturating_mul(TOKEN) / flow.weight;
        let tag = match tokens < 0 {
            true => flow.tag.saturating_sub(time),
            false => flow.tag.saturating_add(time),
        };
        self.set_tag(name, tag);
    }

    /// What is in a flow's line, if it is known.
    pub(super) fn line_mut(&mut self, name: u64) -> Option<&mut L> {
        self.flows.get_mut(&name).map(|flow| &mut flow.line)
    }

    pub(super) fn line(&self, name: u64) -> Option<&L> {
        self.flows.get(&name).map(|flow| &flow.line)
    }

    /// The weights of those that wait, over that of a flow with this weight.
    pub(super) fn times(&self, name: u64, weight: u64) -> f64 {
        let waits = self.line(name).is_some_and(|line| !line.is_empty());
        let all = self.weights + if waits { 0 } else { weight };
        all as f64 / weight.max(1) as f64
    }

    fn set_tag(&mut self, name: u64, tag: u64) {
        let since = self.tags;
        self.tags += 1;
        if let Some(flow) = self.flows.get_mut(&name) {
            if !flow.line.is_empty() {
                self.order.remove(&(flow.tag, flow.since, name));
                self.order.insert((tag, since, name));
            }
            (flow.tag, flow.since) = (tag, since);
        }
    }

    /// Forgets those that wait for nothing and owe nothing, once there are many.
    fn forget(&mut self) {
        let many = |flows: &Self| flows.flows.len() > flows.order.len() + MOST_RESTING;
        if many(self) {
            let clock = self.clock;
            self.flows
                .retain(|_, flow| !flow.line.is_empty() || flow.tag > clock);
        }
        if many(self) {
            self.flows.retain(|_, flow| !flow.line.is_empty());
        }
    }
}

impl<L: Line> Line for Flows<L> {
    type Numbers<'a>
        = Merged<'a, L>
    where
        L: 'a;

    fn numbers(&self, typical: u64) -> Merged<'_, L> {
        Merged {
            flows: &self.flows,
            typical,
            fresh: self.order.iter().peekable(),
            begun: BinaryHeap::new(),
            lines: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn last(&self) -> Option<u64> {
        let (_, _, name) = self.order.last()?;
        self.flows.get(name)?.line.last()
    }
}

/// The numbers of all flows in the order in which they would be bound if every request cost
/// the same. Lazy: a caller that stops early has looked at few.
pub(super) struct Merged<'a, L: Line> {
    flows: &'a BTreeMap<u64, Flow<L>>,
    typical: u64,
    /// Flows of which nothing has been handed out.
    fresh: Peekable<btree_set::Iter<'a, (u64, u64, u64)>>,
    /// The others: tag, when they got it, which line.
    begun: BinaryHeap<Reverse<(u64, u64, usize)>>,
    lines: Vec<(L::Numbers<'a>, u64)>,
}

impl<L: Line> Iterator for Merged<'_, L> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let next_begun = self
                .begun
                .peek()
                .map(|Reverse((tag, since, _))| (*tag, *since));
            let next_fresh = self.fresh.peek().map(|(tag, since, _)| (*tag, *since));
            let begins =
                next_fresh.is_some_and(|fresh| next_begun.is_none_or(|other| fresh < other));
            let (tag, since, line) = if begins {
                let &(tag, since, name) = self.fresh.next()?;
                let flow = self.flows.get(&name)?;
                let step = self.typical.saturating_mul(TOKEN) / flow.weight;
                self.lines.push((flow.line.numbers(self.typical), step));
                (tag, since, self.lines.len() - 1)
            } else {
                self.begun.pop()?.0
            };
            let (numbers, step) = &mut self.lines[line];
            if let Some(number) = numbers.next() {
                let tag = tag.saturating_add(*step);
                self.begun.push(Reverse((tag, since, line)));
                return Some(number);
            }
        }
    }
}
