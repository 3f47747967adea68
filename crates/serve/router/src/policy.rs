//! The interface of a routing policy: which of the candidates takes the request.
//!
//! A policy sees figures and returns an index. It knows neither the index nor the books
//! they come from, reads no clock and draws only from the randomness it is handed, so each
//! rule is a page that can be tested with a table. What it concluded about a candidate it
//! writes into [`Candidate::cost`]; the same rows then become the decision record.

use std::cmp::Ordering;
use std::fmt;

use contract::random::Random as Draws;
use contract::{BlockHash, WorkerId};
use serde::Serialize;
use ts_rs::TS;

use crate::learn::Outlook;
use crate::mode::Mode;

mod kv;
mod kv_blocks;
mod least_loaded;
mod power_of_two;
mod random;
mod round_robin;

pub use kv::Kv;
pub use kv_blocks::KvBlocks;
pub use least_loaded::LeastLoaded;
pub use power_of_two::PowerOfTwo;
pub use random::Random;
pub use round_robin::RoundRobin;

/// A request is at home on a worker if it would have to compute at most this many tokens
/// more there than where it would compute least: some 20 ms of work.
pub const HOME_TOKENS: u32 = 256;

impl Mode {
    /// The code that decides, with no memory of earlier choices.
    pub fn policy(&self) -> Box<dyn Policy> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin::default()),
            Self::Random => Box::new(Random),
            Self::LeastLoaded => Box::new(LeastLoaded::default()),
            Self::PowerOfTwo => Box::new(PowerOfTwo),
            Self::KvBlocks(weights) => Box::new(KvBlocks::new(*weights)),
            Self::Kv => Box::new(Kv),
        }
    }
}

/// Chooses among workers that may take a request.
pub trait Policy: Send + fmt::Debug {
    /// As decisions and tables call it.
    fn name(&self) -> &'static str;

    /// Chooses one of `candidates`, which are at least one, in ascending order of worker.
    ///
    /// The choice is binding: the caller reserves it before the next call, so a policy may
    /// count on seeing its own choices in the next candidates' figures.
    fn choose(
        &mut self,
        request: &RequestView,
        candidates: &mut [Candidate],
        draws: &mut Draws,
    ) -> Choice;
}

/// What a policy may know about the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestView<'a> {
    pub prompt_tokens: u32,
    /// Hashes of the prompt's full blocks.
    pub chain: &'a [BlockHash],
    /// Full blocks of the prompt.
    pub blocks: u32,
    /// Tokens per block.
    pub block_size: u32,
    /// Of the workers that are full and hence no candidates, the one with most of the prompt.
    pub full_holder: Option<Holder>,
    /// Where the last request of its session went.
    pub session_worker: Option<WorkerId>,
}

/// A worker, and how much of the prompt it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub worker: WorkerId,
    pub cached_tokens: u32,
}

/// A worker that may take the request, with the figures on which it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, TS)]
#[ts(rename = "CandidateFigures")]
pub struct Candidate {
    pub worker: WorkerId,
    /// Sequences that it runs at once.
    pub slots: u32,
    pub in_flight: u32,
    /// Leading blocks of the prompt that it holds or is about to hold.
    pub overlap_blocks: u32,
    /// Prompt tokens that it would reuse.
    pub cached_tokens: u32,
    /// Prompt tokens sent to it earlier and still to be computed.
    pub pending_prefill_tokens: u64,
    /// The requests that they belong to.
    pub pending_requests: u32,
    /// What it would have to compute until this request's first token, pending work
    /// included, in blocks.
    pub prefill_blocks: f64,
    /// Blocks that its running requests use, without this one.
    pub decode_blocks: u32,
    /// Blocks that this request would add to those.
    pub new_blocks: u32,
    /// Blocks that its memory holds; 0 if it does not say.
    #[serde(skip)]
    pub total_blocks: u32,
    /// Leading blocks of the prompt that its events have confirmed.
    #[serde(skip)]
    pub confirmed_blocks: u32,
    /// Its cache holds about as much as it can, so what is stored evicts something.
    pub cache_full: bool,
    /// What has been learned about its speed.
    #[serde(skip)]
    pub outlook: Outlook,
    /// What the cost consists of, where it is time.
    #[serde(flatten)]
    #[ts(skip)]
    pub terms: Option<Terms>,
    /// What the policy weighed; lower is better. `None` if it does not weigh.
    pub cost: Option<f64>,
}

/// An expected cost in time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, TS)]
pub struct Terms {
    /// Until the request's own first token, once it has a slot.
    pub ttft_ms: f32,
    /// What it and those that wait for their first token there do to each other.
    pub queue_ms: f32,
    /// Delay of the requests that the worker is decoding.
    pub decode_ms: f32,
    /// Work that others will have to do again because their blocks make room.
    pub eviction_ms: f32,
    /// Until a slot is free.
    pub wait_ms: f32,
}

