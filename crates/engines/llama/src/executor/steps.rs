//! One step on the thread that computes: draft, compute, draw.

use std::time::Duration;

use contract::{Clock, TokenId};
use engine::StepOutput;
use engine::executor::{FailedRow, RowOutput};
use grammar::SlotMatchers;
use sampling::{DrawError, RequestContext, Sampler, log_probabilities};

use super::drafting::{Drafter, StepTokens};
use super::{ExecutorOptions, StepInput};
use crate::model::Model;
use crate::plan::Plan;
use crate::weights::WeightsError;

pub(super) struct Steps {
    model: Model,
    clock: Clock,
    plan: Plan,
    sampler: Sampler,
    matchers: SlotMatchers,
    drafter: Drafter,
    /// For each row of the step.
    drafts: Vec<Vec<TokenId>>,
    said: Vec<StepTokens>,
}

impl Steps {
    pub(super) fn new(model: Model, options: &ExecutorOptions) -> Result<Self, WeightsError> {
        Ok(Self {
            clock: Clock::start(),
            plan: Plan::new(options.model.block_size),
            sampler: Sampler::default(),
            matchers: SlotMatchers::new(options.vocabulary.clone()),
            drafter: Drafter::new(&options.speculation, options)?,
            drafts: Vec::new(),
            said: Vec::new(),
            model,
        })
    }

    pub(super) fn run(&mut self, input: &StepInput) -> StepOutput {
        let began = self.clock.now();
        let missed = self.draft(input);
        let drafted = self.clock.now();
        self.plan.clear();
        for (row, drafts) in input.rows.iter().zip(&self.drafts) {
            let start = row.start - row.known_from;
            let new = &input.tokens_of(row)[start..start + row.count];
            let outputs = match row.request {
                Some(_) => 1 + drafts.len(),
                None => 0,
            };
            self.plan.push(
                new.iter().chain(drafts).copied(),
                row.start,
                input.blocks_of(row).iter().copied(),
                outputs,
            );
        }
        self.model.forward(&self.plan);
        let forward = self.clock.now() - drafted;
        let mut output = self.draw(input);
        let drawn = self.clock.now();
        self.drafter
            .heard(input, &self.said, &self.model, &self.plan);
        output.forward_time = forward;
        if !self.drafter.is_none() {
            output.draft_time = drafted - began + (self.clock.now() - drawn);
            output.catch_up_time = missed;
        }
        output
    }

    /// Drafts for the rows that ask for them. Returns the time that went into tokens of earlier
    /// steps without drafts.
    fn draft(&mut self, input: &StepInput) -> Duration {
        self.drafts.iter_mut().for_each(Vec::clear);
        self.drafts.resize_with(input.rows.len(), Vec::new);
        self.drafter.draft(input, &self.model, &mut self.drafts)
    }

    /// Draws for each row that says something. One that cannot be drawn for fails alone.
    fn draw(&mut self, input: &StepInput) -> StepOutput {
        let (mut first, mut failed) = (0, Vec::new());
        self.said.clear();
        let mut rows = Vec::with_capacity(input.rows.len());
        for (index, (row, drafts)) in input.rows.iter().zip(&self.drafts).enumerate() {
            let Some(request) = &row.request else {
                rows.push(RowOutput::default());
                self.said.push(StepTokens::new());
                continue;
            };
            let context = RequestContext::new(request, input.tokens_of(row));
            let (model, sampler) = (&self.model, &mut self.sampler);
            let follower =
                self.matchers
                    .follow(row.slot, row.sequence.0, request, context.answer());
            let drawn = follower.map_err(DrawError::from).and_then(|follower| {
                let logits = |index| model.logits(first + index);
                context.tokens(drafts, follower, sampler, logits)
            });
            let tokens = match drawn {
                Ok(tokens) => tokens,
                Err(error) => {
                    first += 1 + drafts.len();
                    let detail = error.to_string();
                    failed.push(FailedRow { row: index, detail });
                    rows.push(RowOutput::default());
                    self.said.push(StepTokens::new());
                    continue;
                }
            };
            let logprobs = match request.logprobs {
                None => Vec::new(),
                Some(top) => tokens
                    .iter()
                    .zip(first..)
                    .map(|(token, output)| {
                        log_probabilities(model.logits(output), *token, usize::from(top))
                    })
                    .collect(),
            };
            first += 1 + drafts.len();
            self.said.push(tokens.clone());
            rows.push(RowOutput {
                tokens: context.cut_at_end(tokens),
                logprobs,
                drafted: drafts.len(),
            });
        }
        StepOutput {
            rows,
            failed,
            ..StepOutput::default()
        }
    }
}
