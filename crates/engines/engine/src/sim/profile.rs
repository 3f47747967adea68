//! Named timing profiles.
//!
//! A profile is a TOML file in which every constant states its origin. The ones we ship are
//! compiled in; others can be loaded from a path. Reading one checks it completely: to hold
//! a [`Profile`] is to know that it can run.
//!
//! # Memory
//!
//! How many blocks fit is arithmetic, on each of the worker's GPUs:
//!
//! ```text
//! cache = (memory × usable_fraction − weights / GPUs − overhead) × free_gpu_memory_fraction
//! blocks = cache ÷ (KV bytes per token / GPUs × block size)
//! ```
//!
//! The two fractions cover both ways in which engines are configured: a share of the whole card
//! (then the second is 1), or a share of what the weights leave free (then the first is 1).

mod constant;
mod file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use contract::{Abilities, BlockFormat, GpuSpec, ModelName, WorkerCard, WorkerId};

use self::constant::{Constant, Shares};
use self::file::File;
use super::answers::AnswerLength;
use super::speculation::{Method, Speculation};
use super::timing::{Sharing, Timing};
use crate::executor::{Drafting, Limits};

pub use self::constant::ConstantError;

/// The default profile.
pub const DEFAULT_PROFILE: &str = "h200-llama-70b-fp8";

/// Fitted to the published measurements of three H200, so that experiments can be set beside
/// them.
pub const PUBLISHED_PROFILE: &str = "h200-llama-70b-fp8-published";

/// The profiles compiled in, the default first.
const SHIPPED: &[(&str, &str)] = &[
    (
        DEFAULT_PROFILE,
        include_str!("../../profiles/h200-llama-70b-fp8.toml"),
    ),
    (
        PUBLISHED_PROFILE,
        include_str!("../../profiles/h200-llama-70b-fp8-published.toml"),
    ),
    (
        "h200-llama-70b-fp8-draft",
        include_str!("../../profiles/h200-llama-70b-fp8-draft.toml"),
    ),
    (
        "h200-llama-70b-fp8-eagle3",
        include_str!("../../profiles/h200-llama-70b-fp8-eagle3.toml"),
    ),
    (
        "2xh100-llama-70b-fp8-draft",
        include_str!("../../profiles/2xh100-llama-70b-fp8-draft.toml"),
    ),
    (
        "4xh100-llama-70b-fp8",
        include_str!("../../profiles/4xh100-llama-70b-fp8.toml"),
    ),
    ("zero-delay", include_str!("../../profiles/zero-delay.toml")),
];

/// One kind of simulated worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    pub name: String,
    /// A one-sentence description.
    pub about: String,
    pub model: ModelName,
    /// The default number of workers of such a deployment.
    pub workers: u32,
    pub gpu: GpuSpec,
    pub slots: u32,
    pub max_step_tokens: u32,
    pub max_context_tokens: u32,
    pub block_size: u32,
    pub timing: Timing,
    /// Workers of a deployment share a machine, if the profile says how.
    pub sharing: Sharing,
    /// Steps from a request's arrival at a busy worker until it joins the batch.
    pub intake_steps: u32,
    pub answers: AnswerLength,
    pub speculation: Speculation,
    /// Weights, CUDA context and activations on one GPU.
    resident_bytes: f64,
    /// What one GPU has left for the cache.
    cache_bytes: f64,
    /// What one token's cache takes on one GPU, the draft's included.
    token_bytes: f64,
}

/// Why there is no such profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("no profile `{name}`; available: {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("cannot read profile {}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("profile `{name}` is invalid")]
    Parse {
        name: String,
        source: Box<toml::de::Error>,
    },
    #[error("profile `{name}`: {fault}")]
    Invalid { name: String, fault: ProfileFault },
}

/// What is wrong with a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFault {
    #[error("{key}: {error}")]
    Constant { key: String, error: ConstantError },
    /// What must hold for a worker to run at all, and does not.
    #[error("{0}")]
    Rule(&'static str),
    #[error("memory holds {blocks} blocks, and a context of {tokens} tokens does not fit")]
    SmallMemory { blocks: u32, tokens: usize },
}

