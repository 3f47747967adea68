//! Records of routing decisions: the figures they were based on, and the outcome.
//!
//! Each placement leaves a [`Decision`]: the figures of every candidate as the policy saw
//! them, who was passed over and why, and later what really happened. The last ones are
//! kept in a ring. Records are shared, not copied, so reading a thousand of them does not
//! hold up routing; a record that somebody still reads is copied before it is completed.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use contract::{Moment, RequestId, WorkerId};
use serde::{Serialize, Serializer};
use ts_rs::TS;

use crate::policy::{Candidate, Reason};

/// Rows of candidates that the ring keeps at most, whatever its length: 8 MiB or so. With
/// very many workers the ring is shorter.
const MOST_ROWS: usize = 65_536;

/// One placement, with everything that led to it.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct Decision {
    /// Counts from 1.
    pub number: u64,
    #[serde(serialize_with = "seconds")]
    #[ts(type = "number")]
    pub at: Moment,
    #[serde(serialize_with = "text")]
    #[ts(type = "string")]
    pub request: RequestId,
    /// The policy's name.
    pub mode: &'static str,
    pub prompt_tokens: u32,
    /// Full blocks of the prompt.
    pub blocks: u32,
    pub winner: WorkerId,
    #[serde(serialize_with = "display")]
    #[ts(type = "string")]
    pub reason: Reason,
    #[ts(type = "Array<Candidate>")]
    pub candidates: Vec<Candidate>,
    pub excluded: Vec<Excluded>,
    /// A worker that holds much more of the prompt was passed over on purpose.
    pub hot_spread: bool,
    /// How long the request had waited for a slot.
    pub queued_ms: f64,
    /// From the decision to the first token, as learned figures have it.
    pub predicted_ttft_ms: f64,
    pub predicted_cached_tokens: u32,
    /// The engine's figure, once it is known.
    pub actual_cached_tokens: Option<u32>,
    pub outcome: Outcome,
    /// What the request needed for which it was sent to the engine's own server, in the client's
    /// words: `tools`, for example. It cannot move in the midst of its answer.
    pub forwarded: Option<String>,
    /// Something that changes with every request was removed from the head of the prompt.
    pub normalized: bool,
}

/// What was decided about a request before it was routed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handling {
    pub forwarded: Option<String>,
    pub normalized: bool,
}

/// How far the placed request has come, in seconds since the decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, TS)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Outcome {
    /// Placed on a worker, without a token yet.
    Placed,
    Started {
        first_token_after: f64,
    },
    /// Over, finished or broken off, after at least one token.
    Ended {
        first_token_after: f64,
        ended_after: f64,
    },
    /// Given up before the first token: failed, refused by the worker, or cancelled.
    Abandoned {
        ended_after: f64,
    },
}

/// A member that was not a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
pub struct Excluded {
    pub worker: WorkerId,
    pub why: WhyNot,
}

impl Excluded {
    /// The request has failed there.
    pub fn tried(worker: WorkerId) -> Self {
        Self {
            worker,
            why: WhyNot::Tried,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "kebab-case")]
pub enum WhyNot {
    Draining,
    /// The request has failed there before.
    Tried,
    /// It has not loaded the adapter that the request asks for.
    NoAdapter,
    /// The request does not fit its context.
    ShortContext,
    /// The proxy that carries the request cannot or must not send it there.
    NotOffered,
    /// Its slots are taken, and its queue where requests wait in the engine.
    Full,
    /// It has failed too often to be given (more) requests now.
    Unsound,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draining => "draining",
            Self::Tried => "tried before",
            Self::NoAdapter => "without the adapter",
            Self::ShortContext => "context too short",
            Self::NotOffered => "not offered by the proxy",
            Self::Full => "full",
            Self::Unsound => "not trusted yet",
        })
    }
}