impl Terms {
    pub fn total(&self) -> f64 {
        f64::from(self.ttft_ms + self.queue_ms + self.decode_ms + self.eviction_ms + self.wait_ms)
    }

    /// How much more this is than a lower cost, and which term has the largest part in it.
    fn beyond(&self, other: &Self) -> Dearer {
        let mut mostly = ("first token", self.ttft_ms - other.ttft_ms);
        for (name, more) in [
            ("queue", self.queue_ms - other.queue_ms),
            ("decodes", self.decode_ms - other.decode_ms),
            ("eviction", self.eviction_ms - other.eviction_ms),
            ("wait", self.wait_ms - other.wait_ms),
        ] {
            if more > mostly.1 {
                mostly = (name, more);
            }
        }
        Dearer {
            ms: self.total() - other.total(),
            mostly: mostly.0,
        }
    }
}

/// How much more one worker costs than another, and what most of that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dearer {
    pub ms: f64,
    /// As the terms are called where they are displayed.
    pub mostly: &'static str,
}

impl fmt::Display for Dearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms more, mostly {}", self.ms, self.mostly)
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ttft_ms,
            queue_ms,
            decode_ms,
            eviction_ms,
            wait_ms,
        } = self;
        write!(
            f,
            "first token {ttft_ms:.1}, queue {queue_ms:.1}, decodes {decode_ms:.1}, eviction {eviction_ms:.1}, wait {wait_ms:.1} ms"
        )
    }
}

impl Candidate {
    /// Seconds until a slot is free.
    pub fn wait_seconds(&self) -> f32 {
        let beyond = (self.in_flight + 1).saturating_sub(self.slots) as f32;
        beyond * self.outlook.residence_seconds / self.slots.max(1) as f32
    }

    /// Tokens of this request, its answer included, for which the worker has no memory beside what
    /// already runs there.
    pub fn tokens_beyond_memory(&self, request: &RequestView) -> f32 {
        if self.total_blocks == 0 {
            return 0.0;
        }
        let tokens = |blocks: i64| blocks as f32 * request.block_size as f32;
        let answer = self.outlook.output_tokens;
        let prompts = i64::from(self.decode_blocks) + i64::from(self.new_blocks);
        let left = tokens(i64::from(self.total_blocks) - prompts);
        let beyond = (self.in_flight as f32 + 1.0) * answer - left;
        // Of nearly every worker.
        if beyond <= 0.0 {
            return 0.0;
        }
        beyond.min(tokens(i64::from(self.new_blocks)) + answer)
    }

    /// Seconds from having a slot to the first token.
    pub fn first_token_seconds(&self, request: &RequestView) -> f32 {
        let tokens = self.pending_prefill_tokens as f32 + self.uncached_tokens(request) as f32;
        self.outlook.first_token(self.in_flight as f32, tokens)
    }

    /// Prompt tokens that it would have to compute.
    pub fn uncached_tokens(&self, request: &RequestView) -> u32 {
        request.prompt_tokens.saturating_sub(self.cached_tokens)
    }

    /// Compares how full two workers are, relative to their slots.
    fn cmp_load(&self, other: &Self) -> Ordering {
        let scaled =
            |mine: &Self, theirs: &Self| u64::from(mine.in_flight) * u64::from(theirs.slots.max(1));
        scaled(self, other).cmp(&scaled(other, self))
    }
}

/// The chosen candidate, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub index: usize,
    pub reason: Reason,
}

/// Why the winner won.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    NextInCycle,
    Drawn,
    LeastLoaded {
        in_flight: u32,
        slots: u32,
    },
    OnlyOne,
    LessLoadedOfTwo {
        other: WorkerId,
    },
    LowestCost {
        cost: f64,
    },
    /// Several had the lowest cost.
    TieAtLowestCost {
        cost: f64,
        tied: u32,
    },
    DrawnByCost {
        probability: f64,
    },
    Cheapest {
        terms: Terms,
    },
    /// Another worker holds much more of the prompt and was passed over all the same: it is
    /// full, or it has more to do and costs so much more time.
    HotSpread {
        holder: WorkerId,
        /// `None` if it is full.
        dearer: Option<Dearer>,
    },
    /// Another worker holds much more of the prompt and was passed over all the same: it has no
    /// more to do than the winner, but what was measured there is slower.
    FasterElsewhere {
        holder: WorkerId,
        more_tokens: u32,
        dearer: Dearer,
    },
    /// The session's last request went there, and the index knows of no better place.
    SameSession,
    /// It had waited, and this slot was the one that suited it.
    FromQueue {
        waited_ms: f64,
        overtaken: u32,
    },
}

