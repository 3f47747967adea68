//! What computes and what is served, resolved.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use checkpoint::Checkpoint;
use contract::ModelName;
use engine::sim::Profile;
use preprocess::{PreprocessConfig, Preprocessor, TemplateFile, Vocabulary};

use super::CudaPlan;
use crate::args::{EngineArgs, EngineChoice, ModelArgs, SpeculationChoice};
use crate::model;

/// Tokens per block of a real engine.
pub(crate) const REAL_BLOCK: u32 = 32;
/// Workers of a real engine on a processor: enough for routing to matter.
const LLAMA_WORKERS: u32 = 3;
/// Workers on a GPU: one uses all of its memory.
const CUDA_WORKERS: u32 = 1;
/// What a processor computes at once without making its sequences wait.
const LLAMA_SLOTS: u32 = 8;
const LLAMA_KV_CACHE_MB: usize = 1024;
const LLAMA_STEP_TOKENS: u32 = 256;

/// How every worker of a process is built.
#[derive(Clone, Debug)]
pub(crate) struct BackendPlan {
    pub(crate) engine: EnginePlan,
    pub(crate) model: ModelPlan,
    pub(crate) block_size: u32,
    /// How many share this machine.
    pub(crate) workers: u32,
}

/// What a command says about its workers.
pub(super) struct BackendOptions<'a> {
    pub(super) engine: &'a EngineArgs,
    pub(super) model: &'a ModelArgs,
    pub(super) profile: &'a str,
    pub(super) seed: u64,
    pub(super) block_size: Option<u32>,
    pub(super) workers: Option<u32>,
}

impl BackendOptions<'_> {
    pub(super) fn resolve(self) -> anyhow::Result<BackendPlan> {
        match self.engine.engine {
            EngineChoice::Simulated => self.simulated(),
            EngineChoice::Llama => Ok(BackendPlan {
                engine: EnginePlan::Llama(self.engine.llama()?),
                model: self.model.resolve()?,
                block_size: self.block_size.unwrap_or(REAL_BLOCK),
                workers: self.workers.unwrap_or(LLAMA_WORKERS),
            }),
            EngineChoice::Cuda => {
                if let Some(size) = self.block_size.filter(|size| *size != REAL_BLOCK) {
                    bail!(
                        "--kv-cache-block-size {size}: --engine cuda has blocks of {REAL_BLOCK} tokens"
                    );
                }
                Ok(BackendPlan {
                    engine: EnginePlan::Cuda(self.engine.cuda()?),
                    model: self.model.resolve()?,
                    block_size: REAL_BLOCK,
                    workers: self.workers.unwrap_or(CUDA_WORKERS),
                })
            }
        }
    }

    fn simulated(self) -> anyhow::Result<BackendPlan> {
        self.engine.check_engine()?;
        if self.model.model.is_some() {
            bail!("--model is for a real engine: add --engine llama or --engine cuda");
        }
        let mut profile = Profile::find(self.profile)?;
        if let Some(block_size) = self.block_size {
            profile = profile.with_block_size(block_size);
        }
        if let Some(name) = &self.model.model_name {
            profile.model = ModelName::new(name);
        }
        Ok(BackendPlan {
            block_size: profile.block_size,
            workers: self.workers.unwrap_or(profile.workers),
            engine: EnginePlan::Simulated(Box::new(SimulationPlan {
                profile,
                seed: self.seed,
            })),
            model: self.model.resolve()?,
        })
    }
}

/// What computes.
#[derive(Clone, Debug)]
pub(crate) enum EnginePlan {
    Simulated(Box<SimulationPlan>),
    Llama(LlamaPlan),
    Cuda(CudaPlan),
}

#[derive(Clone, Debug)]
pub(crate) struct SimulationPlan {
    pub(crate) profile: Profile,
    pub(crate) seed: u64,
}

/// A real model on this machine's CPU.
#[derive(Clone, Debug)]
pub(crate) struct LlamaPlan {
    /// Of each worker; by default the machine's, divided among them.
    pub(crate) threads: Option<u32>,
    pub(crate) slots: u32,
    pub(crate) kv_cache_mb: usize,
    pub(crate) context: Option<usize>,
    pub(crate) max_step_tokens: usize,
    pub(crate) drafts: DraftPlan,
    pub(crate) draft_tokens: u32,
}

/// How tokens are drafted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DraftPlan {
    None,
    Ngram,
    /// By a smaller model with the same vocabulary.
    Model(PathBuf),
    /// By a head that was trained for the model.
    Eagle3(PathBuf),
}

impl EngineArgs {
    /// Refuses options of another engine, which would have no effect.
    pub(super) fn check_engine(&self) -> anyhow::Result<()> {
        let is_cuda = self.engine == EngineChoice::Cuda;
        for (option, is_given) in self.cuda_options() {
            if is_given && !is_cuda {
                bail!("{option} is for --engine cuda");
            }
        }
        if is_cuda && self.threads.is_some() {
            bail!("--threads is for --engine llama");
        }
        Ok(())
    }

