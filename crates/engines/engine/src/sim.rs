//! The simulated executor.
//!
//! It computes nothing, but takes the time that a GPU would ([`timing`]) and says things
//! that were really written ([`answers`]). The two are independent: what a request is
//! answered depends on the seed and the request alone, never on the batch around it, so a
//! run can be repeated exactly at any load.
//!
//! [`SimExecutor::simulate`] is pure, for loops with a clock of their own; the [`Executor`]
//! implementation adds only the waiting.

pub mod answers;
mod profile;
pub mod speculation;
#[cfg(test)]
mod tests;
pub mod timing;

use std::sync::Arc;
use std::time::Duration;

use contract::random::mix;
use contract::{GenerateRequest, HashSeed, LocalHash, TokenId};
use smallvec::SmallVec;
use tokio::time::Instant;

use self::answers::Answer;
pub use self::answers::{AnswerBank, AnswerLength};
pub use self::profile::{
    ConstantError, DEFAULT_PROFILE, PUBLISHED_PROFILE, Profile, ProfileError, ProfileFault,
};
pub use self::speculation::Speculation;
use self::timing::StepLoad;
pub use self::timing::{Sharing, Timing};
use crate::executor::{
    Batch, Executor, ExecutorError, Limits, Row, RowOutput, SequenceId, StepOutput,
};

/// Separates the draws for speculation from those for answers.
const SPECULATION_DRAWS: u64 = 0x5bec;

/// A GPU worker that exists only in its timing.
#[derive(Debug)]
pub struct SimExecutor {
    limits: Limits,
    timing: Timing,
    speculation: Speculation,
    lengths: AnswerLength,
    bank: Arc<AnswerBank>,
    seed: u64,
    /// The answer that the sequence in each slot is getting.
    slots: Vec<Option<Speaking>>,
    /// How late the last timer rang.
    late: Duration,
}

#[derive(Debug)]
struct Speaking {
    sequence: SequenceId,
    answer: Answer,
    /// Names the request in random draws.
    stream: u64,
}

impl SimExecutor {
    pub fn new(profile: &Profile, bank: Arc<AnswerBank>, seed: u64) -> Self {
        Self {
            limits: profile.limits(),
            timing: profile.timing,
            speculation: profile.speculation.clone(),
            lengths: profile.answers,
            bank,
            seed,
            slots: (0..profile.slots).map(|_| None).collect(),
            late: Duration::ZERO,
        }
    }

    /// One step: how long it takes and what comes out.
    pub fn simulate(&mut self, batch: &Batch<'_>) -> (Duration, StepOutput) {
        let load = StepLoad::of(batch);
        let output = StepOutput {
            rows: batch.rows.iter().map(|row| self.speak(row)).collect(),
            failed: Vec::new(),
            draft_time: self.timing.draft(&load),
            catch_up_time: Duration::ZERO,
            forward_time: self.timing.forward(&load),
        };
        (self.timing.step(&load), output)
    }

    fn speak(&mut self, row: &Row<'_>) -> RowOutput {
        if !row.samples() {
            return RowOutput::default();
        }
        let speaking = match &mut self.slots[row.slot] {
            Some(speaking) if speaking.sequence == row.sequence => speaking,
            slot => {
                let stream = stream_of(row.request);
                let answer = self
                    .bank
                    .answer(row.request, stream, self.lengths, self.seed);
                slot.insert(Speaking {
                    sequence: row.sequence,
                    answer,
                    stream,
                })
            }
        };
        let position = row.output_position();
        let draws = self.seed ^ SPECULATION_DRAWS;
        let accepted = self.speculation.accepted(row.drafts, |draft| {
            mix(draws, speaking.stream, (position + draft) as u64)
        });
        let mut tokens = SmallVec::<[TokenId; 4]>::new();
        for position in position..=position + accepted {
            let (token, last) = self.bank.token(&speaking.answer, row.request, position);
            tokens.push(token);
            if last {
                break;
            }
        }
        RowOutput {
            tokens,
            logprobs: Vec::new(),
            drafted: row.drafts,
        }
    }

    /// Waits out a step. Timers ring up to a millisecond late; what one step lost the next
    /// makes good, so that simulated time keeps up with the profile.
    async fn wait(&mut self, duration: Duration) {
        if duration.is_zero() {
            return;
        }
        let deadline = Instant::now() + duration.saturating_sub(self.late);
        self.late = self.late.saturating_sub(duration);
        tokio::time::sleep_until(deadline).await;
        self.late += deadline.elapsed();
        // More than a few milliseconds means that the machine is overloaded. Racing to make
        // that good would show speeds that no worker has.
        self.late = self.late.min(MAX_LATE);
    }
}

/// A timer's granularity, twice over.
const MAX_LATE: Duration = Duration::from_millis(2);

impl Executor for SimExecutor {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    async fn step(&mut self, batch: &Batch<'_>) -> Result<StepOutput, ExecutorError> {
        let (duration, output) = self.simulate(batch);
        self.wait(duration).await;
        Ok(output)
    }
}

/// A number that depends on the prompt and the client's seed, and on nothing else.
fn stream_of(request: &GenerateRequest) -> u64 {
    // In pieces that hash without being copied to the heap.
    let pieces = request.prompt.chunks(64);
    let seed = request.sampling.seed.unwrap_or(0);
    pieces.fold(seed, |stream, piece| {
        mix(stream, LocalHash::of(piece, HashSeed::BASE).0, 0)
    })
}
