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
mod constrained;
mod profile;
pub mod speculation;
#[cfg(test)]
mod tests;
pub mod timing;

use std::sync::Arc;
use std::time::Duration;

use contract::random::mix;
use contract::{GenerateRequest, HashSeed, LocalHash, TokenId};
use grammar::{GrammarError, SlotMatchers, Vocabulary};
use smallvec::SmallVec;
use tokio::time::Instant;

use self::answers::Answer;
pub use self::answers::{AnswerBank, AnswerLength};
use self::constrained::{ClosingTokens, NextToken};
pub use self::profile::{
    ConstantError, DEFAULT_PROFILE, PUBLISHED_PROFILE, Profile, ProfileError, ProfileFault,
};
pub use self::speculation::Speculation;
use self::timing::StepLoad;
pub use self::timing::{Sharing, Timing};
use crate::executor::{
    Batch, Executor, ExecutorError, FailedRow, Limits, Row, RowOutput, SequenceId, StepOutput,
};

/// Separates the draws for speculation from those for answers.
const SPECULATION_DRAWS: u64 = 0x5bec;

/// Separates the draws of constrained answers from all others.
const GRAMMAR_DRAWS: u64 = 0x96a3;

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
    matchers: SlotMatchers,
    closing: ClosingTokens,
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
            matchers: SlotMatchers::default(),
            closing: ClosingTokens::default(),
            late: Duration::ZERO,
        }
    }

    /// Constrains answers to the grammars of their requests.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: Arc<Vocabulary>) -> Self {
        self.matchers = SlotMatchers::new(Some(Arc::clone(&vocabulary)));
        self.closing = ClosingTokens::new(vocabulary);
        self
    }

    /// One step: how long it takes and what comes out.
    pub fn simulate(&mut self, batch: &Batch<'_>) -> (Duration, StepOutput) {
        let load = StepLoad::of(batch);
        let mut failed = Vec::new();
        let mut rows = Vec::with_capacity(batch.rows.len());
        for (index, row) in batch.rows.iter().enumerate() {
            rows.push(self.speak(row).unwrap_or_else(|error| {
                let detail = error.to_string();
                failed.push(FailedRow { row: index, detail });
                RowOutput::default()
            }));
        }
        let (step_time, draft_time) = (self.timing.step(&load), self.timing.draft(&load));
        let output = StepOutput {
            rows,
            failed,
            draft_time,
            catch_up_time: Duration::ZERO,
            forward_time: step_time.saturating_sub(draft_time),
        };
        (step_time, output)
    }

    fn speak(&mut self, row: &Row<'_>) -> Result<RowOutput, GrammarError> {
        if !row.samples() {
            return Ok(RowOutput::default());
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
        let answer = &row.tokens[row.request.prompt.len()..];
        let sequence = row.sequence.0;
        let mut follower = self
            .matchers
            .follow(row.slot, sequence, row.request, answer)?;
        let mut tokens = SmallVec::<[TokenId; 4]>::new();
        for position in position..=position + accepted {
            let (mut token, mut last) = self.bank.token(&speaking.answer, row.request, position);
            if let Some(follower) = &mut follower {
                let draw = mix(self.seed ^ GRAMMAR_DRAWS, speaking.stream, position as u64);
                let limits = &row.request.limits;
                let next = NextToken {
                    wanted: token,
                    ends: &limits.eos_tokens,
                    draw,
                    position,
                };
                token = self.closing.choose(follower.matcher(), &next)?;
                follower.consume(token)?;
                last = limits.may_stop(position) && limits.eos_tokens.contains(&token);
            }
            tokens.push(token);
            if last {
                break;
            }
        }
        Ok(RowOutput {
            tokens,
            logprobs: Vec::new(),
            drafted: row.drafts,
        })
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

    fn vocabulary(&self) -> Option<Arc<Vocabulary>> {
        self.matchers.vocabulary().cloned()
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
