//! What computes in this process's workers: the simulator, or a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use contract::{GpuSpec, Hashing, ModelName, WorkerCard, WorkerId};
use engine::sim::{AnswerBank, Profile, SimExecutor};
use llama::{
    Checkpoint, DraftSource, ExecutorOptions, HeadFiles, Isa, LlamaExecutor, LoadedHead, LoadedWeights,
    Model, ModelOptions,
};
use preprocess::{PreprocessConfig, Preprocessor, Vocabulary};
use transport::Member;
use worker::{Worker, WorkerContext};

use crate::args::{EngineChoice, LlamaArgs, ModelArgs, SpeculationChoice};
use crate::{print, simulation};

/// What the options say of workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) profile: &'a str,
    pub(crate) seed: u64,
    pub(crate) block_size: Option<u32>,
    pub(crate) model: &'a ModelArgs,
    pub(crate) llama: &'a LlamaArgs,
    /// How many share this machine; by default the backend's own number.
    pub(crate) workers: Option<u32>,
}

/// How every worker of this process is built.
#[derive(Debug)]
pub(crate) enum Backend {
    Simulated(Box<Simulated>),
    Llama(Box<Llama>),
}

#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) profile: Profile,
    answers: Arc<AnswerBank>,
    seed: u64,
}

#[derive(Debug)]
pub(crate) struct Llama {
    model: ModelName,
    weights: LoadedWeights,
    options: ExecutorOptions,
}

/// Workers of a real engine, unless told otherwise: enough for routing to matter.
const LLAMA_WORKERS: u32 = 3;
/// Contexts are cut here unless told otherwise: memory grows with them.
const LLAMA_CONTEXT: usize = 8192;
/// Tokens to a block of a real engine.
const LLAMA_BLOCK: u32 = 32;

impl Backend {
    /// Reads profile or model, and what turns text into its tokens.
    pub(crate) fn read(asked: Asked<'_>) -> anyhow::Result<(Self, Preprocessor)> {
        match asked.llama.engine {
            EngineChoice::Simulated => simulated(asked),
            EngineChoice::Llama => real(asked),
        }
    }

    /// The profile, if this is a simulation.
    pub(crate) fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Simulated(simulated) => Some(&simulated.profile),
            Self::Llama(_) => None,
        }
    }

    pub(crate) fn model(&self) -> &ModelName {
        match self {
            Self::Simulated(simulated) => &simulated.profile.model,
            Self::Llama(llama) => &llama.model,
        }
    }

    pub(crate) fn block_size(&self) -> u32 {
        match self {
            Self::Simulated(simulated) => simulated.profile.block_size,
            Self::Llama(llama) => llama.options.model.block_size as u32,
        }
    }

    /// Unless the user says otherwise.
    pub(crate) fn workers(&self) -> u32 {
        match self {
            Self::Simulated(simulated) => simulated.profile.workers,
            Self::Llama(_) => LLAMA_WORKERS,
        }
    }

    /// What a number of workers is, in words.
    pub(crate) fn describe(&self, workers: u32) -> String {
        match self {
            Self::Simulated(simulated) => {
                format!("{workers} SIMULATED workers ({})", simulated.profile.name)
            }
            Self::Llama(llama) => {
                let threads = llama.options.model.threads;
                format!(
                    "{workers} worker(s) that compute it on the CPU ({threads} thread(s) each, {})",
                    llama.options.model.isa.as_str()
                )
            }
        }
    }

    /// What a worker announces.
    pub(crate) fn card(&self, id: WorkerId, name: &str) -> WorkerCard {
        match self {
            Self::Simulated(simulated) => simulated.profile.card(id, name),
            Self::Llama(llama) => llama.card(id, name),
        }
    }

    /// Starts a worker.
    pub(crate) fn start(
        &self,
        card: WorkerCard,
        context: &WorkerContext,
    ) -> anyhow::Result<(Worker, Member)> {
        Ok(match self {
            Self::Simulated(simulated) => {
                let Simulated {
                    profile,
                    answers,
                    seed,
                } = &**simulated;
                let executor = SimExecutor::new(profile, Arc::clone(answers), *seed);
                Worker::start(card, executor, context)
            }
            Self::Llama(llama) => {
                let executor = LlamaExecutor::new(&llama.weights, llama.options.clone())?;
                Worker::start(card, executor, context)
            }
        })
    }
}

