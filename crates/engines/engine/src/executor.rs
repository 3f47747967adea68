//! The interface between scheduling and computing.
//!
//! The scheduler decides *what* runs (admission, batching, blocks, prefix reuse) and is
//! shared by every engine. An executor decides *how long it takes and which tokens come
//! out*. If two executors would need it, it belongs in the scheduler.
//!
//! A [`Batch`] borrows everything from the scheduler: building one copies neither tokens nor
//! block tables, so the simulator, which looks at a few numbers of each row, pays almost
//! nothing for the parts that only a GPU needs.

use std::sync::Arc;
use std::time::Duration;

use contract::{GenerateRequest, LinkError, TokenId, TokenLogprob, WorkerId};
use grammar::Vocabulary;
use smallvec::SmallVec;

use crate::block_pool::BlockId;

/// Runs one forward pass: the only thing that differs between simulation and hardware.
pub trait Executor: Send + 'static {
    /// Constant for the executor's life. The worker's card announces the same values.
    fn limits(&self) -> Limits;

    /// For checking a request's grammar before it joins a batch; `None` where answers cannot be
    /// constrained.
    fn vocabulary(&self) -> Option<Arc<Vocabulary>> {
        None
    }

    /// Computes every row of `batch`, and a continuation for each row that
    /// [samples](Row::samples).
    ///
    /// The scheduler guarantees that the batch is not empty, fits
    /// [`limits`](Self::limits), and that calls do not overlap. An error is final: the
    /// engine fails its streams and stops, so implementations need not recover. What goes
    /// wrong with one row only is said in the [output](StepOutput::failed), and nobody else
    /// pays for it.
    fn step(
        &mut self,
        batch: &Batch<'_>,
    ) -> impl Future<Output = Result<StepOutput, ExecutorError>> + Send;
}

/// What an executor can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens per block.
    pub block_size: u32,
    pub total_blocks: u32,
    /// Most sequences in one batch.
    pub slots: u32,
    /// Tokens in one batch, drafted ones included. At least `slots`, so that every running
    /// sequence moves on in every step.
    pub max_step_tokens: u32,
    /// Longest prompt plus answer.
    pub max_context_tokens: u32,
    /// All tokens are below; the largest number where none is too large.
    pub vocabulary: u32,
    /// Most tokens drafted for each decoding sequence; 0 without speculation.
    pub draft_tokens: u32,
    pub drafting: Drafting,
    /// Blocks at the end of a cached prefix that are computed again: 1 where a draft head's state
    /// of a token depends on the token after it, so that the last block fits one continuation
    /// only.
    pub recomputed_blocks: u32,
    /// Steps that a busy engine takes between hearing of a request and letting it join.
    pub intake_steps: u32,
    /// Memory in use on one GPU when the cache is empty.
    pub resident_bytes: u64,
    /// Memory of one block on one GPU.
    pub block_bytes: u64,
}

/// How the scheduler decides how many tokens are drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drafting {
    /// As many as there is room for, in every step. Simulated executors draft so, beside prompts
    /// too: profiles and published figures rest on it.
    EveryStep,
    /// As many as there is room for, in steps without a prompt.
    WithoutPrompts,
    /// As many as pay, in steps without a prompt.
    WherePays,
}

impl Limits {
    /// Blocks that `tokens` tokens take.
    pub fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.block_size as usize)
    }

    /// Refuses what could never run to its end, however long it waited.
    pub fn check(&self, worker: WorkerId, request: &GenerateRequest) -> Result<(), LinkError> {
        let tokens = request.prompt.len() + request.limits.max_tokens as usize;
        let detail = if request.prompt.is_empty() {
            "the prompt is empty".to_owned()
        } else if tokens > self.max_context_tokens as usize {
            format!(
                "{tokens} tokens exceed the context of {}",
                self.max_context_tokens
            )
        } else if let Some(token) = self.unknown(request) {
            format!(
                "token {token} is not in the vocabulary of {}",
                self.vocabulary
            )
        } else if self.blocks_for(tokens) > self.total_blocks as usize {
            format!(
                "{tokens} tokens exceed the memory of {} blocks",
                self.total_blocks
            )
        } else {
            return Ok(());
        };
        Err(LinkError::TooLarge { worker, detail })
    }

    fn unknown(&self, request: &GenerateRequest) -> Option<TokenId> {
        let mut tokens = request.prompt.iter().chain(&*request.answered).copied();
        tokens.find(|token| *token >= self.vocabulary)
    }
}

