//! Which turn is due now.
//!
//! A closed loop: as many conversations as the [`Schedule`] says, each sending its next turn
//! when the last answer has ended and its user has thought; when one is over, a new one
//! begins. The driver knows nothing of requests in flight beyond that: it hands out
//! [`TurnPlan`]s and is told how each ended.
//!
//! # Guarantees
//!
//! - **Paired.** Conversation *n* is the same in every run with the same seed; timing only
//!   decides when it begins.
//! - **In order.** Turns that are due at the same moment come out in the order in which
//!   they became due.
//! - **Exact level.** There are never more conversations than the schedule's target, except
//!   that after a burst the surplus goes on until each has its current answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use contract::Moment;

use crate::schedule::Schedule;
use crate::script::{Casting, Script, TurnPlan};

#[cfg(test)]
mod tests;

/// How long a user waits before asking again what was refused or broke off. Clients of real
/// servers pause too; without it, a full server would be asked for ever within one moment.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Answered,
    /// It failed and may work another time: the same turn is asked again.
    Failed,
    /// It can never work: the conversation is given up.
    Impossible,
}

/// The conversations of one run.
#[derive(Debug)]
pub struct Driver {
    casting: Casting,
    schedule: Schedule,
    lanes: Vec<Lane>,
    /// Lanes without a conversation.
    vacant: Vec<usize>,
    /// Turns to be sent: when, in which order, by whom.
    due: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    next_order: u64,
    next_conversation: u64,
    /// Before this, no conversation begins that does not replace another.
    next_start: Moment,
    closed: bool,
}

/// Where one conversation stands.
#[derive(Clone, Copy, Debug)]
struct Lane {
    conversation: u64,
    turn: u32,
}

impl Driver {
    pub fn new(script: Script, schedule: Schedule, seed: u64) -> Self {
        Self {
            casting: Casting::new(script, seed),
            schedule,
            lanes: Vec::new(),
            vacant: Vec::new(),
            due: BinaryHeap::new(),
            next_order: 0,
            next_conversation: 0,
            next_start: Moment::ZERO,
            closed: false,
        }
    }

    /// The next turn that is due, if any is. It is under way from then on, until
    /// [`ended`](Self::ended) is called for its lane.
    pub fn next(&mut self, now: Moment) -> Option<TurnPlan> {
        self.fill(now);
        let &Reverse((at, _, lane)) = self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        let Lane { conversation, turn } = self.lanes[lane];
        Some(self.casting.plan(lane, conversation, turn))
    }

    /// When [`next`](Self::next) should be asked again if no answer ends before.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        if self.closed {
            return None;
        }
        let turn = self.due.peek().map(|Reverse((at, ..))| *at);
        let start = (self.active() < self.schedule.target(now)).then_some(self.next_start);
        let change = self.schedule.next_change(now);
        [turn, start, change].into_iter().flatten().min()
    }

    /// Says how the turn under way in a lane ended.
    pub fn ended(&mut self, lane: usize, ending: Ending, now: Moment) {
        if self.closed || self.active() > self.schedule.target(now) {
            self.vacant.push(lane);
            return;
        }
        let Lane { conversation, turn } = self.lanes[lane];
        match ending {
            Ending::Failed => self.put(lane, now + RETRY_PAUSE),
            Ending::Answered if turn + 1 < self.casting.turns(conversation) => {
                self.lanes[lane].turn += 1;
                let pause = self.casting.think_time(conversation, turn + 1);
                self.put(lane, now + pause);
            }
            Ending::Answered | Ending::Impossible => self.begin(lane, now),
        }
    }

    /// Sends nothing more; what is under way may end.
    pub fn close(&mut self) {
        self.closed = true;
        while let Some(Reverse((_, _, lane))) = self.due.pop() {
            self.vacant.push(lane);
        }
    }

    /// Conversations that are not over.
    pub fn active(&self) -> u32 {
        (self.lanes.len() - self.vacant.len()) as u32
    }

    /// Conversations begun so far.
    pub fn begun(&self) -> u64 {
        self.next_conversation
    }

    /// Begins conversations until there are enough, as fast as the schedule allows.
    fn fill(&mut self, now: Moment) {
        if self.closed {
            return;
        }
        let target = self.schedule.target(now);
        while self.active() < target && self.next_start <= now {
            let lane = self.vacant.pop().unwrap_or_else(|| {
                self.lanes.push(Lane {
                    conversation: 0,
                    turn: 0,
                });
                self.lanes.len() - 1
            });
            self.begin(lane, now);
            if self.schedule.starts_per_second > 0.0 {
                let pause = Duration::from_secs_f64(1.0 / self.schedule.starts_per_second);
                self.next_start = now + pause;
            }
        }
    }

    fn begin(&mut self, lane: usize, now: Moment) {
        self.lanes[lane] = Lane {
            conversation: self.next_conversation,
            turn: 0,
        };
        self.next_conversation += 1;
        self.put(lane, now);
    }

    fn put(&mut self, lane: usize, at: Moment) {
        self.due.push(Reverse((at, self.next_order, lane)));
        self.next_order += 1;
    }
}
