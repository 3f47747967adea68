//! Decides which turn is due now.
//!
//! A closed loop: as many conversations as the [`Schedule`] says, each sending its next turn
//! when the last answer has ended and its user has thought; when one is over, a new one
//! begins. Or an open one: conversations arrive by themselves, however slow the running ones
//! are. The driver knows nothing of requests in flight beyond that: it hands out [`TurnPlan`]s
//! and takes a report of how each ended. Level, script and pace may change at any time; running
//! conversations follow from their next turn on.
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

use self::pace::{Arrivals, RateLimit};
use crate::schedule::Schedule;
use crate::script::{Casting, Script, TurnPlan};

mod pace;

#[cfg(test)]
mod tests;

/// How long a user waits before repeating a request that was rejected or interrupted. Clients of
/// real servers pause too; without it, a full server would be asked forever within one moment.
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

/// What becomes of a conversation after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Another turn will be due.
    GoesOn,
    /// It is over: answered to its end, or impossible.
    Over,
    /// It ends before its last turn, because there are too many or no more are wanted.
    Dropped,
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
    /// Set in an open loop.
    arrivals: Option<Arrivals>,
    rate: RateLimit,
    paused: bool,
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
            arrivals: None,
            rate: RateLimit::default(),
            paused: false,
            closed: false,
        }
    }

    /// The next turn that is due, if any is. It is under way from then on, until
    /// [`ended`](Self::ended) is called for its lane.
    pub fn next(&mut self, now: Moment) -> Option<TurnPlan> {
        self.take(now).map(|(_, plan)| plan)
    }

    /// [`next`](Self::next), with the moment at which it became due.
    pub fn take(&mut self, now: Moment) -> Option<(Moment, TurnPlan)> {
        if self.paused {
            return None;
        }
        self.fill(now);
        let &Reverse((at, _, lane)) = self.due.peek()?;
        let at = self.rate.earliest(at);
        if at > now {
            return None;
        }
        self.due.pop();
        self.rate.spend(at, now);
        let Lane { conversation, turn } = self.lanes[lane];
        Some((at, self.casting.plan(lane, conversation, turn)))
    }

    /// When [`next`](Self::next) should be asked again if no answer ends before.
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        if self.closed || self.paused {
            return None;
        }
        let turn = self.due.peek();
        let turn = turn.map(|Reverse((at, ..))| self.rate.earliest(*at));
        if let Some(arrivals) = &self.arrivals {
            return [turn, Some(arrivals.next)].into_iter().flatten().min();
        }
        let start = (self.active() < self.schedule.target(now)).then_some(self.next_start);
        let change = self.schedule.next_change(now);
        [turn, start, change].into_iter().flatten().min()
    }

    /// Says how the current turn in a lane ended.
    pub fn ended(&mut self, lane: usize, ending: Ending, now: Moment) -> Fate {
        let Lane { conversation, turn } = self.lanes[lane];
        let fate = match ending {
            Ending::Impossible => Fate::Over,
            Ending::Answered if turn + 1 >= self.casting.turns(conversation) => Fate::Over,
            Ending::Answered | Ending::Failed => Fate::GoesOn,
        };
        let surplus = self.arrivals.is_none() && self.active() > self.schedule.target(now);
        if self.closed || surplus {
            self.vacant.push(lane);
            return match fate {
                Fate::Over => Fate::Over,
                Fate::GoesOn | Fate::Dropped => Fate::Dropped,
            };
        }
        match (fate, ending) {
            (Fate::GoesOn, Ending::Failed) => self.put(lane, now + RETRY_PAUSE),
            (Fate::GoesOn, _) => {
                self.lanes[lane].turn += 1;
                let pause = self.casting.think_time(conversation, turn + 1);
                self.put(lane, now + pause);
            }
            // In an open loop nobody replaces who leaves.
            _ if self.arrivals.is_some() => self.vacant.push(lane),
            _ => self.begin(lane, now),
        }
        fate
    }

    /// Another level, from now on.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.schedule = schedule;
    }

    /// Conversations of another kind. Those under way keep their starters and take lengths,
    /// pauses and the number of turns from the new script.
    pub fn set_script(&mut self, script: Script) {
        self.casting = self.casting.with_script(script);
    }

    /// Sends at most so many turns per second, evenly spaced; `None` for no limit.
    pub fn limit_rate(&mut self, per_second: Option<f64>) {
        self.rate.set(per_second);
    }

    /// Opens the loop: so many conversations arrive in a second, at random moments, whatever
    /// becomes of the others. `None` closes it again.
    pub fn set_arrivals(&mut self, per_second: Option<f64>, now: Moment) {
        self.arrivals = per_second.map(|rate| Arrivals::new(rate, self.casting.seed(), now));
    }

    /// Sends nothing until [`resume`](Self::resume); running requests may finish.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    pub fn resume(&mut self, now: Moment) {
        self.paused = false;
        // Who would have arrived in the pause does not arrive all at once after it.
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.skip_to(now);
        }
    }

    /// Starts again after [`close`](Self::close). Conversations are not renumbered.
    pub fn reopen(&mut self, now: Moment) {
        self.closed = false;
        self.next_start = now;
        self.resume(now);
    }

    /// Sends nothing more; running requests may finish.
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
        while let Some(at) = self.arrivals.as_mut().and_then(|open| open.arrive(now)) {
            let lane = self.vacant_lane();
            self.begin(lane, at);
        }
        let target = match self.arrivals {
            Some(_) => 0,
            None => self.schedule.target(now),
        };
        while self.active() < target && self.next_start <= now {
            let lane = self.vacant_lane();
            self.begin(lane, now);
            if self.schedule.starts_per_second > 0.0 {
                let pause = Duration::from_secs_f64(1.0 / self.schedule.starts_per_second);
                self.next_start = now + pause;
            }
        }
    }

    fn vacant_lane(&mut self) -> usize {
        self.vacant.pop().unwrap_or_else(|| {
            self.lanes.push(Lane {
                conversation: 0,
                turn: 0,
            });
            self.lanes.len() - 1
        })
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
