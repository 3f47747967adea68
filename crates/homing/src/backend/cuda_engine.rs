//! Workers that compute a model on an NVIDIA GPU of this machine.

mod libraries;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use checkpoint::{Checkpoint, ModelConfig};
use contract::{BlockFormat, GpuSpec, ModelName, WorkerCard, WorkerId};
use cuda::{
    CudaExecutor, DeviceOps, DeviceOptions, ExecutorOptions, LoadedWeights, Memory, ModelError,
    ModelOptions, Needs, Ops, OpsError, Speculation,
};
use preprocess::Preprocessor;

use super::{LLAMA, LoadProgress, longest_context};
use crate::plan::{CudaPlan, ModelPlan, REAL_BLOCK};

/// Left free of the GPU's memory: for recorded steps, and for what its libraries take.
const RESERVE: usize = 2 << 30;

/// A model on a GPU and how workers run it.
#[derive(Debug)]
pub(crate) struct Cuda {
    model: ModelName,
    weights: LoadedWeights<<DeviceOps as Ops>::Buffer>,
    options: ExecutorOptions,
    device: DeviceOptions,
    /// As the driver calls it.
    gpu: String,
    gpu_bytes: usize,
    /// Of the device's memory, for each worker.
    worker_bytes: usize,
    /// That were asked for at the start.
    workers: u32,
    is_random: bool,
}

impl Cuda {
    /// Opens the GPU and loads the model that the plan names onto it.
    pub(crate) fn read(
        plan: &CudaPlan,
        model: &ModelPlan,
        workers: u32,
    ) -> anyhow::Result<(Self, Preprocessor)> {
        let path = model.path.as_deref().context(
            "--engine cuda needs a model: --model smollm2 (see `homing model list`), or --model-path",
        )?;
        let device = DeviceOptions {
            gpu: plan.gpu,
            libraries: libraries::folders(plan.libraries.as_deref()),
        };
        let mut ops = open(&device)?;
        let (config, checkpoint) = match plan.random_weights {
            true => (shape(path)?, None),
            false => {
                let checkpoint = Checkpoint::open(path)?;
                (checkpoint.config().clone(), Some(checkpoint))
            }
        };
        cuda::supported(&config).map_err(refused)?;
        let mut options = options(&config, plan)?;
        let files_have_fp8 = checkpoint.as_ref().is_some_and(Checkpoint::has_fp8);
        let storage = plan.storage(files_have_fp8);
        let needs = Needs::of(&config, storage, &options.model);
        let memory = Memory {
            free: ops.free_bytes()?,
            reserve: RESERVE,
            workers: workers as usize,
            cache: plan.kv_cache_mb.map(|megabytes| megabytes << 20),
        };
        options.model.blocks = needs
            .blocks(memory)
            .map_err(|why| refused(format_args!("GPU {}: {why}", plan.gpu)))?;
        let preprocessor = model.preprocessor(options.model.context as u32)?;
        options.vocabulary = Some(Arc::new(preprocessor.grammar_vocabulary()));
        let weights = match &checkpoint {
            None => LoadedWeights::random(&mut ops, &config, storage),
            Some(checkpoint) => {
                let mut progress = LoadProgress::new(path, checkpoint.stored_bytes());
                let mut progress = |bytes| progress.add(bytes);
                LoadedWeights::load(&mut ops, checkpoint, storage, &mut progress)
            }
        };
        let name = model.name.as_deref().unwrap_or(&config.name);
        let cuda = Self {
            model: ModelName::new(name),
            weights: weights.map_err(refused)?,
            worker_bytes: needs.worker(options.model.blocks),
            workers,
            options,
            gpu: ops.name().to_owned(),
            gpu_bytes: ops.total_bytes(),
            device,
            is_random: plan.random_weights,
        };
        Ok((cuda, preprocessor))
    }

    pub(crate) fn model(&self) -> &ModelName {
        &self.model
    }

