//! Measures an engine's step times and derives the constants of a profile.
//!
//! The steps are those that a scheduler makes: sequences that decode, a piece of a prompt, and
//! both at once. From their times follow the constants of [`Timing`] that explain them best, so
//! that a simulation can say what a machine would do, and by how much the constants are off.
//!
//! An executor of ours is given the batch of each step ([`ExecutorSteps`]). An engine behind an API
//! makes its own steps; they are read off the times at which its tokens arrive ([`arrivals`]).

pub mod arrivals;
mod fit;
mod profile;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::random::Random;
use contract::{
    Clock, GenerateRequest, HashSeed, OutputLimits, Processors, RequestId, Sampling, TokenId,
};

use crate::block_pool::BlockId;
use crate::executor::{Batch, Executor, ExecutorError, Limits, Phase, Row, SequenceId};
use crate::sim::timing::StepLoad;

pub use self::fit::{Fit, fit};
pub use self::profile::{Facts, Origins, profile};

/// A shorter step is taken again until they took this long together. One alone says little: it
/// may be over before it has to share a core, or wait for one longer than it computes.
const LEAST: Duration = Duration::from_millis(300);
/// Enough of any step, however short.
const MOST: u32 = 64;

/// Ids that every vocabulary has; which they are does not matter to a step's time.
const TOKENS: std::ops::Range<TokenId> = 1..64;

/// One kind of step: what is in its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences that decode.
    pub decoding: usize,
    /// Tokens that each of them has in the cache.
    pub context: usize,
    /// Tokens of a prompt that are computed in the same step.
    pub prefill: usize,
    /// How many of that prompt are in the cache already.
    pub prefilled: usize,
}

/// A kind of step and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    pub shape: Shape,
    pub load: StepLoad,
    /// The median time of such a step.
    pub seconds: f64,
}

impl Shape {
    fn decode(decoding: usize, context: usize) -> Self {
        Self {
            decoding,
            context,
            prefill: 0,
            prefilled: 0,
        }
    }

    fn tokens(&self) -> usize {
        self.decoding + self.prefill
    }

    fn longest(&self) -> usize {
        (self.context + 1).max(self.prefilled + self.prefill)
    }

    /// What a step of this shape has to do.
    pub fn load(&self, limits: &Limits) -> StepLoad {
        StepLoad::of(&Sequences::new(*self, limits).batch())
    }

    fn fits(&self, limits: &Limits) -> bool {
        let prompts = usize::from(self.prefill > 0);
        let blocks = self.decoding * limits.blocks_for(self.context + 1)
            + limits.blocks_for(self.prefilled + self.prefill);
        self.decoding + prompts <= limits.slots as usize
            && self.tokens() <= limits.max_step_tokens as usize
            && self.longest() < limits.max_context_tokens as usize
            && blocks <= limits.total_blocks as usize
    }
}

/// The kinds of steps from which an executor's constants can be fitted, as far as it can run
/// them.
pub fn shapes(limits: &Limits) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for context in [64, 512, 1536] {
        shapes.extend([1, 2, 4, 8, 16, 64].map(|rows| Shape::decode(rows, context)));
    }
    for prefilled in [0, 512, 1536] {
        shapes.extend([8, 16, 32, 64, 128, 256, 1024].map(|prefill| Shape {
            prefill,
            prefilled,
            ..Shape::decode(0, 0)
        }));
    }
    for decoding in [1, 3, 7] {
        shapes.extend([32, 128, 512].map(|prefill| Shape {
            prefill,
            prefilled: 0,
            ..Shape::decode(decoding, 512)
        }));
    }
    shapes.retain(|shape| shape.fits(limits));
    shapes
}

/// The kinds of steps that requests to an engine's API can bring about, as far as it can run them:
/// `answer` is the longest answer that is asked for.
pub fn served_shapes(limits: &Limits, answer: u32) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for context in [512, 2048, 4096] {
        shapes.extend([1, 4, 16, 32, 64].map(|rows| Shape::decode(rows, context)));
        shapes.push(Shape {
            prefill: 1,
            prefilled: context,
            ..Shape::decode(0, 0)
        });
    }
    for prefilled in [0, 2048] {
        shapes.extend([128, 512, 1024, 2048, 4096].map(|prefill| Shape {
            prefill,
            prefilled,
            ..Shape::decode(0, 0)
        }));
    }
    for decoding in [4, 16, 48] {
        shapes.extend([128, 1024, 2048].map(|prefill| Shape {
            prefill,
            prefilled: 0,
            ..Shape::decode(decoding, 512)
        }));
    }
    let with_answers = Limits {
        max_context_tokens: limits.max_context_tokens.saturating_sub(answer),
        // What is not asked for again and again has to stay, and answers take blocks too.
        total_blocks: limits.total_blocks / 10 * 9,
        ..*limits
    };
    shapes.retain(|shape| shape.fits(&with_answers));
    shapes
}