impl Profile {
    /// The names of the shipped profiles, the default first.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|(name, _)| *name).collect()
    }

    /// The shipped profile with this name.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) else {
            return Err(ProfileError::Unknown {
                name: name.to_owned(),
                known: Self::names(),
            });
        };
        Self::parse(name, text)
    }

    /// A shipped profile by name, or one from a file if the name ends with `.toml`.
    pub fn find(name: &str) -> Result<Self, ProfileError> {
        match name.ends_with(".toml") {
            true => Self::load(Path::new(name)),
            false => Self::named(name),
        }
    }

    /// A profile from a file; its name is the file's.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let text = std::fs::read_to_string(path).map_err(|source| ProfileError::Read {
            path: path.to_owned(),
            source,
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text)
    }

    /// A profile from the text of its file.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let file: File = toml::from_str(text).map_err(|source| ProfileError::Parse {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        let invalid = |fault| ProfileError::Invalid {
            name: name.to_owned(),
            fault,
        };
        let profile = Self::resolve(name, file).map_err(invalid)?;
        profile.check().map_err(invalid)?;
        Ok(profile)
    }

    /// The same worker with another block size.
    #[must_use]
    pub fn with_block_size(self, block_size: u32) -> Self {
        Self { block_size, ..self }
    }

    pub fn limits(&self) -> Limits {
        let block_bytes = self.token_bytes * f64::from(self.block_size);
        Limits {
            block_size: self.block_size,
            total_blocks: (self.cache_bytes / block_bytes) as u32,
            slots: self.slots,
            max_step_tokens: self.max_step_tokens,
            max_context_tokens: self.max_context_tokens,
            vocabulary: u32::MAX,
            draft_tokens: self.speculation.acceptance.len() as u32,
            drafting: Drafting::EveryStep,
            recomputed_blocks: 0,
            intake_steps: self.intake_steps,
            resident_bytes: self.resident_bytes as u64,
            block_bytes: block_bytes as u64,
        }
    }

    /// What a worker of this kind announces.
    pub fn card(&self, id: WorkerId, name: &str) -> WorkerCard {
        let limits = self.limits();
        WorkerCard {
            id,
            name: name.to_owned(),
            model: self.model.clone(),
            blocks: BlockFormat::new(limits.block_size),
            total_blocks: limits.total_blocks,
            slots: limits.slots,
            max_step_tokens: limits.max_step_tokens,
            max_context_tokens: limits.max_context_tokens,
            gpu: self.gpu.clone(),
            engine: self.name.clone(),
            simulated: true,
            abilities: Abilities::default(),
            speculation: self.speculation.method.as_str().to_owned(),
            forwards: Vec::new(),
            adapters: Vec::new(),
        }
    }

    fn resolve(name: &str, file: File) -> Result<Self, ProfileFault> {
        let gpus = f64::from(file.gpu.count);
        let gpu_bytes = at("gpu.memory", &file.gpu.memory, Constant::bytes)?;
        let draft = Draft::resolve(file.speculation)?;
        let memory = file.memory;
        let size = |key: &str, constant| at(&format!("memory.{key}"), constant, Constant::bytes);
        let share = |key: &str, constant| at(&format!("memory.{key}"), constant, Constant::ratio);
        let weights = size("weights", &memory.weights)? + draft.weights;
        let kv_per_token = size("kv_per_token", &memory.kv_per_token)? + draft.kv_per_token;
        let overhead = size("overhead_per_gpu", &memory.overhead_per_gpu)?;
        let usable = share("usable_fraction", &memory.usable_fraction)?;
        let for_cache = share("free_gpu_memory_fraction", &memory.free_gpu_memory_fraction)?;
        let resident_bytes = weights / gpus + overhead;
        Ok(Self {
            name: name.to_owned(),
            about: file.about,
            model: ModelName::new(&file.model),
            workers: file.workers,
            gpu: GpuSpec {
                kind: file.gpu.kind,
                count: file.gpu.count,
                memory_bytes: gpu_bytes as u64,
            },
            slots: file.engine.slots,
            max_step_tokens: file.engine.max_step_tokens,
            max_context_tokens: file.engine.max_context_tokens,
            block_size: file.engine.block_size,
            timing: Timing {
                draft_per_token: draft.per_token,
                verify_per_token: draft.verify_per_token,
                ..resolve_timing(&file.timing)?
            },
            sharing: resolve_sharing(file.timing.shared_machine)?,
            intake_steps: match &file.timing.intake {
                Some(intake) => at("timing.intake", intake, Constant::steps)?,
                None => 0,
            },
            answers: resolve_answers(&file.answers)?,
            speculation: draft.speculation,
            resident_bytes,
            cache_bytes: (gpu_bytes * usable - resident_bytes) * for_cache,
            token_bytes: kv_per_token / gpus,
        })
    }

    /// What must hold for a worker to run at all.
    fn check(&self) -> Result<(), ProfileFault> {
        let AnswerLength { min, max, .. } = self.answers;
        let drafting = self.speculation.method != Method::None;
        let problems = [
            (self.workers == 0, "a deployment has at least one worker"),
            (self.gpu.count == 0, "a worker has at least one GPU"),
            (self.slots == 0, "a worker runs at least one sequence"),
            (self.block_size == 0, "a block holds at least one token"),
            (self.token_bytes <= 0.0, "a token's KV takes memory"),
            (
                self.max_step_tokens < self.slots,
                "max_step_tokens is less than slots",
            ),
            (
                min == 0 || min > max,
                "answers.min is not between 1 and answers.max",
            ),
            (
                drafting == self.speculation.acceptance.is_empty(),
                "drafting needs acceptance probabilities, and they need a method",
            ),
        ];
        if let Some((_, problem)) = problems.into_iter().find(|(is_problem, _)| *is_problem) {
            return Err(ProfileFault::Rule(problem));
        }
        let limits = self.limits();
        let context = self.max_context_tokens as usize;
        if limits.blocks_for(context) > limits.total_blocks as usize {
            return Err(ProfileFault::SmallMemory {
                blocks: limits.total_blocks,
                tokens: context,
            });
        }
        Ok(())
    }
}