    pub(crate) fn llama(&self) -> anyhow::Result<LlamaPlan> {
        self.check_engine()?;
        Ok(LlamaPlan {
            threads: self.threads,
            slots: self.slots.unwrap_or(LLAMA_SLOTS),
            kv_cache_mb: self.kv_cache_mb.unwrap_or(LLAMA_KV_CACHE_MB),
            context: self.context,
            max_step_tokens: self.max_step_tokens.unwrap_or(LLAMA_STEP_TOKENS) as usize,
            drafts: self.drafts()?,
            draft_tokens: self.draft_tokens,
        })
    }

    fn drafts(&self) -> anyhow::Result<DraftPlan> {
        let named = || {
            let name = self.draft_model.as_ref();
            let name = name.context("--speculation draft and eagle3 need --draft-model")?;
            anyhow::Ok(model::store()?.resolve(name)?.path)
        };
        Ok(match self.speculation {
            SpeculationChoice::None | SpeculationChoice::Ngram if self.draft_model.is_some() => {
                bail!("--draft-model is for --speculation draft or eagle3")
            }
            SpeculationChoice::None => DraftPlan::None,
            SpeculationChoice::Ngram => DraftPlan::Ngram,
            SpeculationChoice::Draft => DraftPlan::Model(named()?),
            SpeculationChoice::Eagle3 => DraftPlan::Eagle3(named()?),
        })
    }
}

/// The model's files and name.
#[derive(Clone, Debug)]
pub(crate) struct ModelPlan {
    /// What the options call it; a path is no name.
    pub(crate) name: Option<String>,
    /// A folder or a GGUF file.
    pub(crate) path: Option<PathBuf>,
    preprocess: PreprocessConfig,
}

impl ModelArgs {
    pub(crate) fn resolve(&self) -> anyhow::Result<ModelPlan> {
        Ok(ModelPlan {
            name: self.name().map(str::to_owned),
            path: match (&self.model_path, &self.model) {
                (Some(path), _) => Some(path.clone()),
                (None, Some(name)) => Some(model::store()?.resolve(name)?.path),
                (None, None) => None,
            },
            preprocess: PreprocessConfig {
                cache_bytes: self.tokenizer_cache_bytes,
                parse_specials_in_content: self.parse_special_tokens_in_content,
                template: self
                    .chat_template
                    .as_deref()
                    .map(template_file)
                    .transpose()?,
                tool_format: self.tool_call_parser,
                reasoning_format: self.reasoning_parser,
                ..PreprocessConfig::default()
            },
        })
    }

    fn name(&self) -> Option<&str> {
        let named = self.model.as_deref();
        let named = named.filter(|name| !Path::new(name).exists());
        self.model_name.as_deref().or(named)
    }
}

fn template_file(path: &Path) -> anyhow::Result<TemplateFile> {
    let source = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read --chat-template {}", path.display()))?;
    Ok(TemplateFile {
        path: path.to_owned(),
        source,
    })
}

impl ModelPlan {
    /// What the options call it, or what a GGUF file calls itself. A folder may have no more
    /// than a tokenizer.
    pub(crate) fn served_name(&self) -> anyhow::Result<Option<ModelName>> {
        Ok(match (&self.name, &self.path) {
            (Some(name), _) => Some(ModelName::new(name)),
            (None, Some(path)) if path.is_file() => {
                Some(ModelName::new(&Checkpoint::open(path)?.config().name))
            }
            (None, Some(_) | None) => None,
        })
    }

    /// Whether the options say which model it is.
    pub(crate) fn is_named(&self) -> bool {
        self.path.is_some() || self.name.is_some()
    }

    /// The name of the folder that it is read from.
    pub(crate) fn folder_name(&self) -> anyhow::Result<ModelName> {
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.context("the model has no name: give it one with --model-name")?;
        Ok(ModelName::new(name))
    }

    /// Text and tokens of the model, or of the vocabulary that comes with the program.
    pub(crate) fn preprocessor(&self, max_context_tokens: u32) -> anyhow::Result<Preprocessor> {
        let config = PreprocessConfig {
            max_context_tokens,
            ..self.preprocess.clone()
        };
        let Some(path) = &self.path else {
            return Ok(Preprocessor::embedded_with_template(config)?);
        };
        if path.is_dir() {
            return Ok(Preprocessor::from_dir(path, config)?);
        }
        let text = Checkpoint::open(path)?.tokenizer()?;
        let text = text.with_context(|| format!("{} has no tokenizer", path.display()))?;
        let vocabulary = Vocabulary {
            tokenizer_json: &text.tokenizer_json,
            chat_template: text.chat_template.as_deref(),
            bos: text.bos.as_deref(),
            add_bos: text.add_bos,
            eos: &text.eos,
        };
        Ok(Preprocessor::from_vocabulary(path, &vocabulary, config)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_name() {
        let name = |model_name: Option<&str>, model: &str| {
            let args = ModelArgs {
                model_name: model_name.map(str::to_owned),
                model_path: None,
                model: Some(model.to_owned()),
                parse_special_tokens_in_content: false,
                chat_template: None,
                tool_call_parser: None,
                reasoning_parser: None,
                tokenizer_cache_bytes: 0,
            };
            args.name().map(str::to_owned)
        };
        let path = env!("CARGO_MANIFEST_DIR");
        assert_eq!(name(None, "smollm2").as_deref(), Some("smollm2"));
        assert_eq!(name(None, path), None);
        assert_eq!(name(Some("mine"), path).as_deref(), Some("mine"));
    }
}