impl Reason {
    /// Whether a worker that holds much more of the prompt was passed over.
    pub fn passes_over(&self) -> bool {
        matches!(self, Self::HotSpread { .. } | Self::FasterElsewhere { .. })
    }

    /// In one word, for counting. An interface: dashboards ask for these, and
    /// `docs/observability.md` lists them.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NextInCycle => "next_in_cycle",
            Self::Drawn => "drawn",
            Self::LeastLoaded { .. } => "least_loaded",
            Self::OnlyOne => "only_one",
            Self::LessLoadedOfTwo { .. } => "less_loaded_of_two",
            Self::LowestCost { .. } => "lowest_cost",
            Self::TieAtLowestCost { .. } => "tie_at_lowest_cost",
            Self::DrawnByCost { .. } => "drawn_by_cost",
            Self::Cheapest { .. } => "cheapest",
            Self::HotSpread { .. } => "hot_spread",
            Self::FasterElsewhere { .. } => "faster_elsewhere",
            Self::SameSession => "same_session",
            Self::FromQueue { .. } => "from_queue",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextInCycle => f.write_str("next in the cycle"),
            Self::Drawn => f.write_str("drawn at random"),
            Self::LeastLoaded { in_flight, slots } => {
                write!(f, "least loaded with {in_flight} of {slots} slots taken")
            }
            Self::OnlyOne => f.write_str("the only candidate"),
            Self::LessLoadedOfTwo { other } => {
                write!(f, "drawn with worker {other} and not more loaded")
            }
            Self::LowestCost { cost } => write!(f, "lowest cost {cost:.2}"),
            Self::TieAtLowestCost { cost, tied } => {
                write!(f, "fewest in flight of {tied} at the lowest cost {cost:.2}")
            }
            Self::DrawnByCost { probability } => {
                write!(f, "drawn by cost with probability {probability:.3}")
            }
            Self::Cheapest { terms } => {
                write!(f, "least expected time {:.1} ms ({terms})", terms.total())
            }
            Self::HotSpread {
                holder,
                dearer: Some(dearer),
            } => write!(
                f,
                "hot prefix spread on purpose: worker {holder} holds it but takes {dearer}"
            ),
            Self::HotSpread {
                holder,
                dearer: None,
            } => write!(
                f,
                "hot prefix spread on purpose: worker {holder} holds it but is full"
            ),
            Self::FasterElsewhere {
                holder,
                more_tokens,
                dearer,
            } => write!(
                f,
                "faster elsewhere: worker {holder} holds {more_tokens} tokens more but takes {dearer}"
            ),
            Self::SameSession => {
                f.write_str("the session's last worker, which holds no less than any other")
            }
            Self::FromQueue {
                waited_ms,
                overtaken,
            } => write!(
                f,
                "from the queue after {waited_ms:.1} ms, overtaken {overtaken} times"
            ),
        }
    }
}

/// Where a rotation continues after `last`, over candidates in ascending order of worker.
///
/// By worker and not by position: positions shift when workers join, leave or are skipped,
/// and a counter over them would pass some by and visit others twice.
fn after(last: Option<WorkerId>, candidates: &[Candidate]) -> usize {
    let next = candidates.partition_point(|candidate| Some(candidate.worker) <= last);
    if next == candidates.len() { 0 } else { next }
}

#[cfg(test)]
pub(crate) mod tests {
    //! A candidate to start from in the policies' tables.

    use super::*;
    use crate::learn::{Learner, Priors};

    pub(crate) const REQUEST: RequestView = RequestView {
        prompt_tokens: 3200,
        chain: &[],
        blocks: 100,
        block_size: 32,
        full_holder: None,
        session_worker: None,
    };

    pub(crate) fn idle(worker: u64) -> Candidate {
        Candidate {
            worker: WorkerId(worker),
            slots: 64,
            in_flight: 0,
            overlap_blocks: 0,
            cached_tokens: 0,
            pending_prefill_tokens: 0,
            pending_requests: 0,
            prefill_blocks: 100.0,
            decode_blocks: 0,
            new_blocks: 100,
            total_blocks: 0,
            confirmed_blocks: 0,
            cache_full: false,
            outlook: Learner::new(&Priors::default()).outlook(),
            terms: None,
            cost: None,
        }
    }

    pub(crate) fn busy(worker: u64, in_flight: u32, slots: u32) -> Candidate {
        Candidate {
            in_flight,
            slots,
            ..idle(worker)
        }
    }

    /// The worker that the policy chooses.
    pub(crate) fn choose(
        policy: &mut dyn Policy,
        candidates: &[Candidate],
        draws: &mut Draws,
    ) -> u64 {
        let mut candidates = candidates.to_vec();
        let choice = policy.choose(&REQUEST, &mut candidates, draws);
        candidates[choice.index].worker.0
    }
}
