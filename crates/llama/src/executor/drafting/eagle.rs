//! An EAGLE-3 head that guesses from the target's states.
//!
//! After a step it sees the states of every token that stays, beside the token that follows,
//! and holds a first guess ready. Before the next step it goes on from there by itself: only
//! then the blocks reach as far as its guesses do.

use std::sync::Arc;

use contract::TokenId;
use engine::executor::SequenceId;

use super::Said;
use crate::buffer::Rows;
use crate::eagle3::{Head, LoadedHead, States};
use crate::executor::{ExecutorOptions, RowInput, StepInput};
use crate::model::Model;
use crate::plan::Plan;
use crate::weights::WeightsError;

#[derive(Debug)]
pub(in crate::executor) struct EagleDrafter {
    head: Head,
    plan: Plan,
    slots: Vec<Option<Ready>>,
    /// States that a pass goes on from.
    states: Rows,
    /// The target's place of each token of a pass.
    places: Vec<usize>,
}

/// Where a sequence's next chain begins.
#[derive(Clone, Debug)]
struct Ready {
    sequence: SequenceId,
    /// Positions that the head has seen.
    seen: usize,
    guess: TokenId,
    /// The head's own, at the last position.
    state: Arc<[f32]>,
}

impl EagleDrafter {
    pub(super) fn new(head: &LoadedHead, options: &ExecutorOptions) -> Result<Self, WeightsError> {
        let head = Head::new(head, &options.model)?;
        Ok(Self {
            plan: Plan::new(options.model.block_size),
            slots: vec![None; options.slots],
            states: head.outputs(options.slots)?,
            places: Vec::new(),
            head,
        })
    }

    pub(super) fn draft(
        &mut self,
        input: &StepInput,
        room: &[usize],
        target: &Model,
        drafts: &mut [Vec<TokenId>],
    ) {
        let mut chains: Vec<(usize, Ready)> = Vec::new();
        for (index, (row, room)) in input.rows.iter().zip(room).enumerate() {
            if let Some(ready) = &self.slots[row.slot]
                && *room > 0
                && ready.sequence == row.sequence
                && ready.seen == row.start
            {
                drafts[index].push(ready.guess);
                chains.push((index, ready.clone()));
            }
        }
        for guess in 1.. {
            chains.retain(|(index, _)| room[*index] > guess);
            if chains.is_empty() {
                return;
            }
            self.plan.clear();
            for (place, (index, ready)) in chains.iter().enumerate() {
                let row = &input.rows[*index];
                let blocks = input.blocks_of(row).iter().copied();
                self.plan
                    .push([ready.guess], row.start + guess - 1, blocks, 1);
                self.states.set(place, &ready.state);
            }
            let own = States::Own(&self.states);
            self.head.pass(&self.plan, &own, target.embeddings());
            for (place, (index, ready)) in chains.iter_mut().enumerate() {
                ready.guess = self.head.best(place);
                ready.state = self.head.state(place).into();
                drafts[*index].push(ready.guess);
            }
        }
    }

    pub(super) fn heard(&mut self, input: &StepInput, said: &[Said], target: &Model, plan: &Plan) {
        self.plan.clear();
        self.places.clear();
        for ((row, said), planned) in input.rows.iter().zip(said).zip(&plan.rows) {
            let stay = row.count + said.len().saturating_sub(1);
            let follow = (0..stay).map(|index| following(input, row, said, index));
            let blocks = input.blocks_of(row).iter().copied();
            let outputs = usize::from(!said.is_empty());
            self.plan.push(follow, row.start, blocks, outputs);
            self.places.extend(planned.first..planned.first + stay);
        }
        let places = &self.places;
        let tap = |tap: usize, index: usize| target.tapped(tap, places[index]);
        let states = States::Target(&tap);
        self.head.pass(&self.plan, &states, target.embeddings());
        let mut output = 0;
        for ((row, said), planned) in input.rows.iter().zip(said).zip(&self.plan.rows) {
            let slot = &mut self.slots[row.slot];
            if said.is_empty() {
                *slot = None;
                continue;
            }
            *slot = Some(Ready {
                sequence: row.sequence,
                seen: planned.start + planned.count,
                guess: self.head.best(output),
                state: self.head.state(planned.first + planned.count - 1).into(),
            });
            output += 1;
        }
    }
}

/// The token after the row's token `index`: known, just said, or the next of a prompt.
fn following(input: &StepInput, row: &RowInput, said: &Said, index: usize) -> TokenId {
    let known = input.tokens_of(row);
    let place = row.start + index + 1 - row.known_from;
    if place < known.len() {
        return known[place];
    }
    match said.get(place - known.len()) {
        Some(token) => *token,
        None => row.next,
    }
}
