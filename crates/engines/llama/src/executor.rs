//! The engine's executor that really computes.
//!
//! A thread of its own owns the model; the asynchronous side hands it one step at a time as
//! plain data and waits. Buffers travel back and forth and are used again.

mod drafting;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};
use std::thread;

use contract::{GenerateRequest, TokenId};
use engine::executor::SequenceId;
use engine::{Batch, Drafting, Executor, ExecutorError, Limits, StepOutput};
use grammar::Vocabulary;
use tokio::sync::oneshot;

use self::steps::Steps;
use crate::eagle3::LoadedHead;
use crate::model::{LoadedWeights, Model, ModelOptions};
use crate::weights::WeightsError;

/// How drafts are made.
#[derive(Clone, Debug, Default)]
pub enum DraftSource {
    #[default]
    None,
    /// What followed the same tokens earlier in the text.
    Ngram,
    /// A smaller model with the same vocabulary.
    Model(LoadedWeights),
    /// A head for this model.
    Eagle3(LoadedHead),
}

impl DraftSource {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ngram => "ngram",
            Self::Model(_) => "draft",
            Self::Eagle3(_) => "eagle3",
        }
    }

    /// Memory that it takes of each block, beside the model's own.
    pub fn block_bytes(&self, block_size: usize) -> usize {
        match self {
            Self::None | Self::Ngram => 0,
            Self::Model(weights) => Model::block_bytes(weights.config(), block_size),
            Self::Eagle3(head) => head.block_bytes(block_size),
        }
    }
}

/// How a worker runs its model.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    pub slots: usize,
    /// Its taps are set for the head, where there is one.
    pub model: ModelOptions,
    pub speculation: DraftSource,
    /// Most tokens drafted for a sequence in a step.
    pub drafts: usize,
    /// Whether the scheduler asks for fewer where they do not pay.
    pub adapts: bool,
    /// For constrained output; none without.
    pub vocabulary: Option<Arc<Vocabulary>>,
}

/// A step on its way to the thread.
#[derive(Debug)]
struct Job {
    input: StepInput,
    reply: oneshot::Sender<(StepInput, StepOutput)>,
}

/// What the thread must know of a batch, without borrowing from the scheduler.
#[derive(Debug, Default)]
struct StepInput {
    /// All tokens of all rows that sample, and the new ones of the others.
    tokens: Vec<TokenId>,
    blocks: Vec<u32>,
    rows: Vec<RowInput>,
}

#[derive(Debug)]
struct RowInput {
    sequence: SequenceId,
    slot: usize,
    /// Its tokens in [`StepInput::tokens`], known from position `known_from` on.
    first: usize,
    length: usize,
    known_from: usize,
    /// The token after those to compute, in the middle of a prompt.
    next: TokenId,
    start: usize,
    count: usize,
    drafts: usize,
    first_block: usize,
    block_count: usize,
    /// What it is to say; none in the middle of a prefill.
    request: Option<GenerateRequest>,
}

/// A model behind the engine's seam.
#[derive(Debug)]
pub struct LlamaExecutor {
    limits: Limits,
    vocabulary: Option<Arc<Vocabulary>>,
    jobs: mpsc::Sender<Job>,
    /// Kept between steps for its memory.
    spare: StepInput,
}

impl LlamaExecutor {
    /// Makes a model of the weights and starts its thread.
    pub fn new(
        weights: &LoadedWeights,
        mut options: ExecutorOptions,
    ) -> Result<Self, WeightsError> {
        let mut recomputed_blocks = 0;
        if let DraftSource::Eagle3(head) = &options.speculation {
            options.model.taps = head.taps().to_vec();
            recomputed_blocks = 1;
        }
        let model = Model::new(weights, options.model.clone())?;
        let shape = &options.model;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let draft_tokens = match options.speculation {
            DraftSource::None => 0,
            DraftSource::Ngram | DraftSource::Model(_) | DraftSource::Eagle3(_) => options.drafts,
        };
        let block_bytes = Model::block_bytes(model.config(), shape.block_size)
            + options.speculation.block_bytes(shape.block_size);
        let limits = Limits {
            block_size: number(shape.block_size),
            total_blocks: number(shape.blocks),
            slots: number(options.slots),
            max_step_tokens: number(shape.step_tokens),
            max_context_tokens: number(shape.context),
            vocabulary: number(model.config().vocabulary),
            draft_tokens: number(draft_tokens),
            drafting: match options.adapts {
                true => Drafting::WherePays,
                false => Drafting::WithoutPrompts,
            },
            recomputed_blocks,
            intake_steps: 0,
            resident_bytes: model.weight_bytes() as u64,
            block_bytes: block_bytes as u64,
        };
        let vocabulary = options.vocabulary.clone();
        let (jobs, inbox) = mpsc::channel::<Job>();
        let mut steps = Steps::new(model, &options)?;
        thread::Builder::new()
            .name("llama-0".to_owned())
            .spawn(move || {
                for Job { input, reply } in inbox {
                    let output = steps.run(&input);
                    // Nobody waits once the engine is gone.
                    let _ = reply.send((input, output));
                }
            })
            .map_err(WeightsError::Threads)?;
        Ok(Self {
            limits,
            vocabulary,
            jobs,
            spare: StepInput::default(),
        })
    }
}

impl StepInput {
    fn fill(&mut self, batch: &Batch<'_>) {
        self.tokens.clear();
        self.blocks.clear();
        self.rows.clear();
        for row in &batch.rows {
            let (first, first_block) = (self.tokens.len(), self.blocks.len());
            // Only who says something needs to know what was said.
            let known_from = if row.samples() { 0 } else { row.start };
            let tokens = &row.tokens[known_from..row.start + row.count];
            self.tokens.extend_from_slice(tokens);
            self.blocks.extend(row.blocks.iter().map(|block| block.0));
            self.rows.push(RowInput {
                sequence: row.sequence,
                slot: row.slot,
                first,
                length: tokens.len(),
                known_from,
                next: row.tokens.get(row.start + row.count).copied().unwrap_or(0),
                start: row.start,
                count: row.count,
                drafts: row.drafts,
                first_block,
                block_count: self.blocks.len() - first_block,
                request: row.samples().then(|| row.request.clone()),
            });
        }
    }

    /// What is known of a row's tokens.
    fn tokens_of(&self, row: &RowInput) -> &[TokenId] {
        &self.tokens[row.first..row.first + row.length]
    }

    fn blocks_of(&self, row: &RowInput) -> &[u32] {
        &self.blocks[row.first_block..row.first_block + row.block_count]
    }
}

impl Executor for LlamaExecutor {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn vocabulary(&self) -> Option<Arc<Vocabulary>> {
        self.vocabulary.clone()
    }

    async fn step(&mut self, batch: &Batch<'_>) -> Result<StepOutput, ExecutorError> {
        let gone = || ExecutorError::Device {
            detail: "the thread that computes has ended".to_owned(),
        };
        let mut input = std::mem::take(&mut self.spare);
        input.fill(batch);
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job { input, reply }).map_err(|_| gone())?;
        let (input, output) = answer.await.map_err(|_| gone())?;
        self.spare = input;
        Ok(output)
    }
}
