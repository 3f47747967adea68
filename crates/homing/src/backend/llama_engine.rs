//! Workers that compute a model on this machine's processor.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use checkpoint::{Checkpoint, HeadFiles};
use contract::{BlockFormat, GpuSpec, ModelName, WorkerCard, WorkerId};
use llama::{
    DraftSource, ExecutorOptions, Isa, LlamaExecutor, LoadedHead, LoadedWeights, Model,
    ModelOptions,
};
use preprocess::Preprocessor;

use super::{LLAMA, LoadProgress, longest_context};
use crate::plan::{DraftPlan, LlamaPlan, ModelPlan};

/// A model and how workers run it.
#[derive(Debug)]
pub(crate) struct Llama {
    model: ModelName,
    weights: LoadedWeights,
    options: ExecutorOptions,
}

impl Llama {
    /// Opens the model that the plan names and loads its weights.
    pub(crate) fn read(
        plan: &LlamaPlan,
        model: &ModelPlan,
        block_size: u32,
        workers: u32,
    ) -> anyhow::Result<(Self, Preprocessor)> {
        let path = model.path.as_deref().context(
            "--engine llama needs a model: --model smollm2 (see `homing model list`), or --model-path",
        )?;
        let checkpoint = Checkpoint::open(path)?;
        let speculation = draft_source(&plan.drafts, path, &checkpoint)?;
        let sizes = Sizes {
            block_size: block_size as usize,
            workers: workers as usize,
        };
        let mut options = options(&checkpoint, plan, sizes, speculation)?;
        check_memory(&checkpoint, &options, workers)?;
        let preprocessor = model.preprocessor(options.model.context as u32)?;
        options.vocabulary = Some(Arc::new(preprocessor.grammar_vocabulary()));
        let mut progress = LoadProgress::new(path, checkpoint.stored_bytes());
        let weights = LoadedWeights::load(&checkpoint, &mut |bytes| progress.add(bytes))?;
        let name = model.name.as_deref().unwrap_or(&checkpoint.config().name);
        let llama = Llama {
            model: ModelName::new(name),
            weights,
            options,
        };
        Ok((llama, preprocessor))
    }

    pub(crate) fn model(&self) -> &ModelName {
        &self.model
    }

    pub(crate) fn options(&self) -> &ExecutorOptions {
        &self.options
    }

    /// What a number of workers is, in words.
    pub(super) fn describe(&self, workers: u32) -> String {
        let ModelOptions { threads, isa, .. } = &self.options.model;
        format!(
            "{workers} worker(s) that compute it on the CPU ({threads} thread(s) each, {})",
            isa.as_str()
        )
    }

    /// What a worker computes with. Each has a cache of its own, for which there must be memory:
    /// workers may be added while others are busy.
    pub(crate) fn executor(&self) -> anyhow::Result<LlamaExecutor> {
        let ExecutorOptions {
            model, speculation, ..
        } = &self.options;
        let block = Model::block_bytes(self.weights.config(), model.block_size)
            + speculation.block_bytes(model.block_size);
        if let Some(available) = available_memory() {
            fit((model.blocks * block) as u64, available)?;
        }
        Ok(LlamaExecutor::new(&self.weights, self.options.clone())?)
    }

    pub(super) fn card(&self, id: WorkerId, name: &str) -> WorkerCard {
        let ExecutorOptions {
            slots,
            model,
            speculation,
            ..
        } = &self.options;
        let cache = Model::block_bytes(self.weights.config(), model.block_size) * model.blocks;
        WorkerCard {
            id,
            name: name.to_owned(),
            model: self.model.clone(),
            blocks: BlockFormat::new(model.block_size as u32),
            total_blocks: model.blocks as u32,
            slots: *slots as u32,
            max_step_tokens: model.step_tokens as u32,
            max_context_tokens: model.context as u32,
            gpu: GpuSpec {
                kind: format!("CPU thread ({})", model.isa.as_str()),
                count: model.threads as u32,
                memory_bytes: (self.weights.bytes() + cache) as u64,
            },
            engine: "llama".to_owned(),
            simulated: false,
            abilities: LLAMA,
            speculation: speculation.as_str().to_owned(),
            forwards: Vec::new(),
            adapters: Vec::new(),
        }
    }
}

