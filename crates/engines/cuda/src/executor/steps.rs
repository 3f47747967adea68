//! One step on the thread that waits for the device: draft, compute, draw.
//!
//! Where a draw depends on the logits, a few numbers and forbidden tokens alone, the device draws, and
//! four bytes come back. All else is drawn here by the engines' one sampler, from distributions that are
//! read for those rows only.

use std::ops::Range;

use contract::{Clock, TokenId};
use engine::StepOutput;
use engine::executor::{FailedRow, RowOutput};
use grammar::SlotMatchers;
use sampling::{DrawError, RequestContext, Sampler, StepTokens, accept, log_probabilities, ngram};

use super::{ExecutorOptions, Speculation, StepInput};
use crate::model::Model;
use crate::ops::{DrawRow, Ops, OpsError, PADDING};
use crate::staging::{StagedRow, Staging};

pub(super) struct Steps<O: Ops> {
    model: Model<O>,
    clock: Clock,
    speculation: Speculation,
    staging: Staging,
    sampler: Sampler,
    matchers: SlotMatchers,
    /// For each row of the step.
    drafts: Vec<Vec<TokenId>>,
    /// A row's prompt and answer, to find drafts in.
    text: Vec<TokenId>,
    draws: RowDraws,
    /// The token of each distribution that the device drew, if it did for any.
    drawn: Vec<u32>,
    logits: RowLogits,
}

/// How the device draws those rows of a step that it can.
#[derive(Debug, Default)]
struct RowDraws {
    outputs: Vec<DrawRow>,
    /// Where each row's are in `outputs`, by row; nowhere if the row is drawn here.
    places: Vec<Range<usize>>,
}

impl RowDraws {
    fn of(&self, row: usize) -> &[DrawRow] {
        &self.outputs[self.places[row].clone()]
    }
}

/// Distributions of those rows of a step that need them.
#[derive(Debug, Default)]
struct RowLogits {
    numbers: Vec<f32>,
    /// Where each row's begin in `numbers`, by row.
    places: Vec<Option<usize>>,
}

impl<O: Ops> Steps<O> {
    pub(super) fn new(model: Model<O>, options: &ExecutorOptions) -> Self {
        Self {
            clock: Clock::start(),
            speculation: options.speculation,
            staging: Staging::default(),
            sampler: Sampler::default(),
            matchers: SlotMatchers::new(options.vocabulary.clone()),
            drafts: Vec::new(),
            text: Vec::new(),
            draws: RowDraws::default(),
            drawn: Vec::new(),
            logits: RowLogits::default(),
            model,
        }
    }

    pub(super) fn run(&mut self, input: &StepInput) -> Result<StepOutput, OpsError> {
        let began = self.clock.now();
        self.draft(input);
        let drafted = self.clock.now();
        self.plan_draws(input);
        let rows = input.rows.iter().zip(&self.drafts).enumerate();
        let rows: Vec<_> = rows
            .map(|(index, (row, drafts))| StagedRow {
                tokens: input.new_tokens(row),
                drafts,
                start: row.start,
                blocks: input.blocks_of(row),
                outputs: match row.request {
                    Some(_) => 1 + drafts.len(),
                    None => 0,
                },
                draws: self.draws.of(index),
            })
            .collect();
        self.staging.fill(&rows, self.model.options().context);
        self.model.forward(&self.staging)?;
        self.fetch(input)?;
        let forward = self.clock.now() - drafted;
        let mut output = self.draw(input);
        output.forward_time = forward;
        if self.speculation != Speculation::None {
            output.draft_time = drafted - began;
        }
        Ok(output)
    }

    fn draft(&mut self, input: &StepInput) {
        self.drafts.iter_mut().for_each(Vec::clear);
        self.drafts.resize_with(input.rows.len(), Vec::new);
        if self.speculation == Speculation::None {
            return;
        }
        for (row, drafts) in input.rows.iter().zip(&mut self.drafts) {
            if let Some(request) = row.request.as_ref().filter(|_| row.drafts > 0) {
                self.text.clear();
                self.text.extend_from_slice(&request.prompt);
                self.text.extend_from_slice(input.answer(row));
                ngram::draft(&self.text, row.drafts, drafts);
            }
        }
    }

