//! Turns a model card into a worker's card, or refuses the worker.

use std::path::{Path, PathBuf};

use contract::{
    Abilities, BlockFormat, GpuSpec, HASH_VERSION, Hashing, ModelName, WorkerCard, WorkerId,
};

use crate::registration::{EndpointName, Model, ModelCard, RuntimeConfig};

/// vLLM's defaults, for workers that do not report theirs.
const DEFAULT_SLOTS: u64 = 256;
const DEFAULT_STEP_TOKENS: u64 = 8192;
/// The device of a worker that computes on a GPU, whichever it is.
const SOME_GPU: &str = "cuda";

/// Which files a model's text is prepared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFiles {
    /// The folder from which the worker loaded them, if it reports one. It need not exist on
    /// this machine.
    pub folder: Option<PathBuf>,
}

impl ModelFiles {
    pub(crate) fn of(card: &ModelCard) -> Self {
        let local = |path: &str| path.starts_with('/').then(|| PathBuf::from(path));
        let source = card.source_path.as_deref().and_then(local);
        let tokenizer = card.tokenizer.as_ref();
        let tokenizer = tokenizer
            .and_then(|tokenizer| {
                tokenizer
                    .as_object()?
                    .values()
                    .next()?
                    .get("path")?
                    .as_str()
            })
            .and_then(local);
        Self {
            folder: source.or_else(|| tokenizer?.parent().map(Path::to_owned)),
        }
    }
}

/// Why a worker cannot serve our requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnsupportedWorker {
    #[error("it takes `{0}`, not tokens")]
    Input(String),
    #[error("it serves `{0}`, not text")]
    Output(String),
    #[error("it is a `{0}` worker; only `aggregated` ones are served")]
    Role(String),
    #[error("it needs other workers to serve a request")]
    NeedsOthers,
    #[error("it has {0} data-parallel ranks; register each rank as a worker of its own")]
    DataParallel(u32),
    #[error("it does not report how many tokens a block has")]
    NoBlockSize,
    #[error("`{0}` takes no requests over TCP or NATS")]
    NoPlane(EndpointName),
    #[error("it takes requests over NATS: set --nats on this frontend")]
    RequestsOverNats,
    #[error("it publishes its cache events over NATS: set --nats on this frontend")]
    EventsOverNats,
}

/// `pod` is the pod that has registered it, and nobody else.
pub(crate) fn worker_card(
    model: &Model,
    device: Option<&str>,
    pod: Option<&str>,
) -> Result<WorkerCard, UnsupportedWorker> {
    let card = &model.card;
    check(card)?;
    let config = &card.runtime_config;
    let simulated = config.runtime_data.contains_key("output_replay_consumer");
    let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(WorkerCard {
        id: WorkerId(model.instance),
        // Metrics of GPUs name pods.
        name: match pod {
            Some(pod) => pod.to_owned(),
            None => format!("{}-{:x}", model.name.component, model.instance),
        },
        model: ModelName::new(&card.display_name),
        blocks: BlockFormat {
            size: card.kv_cache_block_size,
            hashing: Hashing {
                version: HASH_VERSION,
                lookahead: u32::from(config.enable_eagle),
            },
        },
        total_blocks: clamp(config.total_kv_blocks.unwrap_or(0)),
        slots: clamp(config.max_num_seqs.unwrap_or(DEFAULT_SLOTS)).max(1),
        max_step_tokens: clamp(config.max_num_batched_tokens.unwrap_or(DEFAULT_STEP_TOKENS)),
        max_context_tokens: context(card).unwrap_or(u32::MAX),
        gpu: GpuSpec {
            kind: device
                .filter(|device| *device != SOME_GPU)
                .unwrap_or_default()
                .to_owned(),
            count: 1,
            memory_bytes: 0,
        },
        engine: if simulated { "dynamo mocker" } else { "dynamo" }.to_owned(),
        simulated,
        abilities: abilities(simulated),
        speculation: if config.enable_eagle {
            "eagle3"
        } else {
            "none"
        }
        .to_owned(),
        forwards: Vec::new(),
        adapters: Vec::new(),
    })
}

/// Its simulated workers, the mocker, have no distribution to report.
pub fn abilities(simulated: bool) -> Abilities {
    Abilities {
        logprobs: !simulated,
        ..Abilities::default()
    }
}

fn check(card: &ModelCard) -> Result<(), UnsupportedWorker> {
    let speaks = |kind: &str| card.model_type.split('|').any(|word| word.trim() == kind);
    let RuntimeConfig {
        data_parallel_size, ..
    } = card.runtime_config;
    if card.model_input != "Tokens" {
        return Err(UnsupportedWorker::Input(card.model_input.clone()));
    }
    if !speaks("Chat") && !speaks("Completions") {
        return Err(UnsupportedWorker::Output(card.model_type.clone()));
    }
    if let Some(kind) = card.worker_type.as_deref()
        && kind != "aggregated"
    {
        return Err(UnsupportedWorker::Role(kind.to_owned()));
    }
    if !card.needs.is_empty() {
        return Err(UnsupportedWorker::NeedsOthers);
    }
    if let Some(size) = data_parallel_size
        && size > 1
    {
        return Err(UnsupportedWorker::DataParallel(size));
    }
    if card.kv_cache_block_size == 0 {
        return Err(UnsupportedWorker::NoBlockSize);
    }
    Ok(())
}

/// The longest prompt plus answer. On this wire zero means unknown.
fn context(card: &ModelCard) -> Option<u32> {
    [
        card.runtime_config.context_length,
        card.context_length,
        card.architectural_max_context_length,
    ]
    .into_iter()
    .flatten()
    .find(|&length| length > 0)
}
