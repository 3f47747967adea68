//! What computes in this process's workers: the simulator, or a model.

mod llama_engine;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use contract::{Abilities, ModelName, WorkerCard, WorkerId};
use engine::sim::{AnswerBank, Profile, SimExecutor};
use grammar::Vocabulary;
use preprocess::Preprocessor;
use transport::Member;
use worker::{Worker, WorkerContext};

pub(crate) use self::llama_engine::Llama;
use crate::plan::{BackendPlan, EnginePlan, ModelPlan, SimulationPlan};
use crate::simulation;

/// It has no distribution of tokens to report or to change.
pub(crate) const SIMULATOR: Abilities = Abilities {
    logprobs: false,
    grammars: true,
    logit_bias: false,
};

pub(crate) const LLAMA: Abilities = Abilities::ALL;

/// How every worker of this process is built.
#[derive(Debug)]
pub(crate) enum Backend {
    Simulated(Box<Simulated>),
    Llama(Box<Llama>),
}

#[derive(Debug)]
pub(crate) struct Simulated {
    profile: Profile,
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
        }
    }

    pub(crate) fn model(&self) -> &ModelName {
        match self {
            Self::Simulated(simulated) => &simulated.profile.model,
            Self::Llama(llama) => llama.model(),
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
            Self::Simulated(simulated) => WorkerCard {
                abilities: SIMULATOR,
                ..simulated.profile.card(id, name)
            },
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
                    vocabulary,
                    seed,
                } = &**simulated;
                let executor = SimExecutor::new(profile, Arc::clone(answers), *seed)
                    .with_vocabulary(Arc::clone(vocabulary));
                Worker::start(card, executor, context)
            }
            Self::Llama(llama) => Worker::start(card, llama.executor()?, context),
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
        profile,
        answers,
        vocabulary: Arc::new(preprocessor.grammar_vocabulary()),
        seed,
    };
    Ok((Backend::Simulated(Box::new(simulated)), preprocessor))
}