/// Where drafts come from; it must fit the model.
fn draft_source(plan: &DraftPlan, path: &Path, target: &Checkpoint) -> anyhow::Result<DraftSource> {
    Ok(match plan {
        DraftPlan::None => DraftSource::None,
        DraftPlan::Ngram => DraftSource::Ngram,
        DraftPlan::Model(draft_path) => {
            let draft = Checkpoint::open(draft_path)?;
            let opened = |path, checkpoint| Opened { path, checkpoint };
            same_vocabulary(opened(path, target), opened(draft_path, &draft))?;
            DraftSource::Model(LoadedWeights::load(&draft, &mut |_| ())?)
        }
        DraftPlan::Eagle3(folder) => {
            let head = HeadFiles::open(folder)?;
            DraftSource::Eagle3(LoadedHead::load(&head, target.config())?)
        }
    })
}

/// A model and where it was found.
#[derive(Clone, Copy)]
struct Opened<'a> {
    path: &'a Path,
    checkpoint: &'a Checkpoint,
}

impl Opened<'_> {
    fn vocabulary(self) -> anyhow::Result<serde_json::Value> {
        let json = match self.checkpoint.tokenizer()? {
            Some(text) => text.tokenizer_json,
            None => {
                let path = self.path.join("tokenizer.json");
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?
            }
        };
        let mut json: serde_json::Value = serde_json::from_str(&json)?;
        Ok(json["model"]["vocab"].take())
    }
}

/// A draft in another vocabulary would guess words that are not meant.
fn same_vocabulary(target: Opened<'_>, draft: Opened<'_>) -> anyhow::Result<()> {
    if target.vocabulary()? != draft.vocabulary()? {
        bail!(
            "--draft-model {} has a different vocabulary than {}",
            draft.path.display(),
            target.path.display()
        );
    }
    if draft.checkpoint.config().vocabulary > target.checkpoint.config().vocabulary {
        bail!(
            "--draft-model {} has more tokens in its vocabulary than the model",
            draft.path.display()
        );
    }
    Ok(())
}

/// What the engine does not decide itself.
struct Sizes {
    block_size: usize,
    workers: usize,
}

fn options(
    checkpoint: &Checkpoint,
    plan: &LlamaPlan,
    sizes: Sizes,
    speculation: DraftSource,
) -> anyhow::Result<ExecutorOptions> {
    let shape = checkpoint.config();
    let Sizes {
        block_size,
        workers,
    } = sizes;
    let context = longest_context(shape, plan.context)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let block_bytes = Model::block_bytes(shape, block_size) + speculation.block_bytes(block_size);
    let blocks = (plan.kv_cache_mb << 20) / block_bytes;
    if blocks * block_size < context {
        bail!(
            "--kv-cache-mb {} holds {} tokens, less than one context of {context}: raise it, or lower --context",
            plan.kv_cache_mb,
            blocks * block_size
        );
    }
    let (drafts, slots) = (plan.draft_tokens as usize, plan.slots as usize);
    Ok(ExecutorOptions {
        slots,
        model: ModelOptions {
            block_size,
            blocks,
            step_tokens: plan.max_step_tokens.max(slots),
            outputs: slots * (1 + drafts),
            context,
            threads: plan
                .threads
                .map_or((cores / workers).max(1), |threads| threads as usize),
            isa: Isa::detect(),
            taps: Vec::new(),
        },
        speculation,
        drafts,
        adapts: true,
        vocabulary: None,
    })
}

/// Fails at start if the model and its cache do not fit into this machine's memory.
fn check_memory(
    checkpoint: &Checkpoint,
    options: &ExecutorOptions,
    workers: u32,
) -> anyhow::Result<()> {
    let Some(available) = available_memory() else {
        return Ok(());
    };
    let size = options.model.block_size;
    let block =
        Model::block_bytes(checkpoint.config(), size) + options.speculation.block_bytes(size);
    let cache = (options.model.blocks * block) as u64 * u64::from(workers);
    let weights = LoadedWeights::bytes_of(checkpoint);
    if weights + cache > available {
        bail!(
            "{} MB of weights and {} MB of KV cache for {workers} worker(s) do not fit into the {} MB of free memory: lower --kv-cache-mb",
            weights >> 20,
            cache >> 20,
            available >> 20
        );
    }
    Ok(())
}

/// Refuses one more worker's cache where there is no memory for it.
fn fit(cache: u64, available: u64) -> anyhow::Result<()> {
    if cache > available {
        bail!(
            "the {} MB of KV cache of another worker do not fit into the {} MB of free memory: lower --kv-cache-mb",
            cache >> 20,
            available >> 20
        );
    }
    Ok(())
}

/// Free memory as Linux reports it; `None` elsewhere.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_workers_cache_must_fit_into_free_memory() {
        assert!(fit(1 << 30, 1 << 30).is_ok());
        let error = fit(1 << 30, 1 << 29).unwrap_err().to_string();
        assert!(
            error.contains("1024 MB") && error.contains("512 MB"),
            "{error}"
        );
    }
}
