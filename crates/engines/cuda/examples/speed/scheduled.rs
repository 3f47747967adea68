//! Steps through the scheduler and the executor, as a worker runs them: each sequence has blocks of its
//! own, each token is drawn and goes to its stream. And how long a checkpoint takes to be loaded.

use std::path::Path;
use std::sync::Arc;

use checkpoint::{Checkpoint, ModelConfig};
use contract::{
    Clock, GenerateRequest, HashSeed, NamedOptions, OutputLimits, Penalties, RequestId, Sampling,
    TokenId, WorkerId, token_stream,
};
use cuda::ops::{Ops, PAGE_TOKENS};
use cuda::weights::CacheDtype;
use cuda::{
    CudaExecutor, ExecutorOptions, LoadedWeights, Memory, ModelOptions, Needs, Speculation, Storage,
};
use engine::{Executor, Scheduler, Submission};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::shape::Shape;

type AnyError = Box<dyn std::error::Error>;

/// Left free, as `homing worker` leaves it.
const RESERVE: usize = 2 << 30;
const STORAGE: Storage = Storage::Fp8 {
    cache: CacheDtype::Fp8,
};
/// Tokens of each answer. With the largest batch, prompts are computed for half of them.
const ANSWER: u32 = 96;
/// Steps of the whole batch that are not counted: they try ways of products, and are recorded.
const FIRST_STEPS: usize = 8;

/// What is measured.
pub(crate) struct Plan<'a> {
    pub(crate) batches: &'a [usize],
    /// Tokens that each sequence has in the middle of its answer.
    pub(crate) context: usize,
    /// A prompt by itself.
    pub(crate) prompt: usize,
    /// Most tokens of a step, and of a sequence.
    pub(crate) most: usize,
}

/// Measures a shape with random weights; `open` opens the device.
pub(crate) fn measure<O: Ops + 'static>(
    open: impl FnMut() -> Result<O, AnyError>,
    shape: &Shape,
    plan: &Plan<'_>,
    say: &mut dyn FnMut(&Value),
) -> Result<(), AnyError> {
    let mut worker = Worker::start(open, shape, plan, say)?;
    let run = Run {
        sequences: 1,
        prompt: plan.prompt,
        answer: 1,
        sampling: &likeliest(),
    };
    worker.run(&run)?;
    let first: Result<Vec<f64>, _> = (0..5)
        .map(|_| worker.run(&run).map(|(_, first)| first))
        .collect();
    say(&json!({
        "shape": shape.name,
        "scheduled": true,
        "prompt": plan.prompt,
        "first_token_ms_p50": percentile(&first?, 50),
    }));
    let kinds = [
        ("likeliest", likeliest()),
        ("top_p 0.9, top_k 50", sampled()),
    ];
    for (draws, sampling) in &kinds {
        for batch in plan.batches {
            let run = Run {
                sequences: *batch,
                prompt: plan.context - ANSWER as usize / 2,
                answer: ANSWER,
                sampling,
            };
            let (steps, _) = worker.run(&run)?;
            let steps = steps.get(FIRST_STEPS..).unwrap_or_default();
            say(&json!({
                "shape": shape.name,
                "scheduled": true,
                "draws": draws,
                "batch": batch,
                "context": plan.context,
                "steps": steps.len(),
                "step_ms_p50": percentile(steps, 50),
                "step_ms_p95": percentile(steps, 95),
            }));
        }
    }
    Ok(())
}

/// How long it takes until a checkpoint's weights are on the device.
pub(crate) fn load<O: Ops>(ops: &mut O, folder: &Path) -> Result<Value, AnyError> {
    let begun = Instant::now();
    let checkpoint = Checkpoint::open(folder)?;
    let stored = checkpoint.stored_bytes();
    let weights = LoadedWeights::load(ops, &checkpoint, STORAGE, &mut |_| {})?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(json!({
        "checkpoint_bytes": stored,
        "weight_bytes": weights.bytes(),
        "loaded_in_s": seconds,
        "gb_s": stored as f64 / seconds / 1e9,
    }))
}

/// Requests that begin together.
struct Run<'a> {
    sequences: usize,
    prompt: usize,
    answer: u32,
    sampling: &'a Sampling,
}

struct Worker {
    executor: CudaExecutor,
    scheduler: Scheduler,
    clock: Clock,
    runtime: tokio::runtime::Runtime,
    vocabulary: u32,
    /// No two prompts are alike.
    seed: u64,
}