fn simulated(asked: Asked<'_>) -> anyhow::Result<(Backend, Preprocessor)> {
    let mut profile = simulation::profile(asked.profile)?;
    if let Some(block_size) = asked.block_size {
        profile = profile.with_block_size(block_size);
    }
    if let Some(name) = &asked.model.model_name {
        profile.model = ModelName::new(name);
    }
    if asked.model.model.is_some() {
        bail!("--model names what a real engine computes: add --engine llama");
    }
    let preprocessor = preprocessor(asked.model, profile.max_context_tokens)?;
    let answers = simulation::answers(&preprocessor)?;
    let simulated = Simulated {
        profile,
        answers,
        seed: asked.seed,
    };
    Ok((Backend::Simulated(Box::new(simulated)), preprocessor))
}

/// Text and tokens of the model that the options name, or of the one that comes with the program.
pub(crate) fn preprocessor(
    args: &ModelArgs,
    max_context_tokens: u32,
) -> anyhow::Result<Preprocessor> {
    let config = PreprocessConfig {
        max_context_tokens,
        cache_bytes: args.tokenizer_cache_bytes,
        ..PreprocessConfig::default()
    };
    let Some(path) = model_path(args)? else {
        return Ok(Preprocessor::embedded(config));
    };
    if path.is_dir() {
        return Ok(Preprocessor::from_dir(&path, config)?);
    }
    let text = Checkpoint::open(&path)?.tokenizer()?;
    let text = text.with_context(|| format!("{} has no tokenizer", path.display()))?;
    let vocabulary = Vocabulary {
        tokenizer_json: &text.tokenizer_json,
        chat_template: text.chat_template.as_deref(),
        bos: text.bos.as_deref(),
        add_bos: text.add_bos,
        eos: &text.eos,
    };
    Ok(Preprocessor::from_vocabulary(&path, &vocabulary, config)?)
}

fn real(asked: Asked<'_>) -> anyhow::Result<(Backend, Preprocessor)> {
    let path = model_path(asked.model)?.context(
        "--engine llama needs a model: --model smollm2 (see `homing model list`), or --model-path",
    )?;
    let checkpoint = Checkpoint::open(&path)?;
    let speculation = draft_source(asked.llama, (&path, &checkpoint))?;
    let options = options(&checkpoint, asked, speculation)?;
    check_memory(
        &checkpoint,
        &options,
        asked.workers.unwrap_or(LLAMA_WORKERS),
    )?;
    let preprocessor = preprocessor(asked.model, options.model.context as u32)?;
    let total = checkpoint.stored_bytes();
    let mut done = 0;
    let mut told = 0;
    let weights = LoadedWeights::load(&checkpoint, &mut |bytes| {
        done += bytes;
        let percent = 100 * done / total.max(1);
        // Large models take a while; small ones are there before a line is read.
        if percent >= told + 20 && total > LARGE_MODEL {
            told = percent;
            print::note(format_args!("loading {}: {percent} %", path.display()));
        }
    })?;
    let named = asked
        .model
        .model
        .as_ref()
        .filter(|name| !Path::new(name).exists());
    let name = asked.model.model_name.as_ref().or(named);
    let name = name.unwrap_or(&checkpoint.config().name);
    let llama = Llama {
        model: ModelName::new(name),
        weights,
        options,
    };
    Ok((Backend::Llama(Box::new(llama)), preprocessor))
}

/// Loading is announced from here on.
const LARGE_MODEL: u64 = 500 << 20;

fn model_path(args: &ModelArgs) -> anyhow::Result<Option<PathBuf>> {
    Ok(match (&args.model_path, &args.model) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(name)) => Some(crate::model::store()?.resolve(name)?.path),
        (None, None) => None,
    })
}

/// Where guesses come from; whatever it is must fit the model.
fn draft_source(
    args: &LlamaArgs,
    (path, target): (&Path, &Checkpoint),
) -> anyhow::Result<DraftSource> {
    let named = || {
        let name = args.draft_model.as_ref();
        let name = name.context("--speculation draft and eagle3 need --draft-model")?;
        anyhow::Ok(crate::model::store()?.resolve(name)?.path)
    };
    if args.draft_model.is_some()
        && matches!(args.speculation, SpeculationChoice::None | SpeculationChoice::Ngram)
    {
        bail!("--draft-model is for --speculation draft or eagle3");
    }
    Ok(match args.speculation {
        SpeculationChoice::None => DraftSource::None,
        SpeculationChoice::Ngram => DraftSource::Ngram,
        SpeculationChoice::Draft => {
            let draft_path = named()?;
            let draft = Checkpoint::open(&draft_path)?;
            same_vocabulary((path, target), (&draft_path, &draft))?;
            DraftSource::Model(LoadedWeights::load(&draft, &mut |_| ())?)
        }
        SpeculationChoice::Eagle3 => {
            let head = HeadFiles::open(&named()?)?;
            DraftSource::Eagle3(LoadedHead::load(&head, target.config())?)
        }
    })
}