/// Names a sequence for the life of its engine. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

/// One step's work.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// Decoding sequences first, then prefills, each in order of admission.
    pub rows: Vec<Row<'a>>,
}

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub sequence: SequenceId,
    /// Below [`Limits::slots`] and the sequence's own while it runs, so that an executor
    /// can keep state in an array. A different sequence in the slot replaces the old one.
    pub slot: usize,
    pub phase: Phase,
    pub request: &'a GenerateRequest,
    /// Everything known of the sequence: its prompt, then what it has generated.
    pub tokens: &'a [TokenId],
    /// Where this step begins: tokens before it are in the cache.
    pub start: usize,
    /// Tokens to compute, from `start`.
    pub count: usize,
    /// Tokens to draft behind them and to verify in the same step, at most. A drafter that has
    /// fewer guesses drafts fewer.
    pub drafts: usize,
    /// Where the sequence's cache is; covers `start + count + drafts` tokens.
    pub blocks: &'a [BlockId],
}

impl<'a> Row<'a> {
    /// The tokens to compute.
    pub fn input(&self) -> &'a [TokenId] {
        &self.tokens[self.start..self.start + self.count]
    }

    /// Whether the step reaches the end of what is known, so that a token comes out.
    pub fn samples(&self) -> bool {
        self.start + self.count == self.tokens.len()
    }

    /// How many tokens the sequence has generated before this step.
    pub fn output_position(&self) -> usize {
        self.tokens.len() - self.request.prompt.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Computing tokens that were known when the sequence was admitted.
    Prefill,
    /// Computing the token that the last step produced.
    Decode,
}

/// What a step produced.
#[derive(Clone, Debug, Default)]
pub struct StepOutput {
    /// One for each row of the batch, in its order.
    pub rows: Vec<RowOutput>,
    /// Rows that could not be computed, in ascending order; their outputs are empty.
    pub failed: Vec<FailedRow>,
    /// What of the step went into making drafts and keeping the drafter up to date.
    pub draft_time: Duration,
    /// What of [`draft_time`](Self::draft_time) went into tokens of earlier steps without drafts.
    /// Drafting in every step would not cost it.
    pub catch_up_time: Duration,
    /// The target's forward pass.
    pub forward_time: Duration,
}

/// A row that came to nothing, through what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRow {
    /// Its place in the batch.
    pub row: usize,
    pub detail: String,
}

#[derive(Clone, Debug, Default)]
pub struct RowOutput {
    /// The accepted drafts and one more token; empty if the row does not sample. Ends at
    /// the latest with the first end-of-text token that counts.
    pub tokens: SmallVec<[TokenId; 4]>,
    /// Parallel to `tokens`, or empty.
    pub logprobs: Vec<TokenLogprob>,
    /// Tokens that were drafted: no more than the row asked for.
    pub drafted: usize,
}

impl StepOutput {
    /// Holds an executor to its side of the contract, so that a faulty one stops the engine
    /// instead of leaving sequences that never move.
    pub fn check(self, batch: &Batch<'_>) -> Result<Self, ExecutorError> {
        let mut failed = self.failed.iter().map(|failed| failed.row).peekable();
        let fits = |(index, (row, output)): (usize, (&Row<'_>, &RowOutput))| {
            let came_to_nothing = failed.next_if_eq(&index).is_some();
            let expected = if row.samples() && !came_to_nothing {
                1..=1 + output.drafted
            } else {
                0..=0
            };
            output.drafted <= row.drafts && expected.contains(&output.tokens.len())
        };
        let mut rows = batch.rows.iter().zip(&self.rows).enumerate();
        let all_fit = self.rows.len() == batch.rows.len() && rows.all(fits);
        if all_fit && failed.next().is_none() {
            Ok(self)
        } else {
            Err(ExecutorError::Malformed)
        }
    }
}

/// Why an executor cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("the device failed: {detail}")]
    Device { detail: String },
    #[error("the step's output does not match its batch")]
    Malformed,
}