impl Worker {
    /// With all memory that the weights leave for keys and values.
    fn start<O: Ops + 'static>(
        mut open: impl FnMut() -> Result<O, AnyError>,
        shape: &Shape,
        plan: &Plan<'_>,
        say: &mut dyn FnMut(&Value),
    ) -> Result<Self, AnyError> {
        let config = ModelConfig::from_config_json(shape.name, shape.json().as_bytes())?;
        let slots = plan.batches.iter().copied().max().unwrap_or(1);
        let mut model = ModelOptions {
            slots,
            step_tokens: plan.most,
            outputs: slots,
            context: plan.most,
            blocks: 0,
        };
        let mut ops = open()?;
        model.blocks = Needs::of(&config, STORAGE, &model).blocks(Memory {
            free: ops.free_bytes()?,
            reserve: RESERVE,
            workers: 1,
            cache: None,
        })?;
        let begun = Instant::now();
        let weights = LoadedWeights::random(&mut ops, &config, STORAGE)?;
        say(&json!({
            "shape": shape.name,
            "scheduled": true,
            "weight_bytes": weights.bytes(),
            "kv_cache_tokens": model.blocks * PAGE_TOKENS,
            "made_in_s": begun.elapsed().as_secs_f64(),
        }));
        let options = ExecutorOptions {
            model,
            speculation: Speculation::None,
            drafts: 0,
            adapts: false,
            vocabulary: None,
        };
        let begun = Instant::now();
        let executor = CudaExecutor::new(open()?, &weights, options)?;
        say(&json!({
            "shape": shape.name,
            "scheduled": true,
            // The device is opened, memory allocated, and ways of products searched.
            "started_in_s": begun.elapsed().as_secs_f64(),
        }));
        Ok(Self {
            scheduler: Scheduler::new(WorkerId(0), executor.limits()),
            executor,
            clock: Clock::start(),
            runtime: tokio::runtime::Builder::new_current_thread().build()?,
            vocabulary: config.vocabulary as u32,
            seed: 0,
        })
    }

    /// Milliseconds of each step in which all sequences decoded, and until the first step was over that
    /// drew for any.
    fn run(&mut self, run: &Run<'_>) -> Result<(Vec<f64>, f64), AnyError> {
        let mut streams = Vec::new();
        let begun = Instant::now();
        for _ in 0..run.sequences {
            let (sender, stream) = token_stream(WorkerId(0));
            self.seed += 1;
            let prompt = random_tokens(self.seed, run.prompt, self.vocabulary);
            self.scheduler.submit(Submission {
                request: request(prompt, run),
                sender,
                arrival: self.clock.now(),
            })?;
            streams.push(stream);
        }
        let (mut steps, mut first) = (Vec::new(), None);
        let mut last = Instant::now();
        while let Some(batch) = self.scheduler.plan(self.clock.now()) {
            let all_decode = batch.rows.len() == run.sequences
                && batch.rows.iter().all(|row| row.count == 1 && row.samples());
            let draws = batch.rows.iter().any(engine::Row::samples);
            let output = self.runtime.block_on(self.executor.step(&batch))?;
            let output = output.check(&batch)?;
            self.scheduler.commit(output, self.clock.now());
            self.scheduler.deliver();
            for stream in &mut streams {
                while let Some(chunk) = stream.try_next() {
                    chunk?;
                }
            }
            if draws && first.is_none() {
                first = Some(begun.elapsed().as_secs_f64() * 1e3);
            }
            if all_decode {
                steps.push(last.elapsed().as_secs_f64() * 1e3);
            }
            last = Instant::now();
        }
        Ok((steps, first.unwrap_or_default()))
    }
}

fn request(prompt: Vec<TokenId>, run: &Run<'_>) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("speed"),
        nonce: 1,
        trace: None,
        prompt: prompt.into(),
        answered: Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: run.answer,
            min_tokens: 0,
            ignore_eos: true,
            eos_tokens: Arc::default(),
        },
        sampling: run.sampling.clone(),
        logprobs: None,
        grammar: None,
    }
}

fn likeliest() -> Sampling {
    Sampling {
        temperature: 0.0,
        ..Sampling::default()
    }
}

fn sampled() -> Sampling {
    Sampling {
        temperature: 1.0,
        top_p: 0.9,
        top_k: Some(50),
        min_p: 0.0,
        penalties: Penalties::default(),
        seed: Some(7),
        logit_bias: Arc::default(),
        named: NamedOptions::default(),
    }
}

fn random_tokens(seed: u64, count: usize, vocabulary: u32) -> Vec<TokenId> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % vocabulary
    };
    (0..count).map(|_| next()).collect()
}

fn percentile(numbers: &[f64], percent: usize) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or_default()
}