/// A draft in another vocabulary would guess words that are not meant.
fn same_vocabulary(
    target: (&Path, &Checkpoint),
    draft: (&Path, &Checkpoint),
) -> anyhow::Result<()> {
    let pieces = |(path, checkpoint): (&Path, &Checkpoint)| -> anyhow::Result<serde_json::Value> {
        let json = match checkpoint.tokenizer()? {
            Some(text) => text.tokenizer_json,
            None => {
                let path = path.join("tokenizer.json");
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?
            }
        };
        let mut json: serde_json::Value = serde_json::from_str(&json)?;
        Ok(json["model"]["vocab"].take())
    };
    if pieces(target)? != pieces(draft)? {
        bail!(
            "--draft-model {} has another vocabulary than {}",
            draft.0.display(),
            target.0.display()
        );
    }
    if draft.1.config().vocabulary > target.1.config().vocabulary {
        bail!("--draft-model {} knows more tokens than the model", draft.0.display());
    }
    Ok(())
}

fn options(
    checkpoint: &Checkpoint,
    asked: Asked<'_>,
    speculation: DraftSource,
) -> anyhow::Result<ExecutorOptions> {
    let (args, shape) = (asked.llama, checkpoint.config());
    let context = match args.context {
        Some(context) if context > shape.context => bail!(
            "--context {context} is more than the {} tokens that {} was made for",
            shape.context,
            shape.name
        ),
        Some(context) => context,
        None => shape.context.min(LLAMA_CONTEXT),
    };
    let block_size = asked.block_size.unwrap_or(LLAMA_BLOCK) as usize;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = asked.workers.unwrap_or(LLAMA_WORKERS) as usize;
    let block_bytes =
        Model::block_bytes(shape, block_size) + speculation.block_bytes(block_size);
    let blocks = (args.kv_cache_mb << 20) / block_bytes;
    if blocks * block_size < context {
        bail!(
            "--kv-cache-mb {} holds {} tokens, less than one context of {context}: give more, or a smaller --context",
            args.kv_cache_mb,
            blocks * block_size
        );
    }
    let (drafts, slots) = (args.draft_tokens as usize, args.slots as usize);
    Ok(ExecutorOptions {
        slots,
        model: ModelOptions {
            block_size,
            blocks,
            step_tokens: args.max_step_tokens.max(slots),
            outputs: slots * (1 + drafts),
            context,
            threads: args
                .threads
                .map_or((cores / workers).max(1), |threads| threads as usize),
            isa: Isa::detect(),
            taps: Vec::new(),
        },
        speculation,
        drafts,
    })
}

/// Refuses what this machine cannot hold, while there is still somebody to tell.
fn check_memory(
    checkpoint: &Checkpoint,
    options: &ExecutorOptions,
    workers: u32,
) -> anyhow::Result<()> {
    let Some(available) = available_memory() else {
        return Ok(());
    };
    let size = options.model.block_size;
    let block = Model::block_bytes(checkpoint.config(), size) + options.speculation.block_bytes(size);
    let cache = (options.model.blocks * block) as u64 * u64::from(workers);
    let weights = checkpoint.stored_bytes();
    if weights + cache > available {
        bail!(
            "{} MB of weights and {} MB of KV cache for {workers} worker(s) do not fit into the {} MB of memory that are free: see --kv-cache-mb",
            weights >> 20,
            cache >> 20,
            available >> 20
        );
    }
    Ok(())
}

/// As Linux tells it; nothing elsewhere.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

impl Llama {
    fn card(&self, id: WorkerId, name: &str) -> WorkerCard {
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
            block_size: model.block_size as u32,
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
            logprobs: true,
            speculation: speculation.as_str().to_owned(),
            hashing: Hashing::default(),
        }
    }
}
