//! A second, smaller model that guesses.
//!
//! Its cache has the target's blocks. It computes prompts with the target, so that whoever
//! finds a block finds both, and catches up on what was said while it was not asked.

use std::time::Duration;

use contract::{Clock, TokenId};
use engine::executor::SequenceId;

use super::super::{ExecutorOptions, RowInput, StepInput};
use super::StepTokens;
use crate::model::{LoadedWeights, Model, ModelOptions};
use crate::plan::Plan;
use crate::weights::WeightsError;
use sampling::likeliest;

#[derive(Debug)]
pub(in crate::executor) struct ModelDrafter {
    model: Model,
    clock: Clock,
    plan: Plan,
    /// For the sequence in each slot, how many of its tokens are computed.
    slots: Vec<Option<(SequenceId, usize)>>,
}

impl ModelDrafter {
    pub(super) fn new(
        weights: &LoadedWeights,
        options: &ExecutorOptions,
    ) -> Result<Self, WeightsError> {
        let model = ModelOptions {
            taps: Vec::new(),
            // A first guess may come with the one before it that was right.
            step_tokens: options.model.step_tokens.max(2 * options.slots),
            ..options.model.clone()
        };
        Ok(Self {
            model: Model::new(weights, model)?,
            clock: Clock::start(),
            plan: Plan::new(options.model.block_size),
            slots: vec![None; options.slots],
        })
    }

    /// How much of a row's sequence is computed; a sequence that comes with a cached prefix
    /// has that computed here too. One that begins again has lost its blocks.
    fn computed(&self, row: &RowInput) -> usize {
        match self.slots[row.slot] {
            Some((sequence, computed)) if sequence == row.sequence => computed.min(row.start),
            Some(_) | None => row.start,
        }
    }

    /// Guesses, and the time that went into what was said while nothing was guessed.
    pub(super) fn draft(&mut self, input: &StepInput, drafts: &mut [Vec<TokenId>]) -> Duration {
        let mut missed = Duration::ZERO;
        for row in &input.rows {
            let guesses = row.drafts > 0;
            let end = row.start + row.count - usize::from(guesses);
            // The last guess of a draft that was right is computed with the next draft.
            let is_behind = end > self.computed(row) + 1;
            // What is guessed from has to be computed; a prompt is, guesses or not.
            if row.count > 1 || guesses && is_behind {
                let began = self.clock.now();
                self.catch_up(input, row, end);
                if is_behind {
                    missed += self.clock.now() - began;
                }
            }
        }
        let most = input.rows.iter().map(|row| row.drafts).max().unwrap_or(0);
        for guess in 0..most {
            self.plan.clear();
            let rows = input.rows.iter().enumerate();
            for (index, row) in rows.filter(|(_, row)| row.drafts > guess) {
                let end = row.start + row.count + guess;
                let blocks = input.blocks_of(row).iter().copied();
                match drafts[index].last() {
                    Some(last) => self.plan.push([*last], end - 1, blocks, 1),
                    None => {
                        let from = self.computed(row);
                        let new = from - row.known_from..end - row.known_from;
                        let new = &input.tokens_of(row)[new];
                        self.plan.push(new.iter().copied(), from, blocks, 1);
                    }
                }
                self.slots[row.slot] = Some((row.sequence, end));
            }
            self.model.forward(&self.plan);
            let rows = drafts
                .iter_mut()
                .zip(&input.rows)
                .filter(|(_, row)| row.drafts > guess);
            for (output, (drafts, _)) in rows.enumerate() {
                drafts.push(likeliest(self.model.logits(output)) as TokenId);
            }
        }
        missed
    }

    /// Computes a row's tokens up to `end`.
    fn catch_up(&mut self, input: &StepInput, row: &RowInput, end: usize) {
        let mut from = self.computed(row).max(row.known_from);
        let most = self.model.options().step_tokens;
        while from < end {
            let to = end.min(from + most);
            let tokens = &input.tokens_of(row)[from - row.known_from..to - row.known_from];
            self.plan.clear();
            let blocks = input.blocks_of(row).iter().copied();
            self.plan.push(tokens.iter().copied(), from, blocks, 0);
            self.model.forward(&self.plan);
            from = to;
        }
        self.slots[row.slot] = Some((row.sequence, end.max(from)));
    }

    /// Forgets what was computed of guesses that were wrong.
    pub(super) fn heard(&mut self, input: &StepInput, said: &[StepTokens]) {
        for (row, said) in input.rows.iter().zip(said) {
            if let Some((sequence, computed)) = &mut self.slots[row.slot]
                && *sequence == row.sequence
            {
                let right = row.start + row.count + said.len().saturating_sub(1);
                *computed = (*computed).min(right);
            }
        }
    }
}