impl Decision {
    /// The whole decision in one line, for logs.
    pub fn explain(&self) -> String {
        let mut line = format!(
            "#{} {} ({} tokens, {} blocks) {} -> worker {}: {}",
            self.number,
            self.request,
            self.prompt_tokens,
            self.blocks,
            self.mode,
            self.winner,
            self.reason
        );
        for candidate in &self.candidates {
            explain_candidate(&mut line, candidate).expect("a string takes any text");
        }
        for Excluded { worker, why } in &self.excluded {
            write!(line, " | {worker}: {why}").expect("a string takes any text");
        }
        if let Some(needed) = &self.forwarded {
            write!(line, " | forwarded for {needed}").expect("a string takes any text");
        }
        line
    }

    pub(crate) fn record_first_token(&mut self, cached_tokens: u32, now: Moment) {
        self.actual_cached_tokens = Some(cached_tokens);
        if self.outcome == Outcome::Placed {
            self.outcome = Outcome::Started {
                first_token_after: self.elapsed(now),
            };
        }
    }

    pub(crate) fn record_end(&mut self, now: Moment) {
        let ended_after = self.elapsed(now);
        self.outcome = match self.outcome {
            Outcome::Placed => Outcome::Abandoned { ended_after },
            Outcome::Started { first_token_after } => Outcome::Ended {
                first_token_after,
                ended_after,
            },
            over @ (Outcome::Ended { .. } | Outcome::Abandoned { .. }) => over,
        };
    }

    fn elapsed(&self, now: Moment) -> f64 {
        now.since(self.at).as_secs_f64()
    }
}

fn explain_candidate(line: &mut String, candidate: &Candidate) -> fmt::Result {
    write!(line, " | {}: ", candidate.worker)?;
    if let Some(cost) = candidate.cost {
        write!(line, "cost {cost:.2}, ")?;
    }
    if let Some(terms) = candidate.terms {
        write!(line, "{terms}, ")?;
    }
    write!(
        line,
        "overlap {}, prefill {:.2}, decode {}, {}/{} in flight",
        candidate.overlap_blocks,
        candidate.prefill_blocks,
        candidate.decode_blocks,
        candidate.in_flight,
        candidate.slots
    )
}

/// The last decisions, bounded in number and in size.
#[derive(Debug)]
pub(crate) struct DecisionLog {
    /// The latest decisions, with consecutive numbers.
    kept: VecDeque<Arc<Decision>>,
    capacity: usize,
    rows: usize,
    next_number: u64,
    /// Rows of a decision that has left. Kept for their memory.
    spare: Vec<Candidate>,
}

impl DecisionLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            capacity,
            rows: 0,
            next_number: 1,
            spare: Vec::new(),
        }
    }

    /// Room for that many candidates, from a decision that has left the ring if there is one,
    /// so that no memory has to be found for every request.
    pub(crate) fn take_room(&mut self, rows: usize) -> Vec<Candidate> {
        let mut room = std::mem::take(&mut self.spare);
        room.clear();
        room.reserve_exact(rows);
        room
    }

    /// The number that the next decision must carry.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    pub(crate) fn push(&mut self, decision: Decision) {
        debug_assert_eq!(decision.number, self.next_number, "numbers are consecutive");
        self.next_number += 1;
        self.rows += decision.candidates.len();
        self.kept.push_back(Arc::new(decision));
        while self.kept.len() > self.capacity || self.rows > MOST_ROWS {
            let Some(oldest) = self.kept.pop_front() else {
                return;
            };
            self.rows -= oldest.candidates.len();
            if let Some(oldest) = Arc::into_inner(oldest) {
                self.spare = oldest.candidates;
            }
        }
    }

    /// Completes a decision, if it is still there.
    pub(crate) fn amend(&mut self, number: u64, change: impl FnOnce(&mut Decision)) {
        let position = self.position(number);
        if let Some(decision) = position.and_then(|position| self.kept.get_mut(position)) {
            change(Arc::make_mut(decision));
        }
    }

    /// One decision, if it is still there.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Decision>> {
        self.kept.get(self.position(number)?).cloned()
    }

    fn position(&self, number: u64) -> Option<usize> {
        let oldest = self.kept.front()?;
        usize::try_from(number.checked_sub(oldest.number)?).ok()
    }

    /// The latest `limit`, latest first.
    pub(crate) fn latest(&self, limit: usize) -> Vec<Arc<Decision>> {
        self.kept.iter().rev().take(limit).cloned().collect()
    }
}

