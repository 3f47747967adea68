//! Where guesses come from.
//!
//! A drafter is asked for guesses before a step and told afterwards what was said. What it
//! guesses decides how fast a step is, never what is said.

mod eagle;
mod model;

use std::time::Duration;

use contract::TokenId;
use smallvec::SmallVec;

use self::eagle::EagleDrafter;
use self::model::ModelDrafter;
use super::{DraftSource, ExecutorOptions, StepInput};
use crate::model::Model;
use crate::plan::Plan;
use crate::weights::WeightsError;
use sampling::ngram;

/// What each row said in a step.
pub(super) type StepTokens = SmallVec<[TokenId; 4]>;

#[derive(Debug)]
pub(super) enum Drafter {
    None,
    Ngram,
    Model(Box<ModelDrafter>),
    Eagle3(Box<EagleDrafter>),
}

impl Drafter {
    pub(super) fn new(
        source: &DraftSource,
        options: &ExecutorOptions,
    ) -> Result<Self, WeightsError> {
        Ok(match source {
            DraftSource::None => Self::None,
            DraftSource::Ngram => Self::Ngram,
            DraftSource::Model(weights) => {
                Self::Model(Box::new(ModelDrafter::new(weights, options)?))
            }
            DraftSource::Eagle3(head) => Self::Eagle3(Box::new(EagleDrafter::new(head, options)?)),
        })
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Guesses for each row, as many as it asks for at most. Returns the time that went into
    /// what was said while nothing was guessed: guessing in every step would not cost it.
    pub(super) fn draft(
        &mut self,
        input: &StepInput,
        target: &Model,
        drafts: &mut [Vec<TokenId>],
    ) -> Duration {
        match self {
            Self::None => {}
            Self::Ngram => {
                for (row, drafts) in input.rows.iter().zip(drafts) {
                    ngram::draft(input.tokens_of(row), row.drafts, drafts);
                }
            }
            Self::Model(drafter) => return drafter.draft(input, drafts),
            Self::Eagle3(drafter) => return drafter.draft(input, target, drafts),
        }
        Duration::ZERO
    }

    /// Takes in what was said. `plan` is the step that the target computed.
    pub(super) fn heard(
        &mut self,
        input: &StepInput,
        said: &[StepTokens],
        target: &Model,
        plan: &Plan,
    ) {
        match self {
            Self::None | Self::Ngram => {}
            Self::Model(drafter) => drafter.heard(input, said),
            Self::Eagle3(drafter) => drafter.heard(input, said, target, plan),
        }
    }
}
