//! What the scheduler tells its shell: chunks to deliver, milestones to measure, totals to
//! count.

use std::time::Duration;

use contract::{FinishReason, Moment, SpeculationCounts, TokenChunk, TokenSender};

use crate::executor::StepOutput;
use crate::sequence::{Sequence, Timings};

/// Tokens that one step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTotals {
    pub prefill_tokens: usize,
    /// Drafted tokens included.
    pub decode_tokens: usize,
    /// What sequences that come back in this step had computed before they were preempted, and
    /// begin to compute again.
    pub recomputed_tokens: usize,
}

/// Something worth measuring in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Milestone {
    FirstToken {
        /// From when it could join the batch to admission.
        queue_wait: Duration,
        /// From arrival to the first token.
        time_to_first_token: Duration,
    },
    Left {
        /// `None` if the reader left first.
        finish: Option<FinishReason>,
        /// From arrival to now.
        duration: Duration,
        /// Mean time between tokens; `None` with fewer than two.
        time_per_output_token: Option<Duration>,
    },
    /// It could not be computed.
    Failed {
        /// From arrival to now.
        duration: Duration,
    },
}

impl Milestone {
    pub(super) fn first_token(timings: &Timings, now: Moment) -> Self {
        Self::FirstToken {
            queue_wait: timings.queue_wait(),
            time_to_first_token: now - timings.arrival,
        }
    }

    pub(super) fn failed(sequence: &Sequence, now: Moment) -> Self {
        Self::Failed {
            duration: now - sequence.timings.arrival,
        }
    }

    pub(super) fn left(sequence: &Sequence, finish: Option<FinishReason>, now: Moment) -> Self {
        let time_per_output_token = sequence.timings.first_token.and_then(|first_token| {
            let own = sequence
                .generated()
                .checked_sub(sequence.request.answered.len() + 1)?;
            let intervals = u32::try_from(own).ok()?;
            (now - first_token).checked_div(intervals)
        });
        Self::Left {
            finish,
            duration: now - sequence.timings.arrival,
            time_per_output_token,
        }
    }
}

/// Totals since the engine began.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) steps: u64,
    pub(super) step_time: Duration,
    pub(super) preemptions: u64,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) speculation: SpeculationCounts,
}

impl Counters {
    /// Counts a step as a whole, which took `time`.
    pub(super) fn record_step(&mut self, output: &StepOutput, time: Duration) {
        self.steps += 1;
        self.step_time += time;
        self.speculation.draft_time += output.draft_time;
        let longest = output.rows.iter().map(|row| row.drafted).max();
        if let Some(longest) = longest.filter(|&length| length > 0) {
            self.speculation.verify_time += output.forward_time;
            self.speculation.draft_length = u32::try_from(longest).unwrap_or(u32::MAX);
        }
    }

    /// Counts what a step did for one sequence.
    pub(super) fn record_output(&mut self, tokens: usize, drafted: usize, accepted: usize) {
        self.output_tokens += tokens as u64;
        self.speculation.record(drafted, accepted);
    }
}

/// A chunk on its way to its reader.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) chunk: TokenChunk,
    pub(super) recipient: Recipient,
}

#[derive(Debug)]
pub(super) enum Recipient {
    /// The sequence in this slot.
    Running(usize),
    /// A sequence that has left the batch.
    Finished(TokenSender),
}