fn seconds<S: Serializer>(at: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(at.as_secs_f64())
}

fn text<S: Serializer>(request: &RequestId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(request.as_str())
}

fn display<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(reason)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::tests::idle;

    fn decision(number: u64, candidates: usize) -> Decision {
        Decision {
            number,
            at: Moment::ZERO,
            request: RequestId::new("r"),
            mode: "round-robin",
            prompt_tokens: 3200,
            blocks: 100,
            winner: WorkerId(0),
            reason: Reason::NextInCycle,
            candidates: (0..candidates as u64).map(idle).collect(),
            excluded: Vec::new(),
            hot_spread: false,
            queued_ms: 0.0,
            predicted_ttft_ms: 60.0,
            predicted_cached_tokens: 0,
            actual_cached_tokens: None,
            outcome: Outcome::Placed,
            forwarded: None,
            normalized: false,
        }
    }

    fn numbers(log: &DecisionLog, limit: usize) -> Vec<u64> {
        log.latest(limit)
            .iter()
            .map(|decision| decision.number)
            .collect()
    }

    #[test]
    fn the_ring_keeps_the_latest() {
        let mut log = DecisionLog::new(3);
        for number in 1..=5 {
            log.push(decision(number, 2));
        }
        assert_eq!(numbers(&log, 10), [5, 4, 3]);
        assert_eq!(numbers(&log, 2), [5, 4]);
        assert_eq!(log.rows, 6);
        let found = [2, 3, 5, 6].map(|number| log.find(number).map(|one| one.number));
        assert_eq!(found, [None, Some(3), Some(5), None]);
    }

    #[test]
    fn the_ring_is_bounded_in_rows_too() {
        let mut log = DecisionLog::new(1000);
        for number in 1..=5 {
            log.push(decision(number, MOST_ROWS / 2));
        }
        assert_eq!(numbers(&log, 10), [5, 4]);
    }

    #[test]
    fn a_decision_is_completed_in_place_and_readers_keep_what_they_saw() {
        let mut log = DecisionLog::new(2);
        for number in 1..=3 {
            log.push(decision(number, 1));
        }
        let seen = log.latest(1);
        let at = |millis| Moment::ZERO + Duration::from_millis(millis);
        log.amend(3, |decision| decision.record_first_token(64, at(250)));
        log.amend(3, |decision| decision.record_end(at(1500)));
        log.amend(2, |decision| decision.record_end(at(500)));
        log.amend(1, |_| panic!("number 1 has left the ring"));
        log.amend(4, |_| panic!("number 4 has not been made"));
        let latest = log.latest(2);
        assert_eq!(seen[0].outcome, Outcome::Placed);
        assert_eq!(latest[0].actual_cached_tokens, Some(64));
        assert_eq!(
            latest[0].outcome,
            Outcome::Ended {
                first_token_after: 0.25,
                ended_after: 1.5
            }
        );
        assert_eq!(latest[1].outcome, Outcome::Abandoned { ended_after: 0.5 });
    }

    #[test]
    fn room_comes_from_what_has_left_unless_somebody_reads_it() {
        let mut log = DecisionLog::new(1);
        log.push(decision(1, 3));
        let read = log.latest(1);
        log.push(decision(2, 3));
        assert_eq!(log.take_room(0).capacity(), 0);
        assert_eq!(read[0].candidates.len(), 3);
        log.push(decision(3, 3));
        let room = log.take_room(2);
        assert!(room.is_empty() && room.capacity() >= 3);
        assert_eq!(log.take_room(5).capacity(), 5);
    }

    #[test]
    fn a_ring_of_nothing_keeps_nothing() {
        let mut log = DecisionLog::new(0);
        log.push(decision(1, 1));
        log.push(decision(2, 1));
        assert!(numbers(&log, 10).is_empty());
    }
}