/// What speculation adds to a worker; nothing if the profile has none.
struct Draft {
    speculation: Speculation,
    weights: f64,
    kv_per_token: f64,
    per_token: f64,
    verify_per_token: f64,
}

impl Draft {
    fn resolve(section: Option<file::Speculation>) -> Result<Self, ProfileFault> {
        let Some(section) = section else {
            return Ok(Self {
                speculation: Speculation {
                    method: Method::None,
                    acceptance: Vec::new(),
                },
                weights: 0.0,
                kv_per_token: 0.0,
                per_token: 0.0,
                verify_per_token: 0.0,
            });
        };
        let key = |key: &str| format!("speculation.{key}");
        let size = |name: &str, constant| at(&key(name), constant, Constant::bytes);
        let time = |name: &str, constant| at(&key(name), constant, Constant::seconds);
        let acceptance = named(&key("acceptance"), section.acceptance.checked())?;
        Ok(Self {
            speculation: Speculation {
                method: section.method,
                acceptance,
            },
            weights: size("draft_weights", &section.draft_weights)?,
            kv_per_token: size("draft_kv_per_token", &section.draft_kv_per_token)?,
            per_token: time("draft_per_token", &section.draft_per_token)?,
            verify_per_token: time("verify_per_token", &section.verify_per_token)?,
        })
    }
}

fn resolve_timing(timing: &file::Timing) -> Result<Timing, ProfileFault> {
    let time = |key: &str, constant| at(&format!("timing.{key}"), constant, Constant::seconds);
    let (wide_batch, narrow_rows) = match &timing.wide_batch {
        Some(wide) => (
            time("wide_batch.extra", &wide.extra)?,
            at("timing.wide_batch.above", &wide.above, Constant::rows)?,
        ),
        None => (0.0, u32::MAX),
    };
    Ok(Timing {
        base: time("base", &timing.base)?,
        per_token: time("per_token", &timing.per_token)?,
        overlaps: timing.overlaps.unwrap_or(true),
        per_sequence: time("per_sequence", &timing.per_sequence)?,
        per_context_token: time("per_context_token", &timing.per_context_token)?,
        wide_batch,
        narrow_rows,
        attention_per_pair: time("attention_per_pair", &timing.attention_per_pair)?,
        draft_per_token: 0.0,
        verify_per_token: 0.0,
    })
}

fn resolve_sharing(shares: Option<Shares>) -> Result<Sharing, ProfileFault> {
    let Some(shares) = shares else {
        return Ok(Sharing::default());
    };
    let parts = shares.checked().and_then(|parts| {
        let takes_time = !parts.contains(&0.0);
        takes_time.then_some(parts).ok_or(ConstantError::ZeroTime)
    });
    Ok(Sharing::new(named("timing.shared_machine", parts)?))
}

fn resolve_answers(answers: &file::Answers) -> Result<AnswerLength, ProfileFault> {
    let tokens = |key: &str, constant| at(&format!("answers.{key}"), constant, Constant::tokens);
    Ok(AnswerLength {
        mean: tokens("mean", &answers.mean)?,
        spread: tokens("spread", &answers.spread)?,
        min: tokens("min", &answers.min)? as usize,
        max: tokens("max", &answers.max)? as usize,
    })
}

/// Reads a constant and names it if something is wrong with it.
fn at<T>(
    key: &str,
    constant: &Constant,
    read: fn(&Constant) -> Result<T, ConstantError>,
) -> Result<T, ProfileFault> {
    named(key, read(constant))
}

fn named<T>(key: &str, read: Result<T, ConstantError>) -> Result<T, ProfileFault> {
    read.map_err(|error| ProfileFault::Constant {
        key: key.to_owned(),
        error,
    })
}
