//! What computes in this process's workers: the simulator, or a model.

mod llama_engine;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use checkpoint::Checkpoint;
use contract::{ModelName, WorkerCard, WorkerId};
use engine::sim::{AnswerBank, Profile, SimExecutor};
use preprocess::{PreprocessConfig, Preprocessor, Vocabulary};
use transport::Member;
use worker::{Worker, WorkerContext};

pub(crate) use self::llama_engine::Llama;
use crate::args::{EngineChoice, LlamaArgs, ModelArgs};
use crate::simulation;

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

impl Backend {
    /// Reads profile or model, and what turns text into its tokens.
    pub(crate) fn read(asked: Asked<'_>) -> anyhow::Result<(Self, Preprocessor)> {
        match asked.llama.engine {
            EngineChoice::Simulated => simulated(asked),
            EngineChoice::Llama => {
                let (llama, preprocessor) = Llama::read(asked)?;
                Ok((Self::Llama(Box::new(llama)), preprocessor))
            }
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
            Self::Llama(llama) => llama.model(),
        }
    }

    pub(crate) fn block_size(&self) -> u32 {
        match self {
            Self::Simulated(simulated) => simulated.profile.block_size,
            Self::Llama(llama) => llama.block_size(),
        }
    }

    /// Unless the user says otherwise.
    pub(crate) fn workers(&self) -> u32 {
        match self {
            Self::Simulated(simulated) => simulated.profile.workers,
            Self::Llama(_) => llama_engine::WORKERS,
        }
    }

    /// What a number of workers is, in words.
    pub(crate) fn describe(&self, workers: u32) -> String {
        match self {
            Self::Simulated(simulated) => {
                format!("{workers} SIMULATED workers ({})", simulated.profile.name)
            }
            Self::Llama(llama) => llama.describe(workers),
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
            Self::Llama(llama) => Worker::start(card, llama.executor()?, context),
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
        parse_specials_in_content: args.parse_special_tokens_in_content,
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

/// What the options call the model; a path is no name.
fn told_name(args: &ModelArgs) -> Option<&str> {
    let named = args.model.as_deref();
    let named = named.filter(|name| !Path::new(name).exists());
    args.model_name.as_deref().or(named)
}

/// The name of the model that the options tell of: what they call it, or what a GGUF file calls
/// itself. A folder may have no more than a tokenizer.
pub(crate) fn model_name(args: &ModelArgs) -> anyhow::Result<Option<ModelName>> {
    if let Some(name) = told_name(args) {
        return Ok(Some(ModelName::new(name)));
    }
    Ok(match model_path(args)? {
        Some(path) if path.is_file() => {
            Some(ModelName::new(&Checkpoint::open(&path)?.config().name))
        }
        Some(_) | None => None,
    })
}

fn model_path(args: &ModelArgs) -> anyhow::Result<Option<PathBuf>> {
    Ok(match (&args.model_path, &args.model) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(name)) => Some(crate::model::store()?.resolve(name)?.path),
        (None, None) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_name() {
        let told = |model_name: Option<&str>, model: &str| {
            let args = ModelArgs {
                model_name: model_name.map(str::to_owned),
                model_path: None,
                model: Some(model.to_owned()),
                parse_special_tokens_in_content: false,
                tokenizer_cache_bytes: 0,
            };
            told_name(&args).map(str::to_owned)
        };
        let path = env!("CARGO_MANIFEST_DIR");
        assert_eq!(told(None, "smollm2").as_deref(), Some("smollm2"));
        assert_eq!(told(None, path), None);
        assert_eq!(told(Some("mine"), path).as_deref(), Some("mine"));
    }
}
