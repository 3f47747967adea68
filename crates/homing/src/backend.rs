//! What computes in this process's workers: the simulator, or a model.

mod cuda_engine;
mod llama_engine;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use checkpoint::ModelConfig;
use contract::{Abilities, ModelName, WorkerCard, WorkerId};
use engine::sim::{AnswerBank, Profile, SimExecutor};
use grammar::Vocabulary;
use preprocess::Preprocessor;
use transport::Member;
use worker::{Worker, WorkerContext};

pub(crate) use self::cuda_engine::Cuda;
pub(crate) use self::llama_engine::Llama;
use crate::plan::{BackendPlan, EnginePlan, ModelPlan, SimulationPlan};
use crate::{print, simulation};

/// It has no distribution of tokens to report or to change.
pub(crate) const SIMULATOR: Abilities = Abilities {
    logprobs: false,
    grammars: true,
    logit_bias: false,
};

pub(crate) const LLAMA: Abilities = Abilities::ALL;

/// Contexts are cut here by default: memory grows with them.
const CONTEXT: usize = 8192;
/// Loading is announced from here on.
const LARGE_MODEL: u64 = 500 << 20;

/// The longest prompt plus answer of a real engine.
fn longest_context(shape: &ModelConfig, asked: Option<usize>) -> anyhow::Result<usize> {
    match asked {
        Some(context) if context > shape.context => bail!(
            "--context {context} exceeds the {} tokens that {} supports",
            shape.context,
            shape.name
        ),
        Some(context) => Ok(context),
        None => Ok(shape.context.min(CONTEXT)),
    }
}

/// Says how far a large model is loaded; small ones are there before a line is read.
struct LoadProgress {
    path: PathBuf,
    total: u64,
    done: u64,
    told: u64,
}

impl LoadProgress {
    fn new(path: &Path, total: u64) -> Self {
        Self {
            path: path.to_owned(),
            total,
            done: 0,
            told: 0,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        let percent = 100 * self.done / self.total.max(1);
        if percent >= self.told + 20 && self.total > LARGE_MODEL {
            self.told = percent;
            print::note(format_args!("loading {}: {percent} %", self.path.display()));
        }
    }
}

/// How every worker of this process is built.
#[derive(Debug)]
pub(crate) enum Backend {
    Simulated(Box<Simulated>),
    Llama(Box<Llama>),
    Cuda(Box<Cuda>),
}

#[derive(Debug)]
pub(crate) struct Simulated {
    profile: Profile,
    /// What it was at the start. Requests may have its context, whatever is put in its place.
    first: Arc<Profile>,
    answers: Arc<AnswerBank>,
    vocabulary: Arc<Vocabulary>,
    seed: u64,
}

impl Backend {
    /// Reads profile or model, and what turns text into its tokens.
    pub(crate) fn read(plan: BackendPlan) -> anyhow::Result<(Self, Preprocessor)> {
        let BackendPlan {
            engine,
            model,
            block_size,
            workers,
        } = plan;
        match engine {
            EnginePlan::Simulated(simulation) => simulated(*simulation, &model),
            EnginePlan::Llama(llama) => {
                let (llama, preprocessor) = Llama::read(&llama, &model, block_size, workers)?;
                Ok((Self::Llama(Box::new(llama)), preprocessor))
            }
            EnginePlan::Cuda(cuda) => {
                let (cuda, preprocessor) = Cuda::read(&cuda, &model, workers)?;
                Ok((Self::Cuda(Box::new(cuda)), preprocessor))
            }
        }
    }

    pub(crate) fn model(&self) -> &ModelName {
        match self {
            Self::Simulated(simulated) => &simulated.profile.model,
            Self::Llama(llama) => llama.model(),
            Self::Cuda(cuda) => cuda.model(),
        }
    }

    /// What a number of workers is, in words.
    pub(crate) fn describe(&self, workers: u32) -> String {
        match self {
            Self::Simulated(simulated) => {
                format!("{workers} SIMULATED workers ({})", simulated.profile.name)
            }
            Self::Llama(llama) => llama.describe(workers),
            Self::Cuda(cuda) => cuda.describe(workers),
        }
    }

    /// The same model on workers of another profile. Blocks stay as they are, and so does the
    /// longest context, since prompts are checked before they are routed.
    pub(crate) fn with_profile(&self, name: &str) -> anyhow::Result<Self> {
        let Self::Simulated(simulated) = self else {
            bail!("only simulated workers have profiles; these compute a model");
        };
        let mut profile = match &*simulated.first {
            first if first.name == name => first.clone(),
            first => Profile::named(name)?.with_block_size(first.block_size),
        };
        let context = simulated.first.max_context_tokens;
        if profile.max_context_tokens < context {
            bail!(
                "profile `{name}` has a context of {} tokens, and requests may have {context}",
                profile.max_context_tokens,
            );
        }
        profile.max_context_tokens = context;
        profile.model = simulated.first.model.clone();
        Ok(Self::Simulated(Box::new(Simulated {
            profile,
            first: Arc::clone(&simulated.first),
            answers: Arc::clone(&simulated.answers),
            vocabulary: Arc::clone(&simulated.vocabulary),
            seed: simulated.seed,
        })))
    }

    /// Whether its workers are those of another one.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Simulated(this), Self::Simulated(other)) => this.profile == other.profile,
            _ => false,
        }
    }

    /// Profiles that workers can be replaced with; none for a model that is computed.
    pub(crate) fn profiles(&self) -> Vec<String> {
        let Self::Simulated(simulated) = self else {
            return Vec::new();
        };
        let own = [simulated.first.name.as_str()];
        let others = Profile::names().into_iter().filter(|name| *name != own[0]);
        own.into_iter()
            .chain(others)
            .filter(|name| self.with_profile(name).is_ok())
            .map(str::to_owned)
            .collect()
    }

    /// What a worker announces.
    pub(crate) fn card(&self, id: WorkerId, name: &str) -> WorkerCard {
        match self {
            Self::Simulated(simulated) => WorkerCard {
                abilities: SIMULATOR,
                ..simulated.profile.card(id, name)
            },
            Self::Llama(llama) => llama.card(id, name),
            Self::Cuda(cuda) => cuda.card(id, name),
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
                    vocabulary,
                    seed,
                    first: _,
                } = &**simulated;
                let executor = SimExecutor::new(profile, Arc::clone(answers), *seed)
                    .with_vocabulary(Arc::clone(vocabulary));
                Worker::start(card, executor, context)
            }
            Self::Llama(llama) => Worker::start(card, llama.executor()?, context),
            Self::Cuda(cuda) => Worker::start(card, cuda.executor()?, context),
        })
    }
}

fn simulated(
    simulation: SimulationPlan,
    model: &ModelPlan,
) -> anyhow::Result<(Backend, Preprocessor)> {
    let SimulationPlan { profile, seed } = simulation;
    let preprocessor = model.preprocessor(profile.max_context_tokens)?;
    let answers = simulation::answers(&preprocessor)?;
    let simulated = Simulated {
        first: Arc::new(profile.clone()),
        profile,
        answers,
        vocabulary: Arc::new(preprocessor.grammar_vocabulary()),
        seed,
    };
    Ok((Backend::Simulated(Box::new(simulated)), preprocessor))
}