    /// What it computes on and what its answers are worth, in words.
    pub(crate) fn device(&self) -> String {
        match self.is_random {
            true => format!("{}, random weights", self.gpu),
            false => self.gpu.clone(),
        }
    }

    /// What a number of workers is, in words.
    pub(super) fn describe(&self, workers: u32) -> String {
        let numbers = self.weights.storage();
        let attention = match cuda::has_fast_attention(self.weights.config(), numbers) {
            true => "",
            false => ", attention by the slower kernel for any shape",
        };
        format!(
            "{workers} worker(s) that compute it on GPU {} ({}; weights {:?}, KV cache {:?} of {} tokens each{attention})",
            self.device.gpu,
            self.device(),
            numbers.weights(),
            numbers.cache(),
            self.options.model.blocks * REAL_BLOCK as usize
        )
    }

    /// What a worker computes with. Weights are shared, caches are not.
    pub(crate) fn executor(&self) -> anyhow::Result<CudaExecutor> {
        let ops = open(&self.device)?;
        let free = ops.free_bytes().map_err(refused)?;
        if free < self.worker_bytes {
            return Err(self.no_room(free));
        }
        match CudaExecutor::new(ops, &self.weights, self.options.clone()) {
            Err(ModelError::Ops(OpsError::OutOfMemory { .. })) => Err(self.no_room(free)),
            made => made.map_err(refused),
        }
    }

    /// Without --kv-cache-mb the workers of the start share all memory: one more has none.
    fn no_room(&self, free: usize) -> anyhow::Error {
        refused(format_args!(
            "GPU {} has {} MB free and a worker takes {}: start with --workers {}, or a smaller --kv-cache-mb",
            self.device.gpu,
            free >> 20,
            self.worker_bytes >> 20,
            self.workers + 1
        ))
    }

    pub(super) fn card(&self, id: WorkerId, name: &str) -> WorkerCard {
        let ModelOptions {
            slots,
            step_tokens,
            context,
            blocks,
            ..
        } = self.options.model;
        WorkerCard {
            id,
            name: name.to_owned(),
            model: self.model.clone(),
            blocks: BlockFormat::new(REAL_BLOCK),
            total_blocks: blocks as u32,
            slots: slots as u32,
            max_step_tokens: step_tokens as u32,
            max_context_tokens: context as u32,
            gpu: GpuSpec {
                kind: self.device(),
                count: 1,
                memory_bytes: self.gpu_bytes as u64,
            },
            engine: match self.is_random {
                true => "cuda, random weights".to_owned(),
                false => "cuda".to_owned(),
            },
            simulated: false,
            abilities: LLAMA,
            speculation: self.options.speculation.as_str().to_owned(),
            forwards: Vec::new(),
            adapters: Vec::new(),
        }
    }
}

/// What went wrong, and with which engine.
fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("--engine cuda: {error}")
}

fn open(device: &DeviceOptions) -> anyhow::Result<DeviceOps> {
    cuda::open(device).map_err(refused)
}

/// The shape of a model without its weights.
fn shape(path: &Path) -> anyhow::Result<ModelConfig> {
    let file = path.join("config.json");
    let read = || file.display().to_string();
    let json = std::fs::read(&file).with_context(|| {
        format!(
            "--random-weights needs a folder with config.json: {}",
            read()
        )
    })?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    ModelConfig::from_config_json(&name.to_string_lossy(), &json).with_context(read)
}

fn options(config: &ModelConfig, plan: &CudaPlan) -> anyhow::Result<ExecutorOptions> {
    let rows = match plan.speculation {
        Speculation::None => 1,
        Speculation::Ngram => 1 + plan.draft_tokens,
    };
    Ok(ExecutorOptions {
        model: ModelOptions {
            slots: plan.slots,
            step_tokens: plan.max_step_tokens.max(plan.slots),
            outputs: plan.slots * rows,
            context: longest_context(config, plan.context)?,
            // Replaced when the free memory is known.
            blocks: 0,
        },
        speculation: plan.speculation,
        drafts: plan.draft_tokens,
        adapts: true,
        vocabulary: None,
    })
}