    /// Decides which rows the device draws, and how.
    fn plan_draws(&mut self, input: &StepInput) {
        let RowDraws { outputs, places } = &mut self.draws;
        outputs.clear();
        places.clear();
        for (row, drafts) in input.rows.iter().zip(&self.drafts) {
            let first = outputs.len();
            if let Some(request) = row.request.as_ref().filter(|it| it.logprobs.is_none()) {
                let context = RequestContext::with_answer(request, input.answer(row));
                outputs.extend((0..=drafts.len()).map_while(|accepted| {
                    let draw = context.plain_draw(accepted)?;
                    DrawRow::new(draw.pick(), draw.forbidden)
                }));
                // Two ways in one row are not worth their code.
                if outputs.len() - first <= drafts.len() {
                    outputs.truncate(first);
                }
            }
            places.push(first..outputs.len());
        }
    }

    /// Waits for the step, and reads what was drawn and what is to be drawn from.
    fn fetch(&mut self, input: &StepInput) -> Result<(), OpsError> {
        if !self.draws.outputs.is_empty() {
            self.model.draw(&self.staging, &mut self.drawn)?;
        }
        self.logits.places.clear();
        self.logits.places.resize(input.rows.len(), None);
        self.logits.numbers.clear();
        let mut needed = Vec::new();
        for (index, row) in input.rows.iter().enumerate() {
            if row.request.is_none() {
                continue;
            }
            let first = self.staging.first_output(index);
            let count = 1 + self.drafts[index].len();
            // A distribution with what is no number is looked at closer.
            let is_settled = !self.draws.of(index).is_empty()
                && !self.drawn[first..first + count].contains(&PADDING);
            if !is_settled {
                needed.push((index, first, count));
            }
        }
        self.read(&needed)
    }

    /// Reads distributions of rows: (row, first output, outputs). Neighbours are read at once.
    fn read(&mut self, needed: &[(usize, usize, usize)]) -> Result<(), OpsError> {
        let vocabulary = self.model.config().vocabulary;
        let neighbours =
            |one: &(usize, usize, usize), other: &(usize, usize, usize)| one.1 + one.2 == other.1;
        for run in needed.chunk_by(neighbours) {
            let count = run.iter().map(|(_, _, count)| count).sum();
            let mut place = self.logits.numbers.len();
            self.model
                .read_logits(run[0].1, count, &mut self.logits.numbers)?;
            for (row, _, count) in run {
                self.logits.places[*row] = Some(place);
                place += count * vocabulary;
            }
        }
        Ok(())
    }

    /// Draws for each row that says something. One that cannot be drawn for fails alone.
    fn draw(&mut self, input: &StepInput) -> StepOutput {
        let mut failed = Vec::new();
        let mut rows = Vec::with_capacity(input.rows.len());
        for (index, (row, drafts)) in input.rows.iter().zip(&self.drafts).enumerate() {
            let Some(request) = &row.request else {
                rows.push(RowOutput::default());
                continue;
            };
            let context = RequestContext::with_answer(request, input.answer(row));
            let vocabulary = self.model.config().vocabulary;
            let place = self.logits.places[index];
            let numbers = &self.logits.numbers;
            let logits = |draft: usize| {
                let first = place.expect("what is not settled was read") + draft * vocabulary;
                &numbers[first..][..vocabulary]
            };
            let drawn: Result<StepTokens, DrawError> = if place.is_none() {
                let first = self.staging.first_output(index);
                accept(drafts, |draft| Ok(self.drawn[first + draft]))
            } else {
                let answer = context.answer();
                let matchers = &mut self.matchers;
                let follower = matchers.follow(row.slot, row.sequence.0, request, answer);
                follower.map_err(DrawError::from).and_then(|follower| {
                    context.tokens(drafts, follower, &mut self.sampler, logits)
                })
            };
            match drawn {
                Ok(tokens) => rows.push(RowOutput {
                    logprobs: match request.logprobs {
                        None => Vec::new(),
                        Some(top) => tokens
                            .iter()
                            .enumerate()
                            .map(|(draft, token)| {
                                log_probabilities(logits(draft), *token, usize::from(top))
                            })
                            .collect(),
                    },
                    tokens: context.cut_at_end(tokens),
                    drafted: drafts.len(),
                }),
                Err(error) => {
                    let detail = error.to_string();
                    failed.push(FailedRow { row: index, detail });
                    rows.push(RowOutput::default());
                }
            }
        }
        StepOutput {
            rows,
            failed,
            ..StepOutput::default()
        }
    }
}
