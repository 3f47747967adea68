//! The engine's executor on a GPU.
//!
//! A thread of its own owns the model, because it waits for the device; the asynchronous side hands
//! it one step at a time as plain data. Of a sequence's tokens it is given the new ones and the
//! answer: prompts stay where they are. The thread ends before its executor is gone: the driver must
//! not be called once the process has begun to end.

mod steps;
#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use contract::{GenerateRequest, TokenId};
use engine::executor::SequenceId;
use engine::{Batch, Drafting, Executor, ExecutorError, Limits, StepOutput};
use grammar::Vocabulary;
use tokio::sync::oneshot;

use self::steps::Steps;
use crate::model::{Model, ModelError, ModelOptions};
use crate::ops::{Ops, OpsError, PAGE_TOKENS};
use crate::weights::LoadedWeights;

/// How drafts are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speculation {
    #[default]
    None,
    /// What followed the same tokens earlier in the text.
    Ngram,
}

impl Speculation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ngram => "ngram",
        }
    }
}

/// How a worker runs its model.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    pub model: ModelOptions,
    pub speculation: Speculation,
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
    reply: oneshot::Sender<(StepInput, Result<StepOutput, OpsError>)>,
}

/// What the thread must know of a batch, without borrowing from the scheduler.
#[derive(Debug, Default)]
struct StepInput {
    /// New tokens of all rows, and answers of those that sample.
    tokens: Vec<TokenId>,
    blocks: Vec<u32>,
    rows: Vec<RowInput>,
}

#[derive(Debug)]
struct RowInput {
    sequence: SequenceId,
    slot: usize,
    /// Its new tokens in [`StepInput::tokens`]; its answer is behind them.
    first: usize,
    count: usize,
    answered: usize,
    start: usize,
    drafts: usize,
    first_block: usize,
    block_count: usize,
    /// What it is to say; none in the middle of a prefill.
    request: Option<GenerateRequest>,
}

impl StepInput {
    fn fill(&mut self, batch: &Batch<'_>) {
        self.tokens.clear();
        self.blocks.clear();
        self.rows.clear();
        for row in &batch.rows {
            let (first, first_block) = (self.tokens.len(), self.blocks.len());
            self.tokens.extend_from_slice(row.input());
            let answer = match row.samples() {
                true => &row.tokens[row.request.prompt.len()..],
                false => &[],
            };
            self.tokens.extend_from_slice(answer);
            self.blocks.extend(row.blocks.iter().map(|block| block.0));
            self.rows.push(RowInput {
                sequence: row.sequence,
                slot: row.slot,
                first,
                count: row.count,
                answered: answer.len(),
                start: row.start,
                drafts: row.drafts,
                first_block,
                block_count: self.blocks.len() - first_block,
                request: row.samples().then(|| row.request.clone()),
            });
        }
    }

    /// A row's tokens to compute.
    fn new_tokens(&self, row: &RowInput) -> &[TokenId] {
        &self.tokens[row.first..][..row.count]
    }

    /// What a row has answered, if it samples.
    fn answer(&self, row: &RowInput) -> &[TokenId] {
        &self.tokens[row.first + row.count..][..row.answered]
    }

    fn blocks_of(&self, row: &RowInput) -> &[u32] {
        &self.blocks[row.first_block..][..row.block_count]
    }
}

/// A model on a device behind the engine's seam.
#[derive(Debug)]
pub struct CudaExecutor {
    limits: Limits,
    vocabulary: Option<Arc<Vocabulary>>,
    /// Until this is dropped.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Kept between steps for its memory.
    spare: StepInput,
}

impl CudaExecutor {
    /// Makes a model of the weights and starts its thread.
    pub fn new<O: Ops + 'static>(
        ops: O,
        weights: &LoadedWeights<O::Buffer>,
        options: ExecutorOptions,
    ) -> Result<Self, ModelError> {
        let model = Model::new(ops, weights, options.model)?;
        let limits = limits(&model, &options);
        let vocabulary = options.vocabulary.clone();
        let (jobs, inbox) = mpsc::channel::<Job>();
        let mut steps = Steps::new(model, &options);
        let thread = thread::Builder::new()
            .name("cuda-0".to_owned())
            .spawn(move || {
                for Job { input, reply } in inbox {
                    let output = steps.run(&input);
                    let failed = output.is_err();
                    // Nobody waits once the engine is gone.
                    let _ = reply.send((input, output));
                    if failed {
                        break;
                    }
                }
            })
            .map_err(ModelError::Thread)?;
        Ok(Self {
            limits,
            vocabulary,
            jobs: Some(jobs),
            thread: Some(thread),
            spare: StepInput::default(),
        })
    }
}

impl Drop for CudaExecutor {
    /// Waits for a step that is being computed, and for the device's memory to be given back. A thread
    /// left alone might still call the driver while the process unloads it.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It panicked, which has been reported by then.
            let _ = thread.join();
        }
    }
}

fn limits<O: Ops>(model: &Model<O>, options: &ExecutorOptions) -> Limits {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    let shape = model.options();
    Limits {
        block_size: number(PAGE_TOKENS),
        total_blocks: number(model.blocks()),
        slots: number(shape.slots),
        max_step_tokens: number(shape.step_tokens),
        max_context_tokens: number(shape.context),
        vocabulary: number(model.config().vocabulary),
        draft_tokens: match options.speculation {
            Speculation::None => 0,
            Speculation::Ngram => number(options.drafts),
        },
        drafting: match options.adapts {
            true => Drafting::WherePays,
            false => Drafting::WithoutPrompts,
        },
        recomputed_blocks: 0,
        intake_steps: 0,
        resident_bytes: model.weight_bytes() as u64,
        block_bytes: model.block_bytes() as u64,
    }
}

impl Executor for CudaExecutor {
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
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Job { input, reply }).map_err(|_| gone())?;
        let (input, output) = answer.await.map_err(|_| gone())?;
        self.spare = input;
        output.map_err(|error| ExecutorError::Device {
            detail: error.to_string(),
        })
    }
}