/// Seconds that a step of each shape takes, in an order that the seed decides.
///
/// Workers that are measured side by side with different seeds meet as they do when they serve:
/// one decodes while another reads a prompt. `company` counts those that are not done. Who is
/// done goes on until all are, so that nobody is measured in less company than he began with.
pub async fn measure<E: Executor, P: Fn() -> Processors>(
    steps: &mut ExecutorSteps<'_, E, P>,
    shapes: &[Shape],
    seed: u64,
    company: &AtomicUsize,
) -> Result<Vec<f64>, ExecutorError> {
    let order = order(shapes.len(), seed);
    let mut seconds = vec![0.0; shapes.len()];
    for shape in &order {
        seconds[*shape] = steps.time(&shapes[*shape]).await?;
    }
    company.fetch_sub(1, Ordering::Relaxed);
    for shape in order.iter().cycle() {
        if company.load(Ordering::Relaxed) == 0 {
            break;
        }
        steps.time(&shapes[*shape]).await?;
    }
    Ok(seconds)
}

/// The numbers below `count`, in an order that the seed decides.
pub fn order(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

/// Steps of an executor, which is given their batches.
///
/// `processors` says what the machine had of its processors so far. Times are those of a machine
/// that has them for itself.
#[derive(Debug)]
pub struct ExecutorSteps<'a, E, P> {
    executor: &'a mut E,
    processors: P,
    clock: Clock,
}

impl<'a, E: Executor, P: Fn() -> Processors> ExecutorSteps<'a, E, P> {
    pub fn new(executor: &'a mut E, processors: P) -> Self {
        Self {
            executor,
            processors,
            clock: Clock::start(),
        }
    }
}

impl<E: Executor, P: Fn() -> Processors> ExecutorSteps<'_, E, P> {
    /// Seconds of a step of this shape, on average.
    async fn time(&mut self, shape: &Shape) -> Result<f64, ExecutorError> {
        let sequences = Sequences::new(*shape, &self.executor.limits());
        let (began, before) = (self.clock.now(), (self.processors)());
        let mut steps = 0_u32;
        let took = loop {
            self.executor.step(&sequences.batch()).await?;
            steps += 1;
            let took = self.clock.now() - began;
            if took >= LEAST || steps == MOST {
                break took;
            }
        };
        let had = 1.0 - (self.processors)().share_taken_since(before);
        Ok(took.as_secs_f64() * had / f64::from(steps))
    }
}

/// The middle one of several times.
pub fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
}

/// What a batch of a shape borrows from.
struct Sequences {
    shape: Shape,
    requests: Vec<GenerateRequest>,
    tokens: Vec<TokenId>,
    blocks: Vec<Vec<BlockId>>,
}

impl Sequences {
    fn new(shape: Shape, limits: &Limits) -> Self {
        let lengths = std::iter::repeat_n(shape.context + 1, shape.decoding)
            .chain((shape.prefill > 0).then_some(shape.prefilled + shape.prefill));
        let tokens: Vec<TokenId> = TOKENS.cycle().take(shape.longest()).collect();
        let mut free = 0..limits.total_blocks;
        let (mut requests, mut blocks) = (Vec::new(), Vec::new());
        for length in lengths {
            let needed = limits.blocks_for(length);
            blocks.push(free.by_ref().take(needed).map(BlockId).collect());
            requests.push(request(&tokens[..length], 1));
        }
        Self {
            shape,
            requests,
            tokens,
            blocks,
        }
    }

    fn batch(&self) -> Batch<'_> {
        let shape = self.shape;
        let rows = self.requests.iter().enumerate().map(|(slot, request)| {
            let length = request.prompt.len();
            let decodes = slot < shape.decoding;
            let start = if decodes {
                shape.context
            } else {
                shape.prefilled
            };
            Row {
                sequence: SequenceId(slot as u64),
                slot,
                phase: if decodes {
                    Phase::Decode
                } else {
                    Phase::Prefill
                },
                request,
                tokens: &self.tokens[..length],
                start,
                count: length - start,
                drafts: 0,
                blocks: &self.blocks[slot],
            }
        });
        Batch {
            rows: rows.collect(),
        }
    }
}

/// Asks for exactly so many tokens after these, whichever they are.
pub fn request(tokens: &[TokenId], answer: u32) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("calibration"),
        nonce: 0,
        trace: None,
        prompt: tokens.into(),
        answered: Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: answer,
            min_tokens: answer,
            ignore_eos: true,
            eos_tokens: Arc::default(),
        },
        sampling: Sampling {
            temperature: 0.0,
            ..Sampling::default()
        },
        logprobs: None,
        grammar: None,
    }
}
