//! An EAGLE-3 head that guesses from the target's states.
//!
//! After a step it sees the states of every token that stays, beside the token that follows,
//! and holds a first guess ready. Before the next step it goes on from there by itself: only
//! then the blocks reach as far as its guesses do. While nobody asks it to guess, it puts the
//! states by and sees them together, at the latest when a block is full: whoever finds a block
//! finds what the head made of it.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, TokenId};
use engine::executor::SequenceId;

use super::super::{ExecutorOptions, RowInput, StepInput};
use super::StepTokens;
use crate::buffer::Rows;
use crate::eagle3::{Head, LoadedHead, States};
use crate::model::Model;
use crate::plan::{Plan, PlanRow};
use crate::weights::WeightsError;

#[derive(Debug)]
pub(in crate::executor) struct EagleDrafter {
    head: Head,
    clock: Clock,
    plan: Plan,
    seats: Vec<Option<Seat>>,
    /// States that a pass goes on from.
    states: Rows,
    /// The target's place of each token of a pass.
    places: Vec<usize>,
    /// Rows of the step that a pass is about.
    rows: Vec<usize>,
    /// Most tokens of a pass.
    most: usize,
}

/// What the head knows of a sequence.
#[derive(Debug)]
struct Seat {
    sequence: SequenceId,
    /// Positions that the head has seen.
    seen: usize,
    /// Where the next chain begins; none before anything was seen.
    ready: Option<Ready>,
    put_by: PutBy,
}

#[derive(Clone, Debug)]
struct Ready {
    guess: TokenId,
    /// The head's own, at the last position that it has seen.
    state: Arc<[f32]>,
}

/// Positions that the head has not seen yet, after those that it has.
#[derive(Debug, Default)]
struct PutBy {
    /// The tokens that follow them.
    follow: Vec<TokenId>,
    /// The target's taps there, side by side.
    states: Vec<f32>,
}

impl EagleDrafter {
    pub(super) fn new(head: &LoadedHead, options: &ExecutorOptions) -> Result<Self, WeightsError> {
        let head = Head::new(head, &options.model)?;
        Ok(Self {
            clock: Clock::start(),
            plan: Plan::new(options.model.block_size),
            seats: (0..options.slots).map(|_| None).collect(),
            states: head.outputs(options.slots)?,
            places: Vec::new(),
            rows: Vec::new(),
            most: options.model.step_tokens,
            head,
        })
    }

    /// The seat of a row whose positions the head knows up to those of this step.
    fn seat(&self, row: &RowInput) -> Option<&Seat> {
        let known = |seat: &&Seat| {
            seat.sequence == row.sequence && seat.seen + seat.put_by.follow.len() == row.start
        };
        self.seats[row.slot].as_ref().filter(known)
    }

    /// Guesses, and the time that went into what was put by.
    pub(super) fn draft(
        &mut self,
        input: &StepInput,
        target: &Model,
        drafts: &mut [Vec<TokenId>],
    ) -> Duration {
        let began = self.clock.now();
        for row in input.rows.iter().filter(|row| row.drafts > 0) {
            if self.seat(row).is_some() {
                self.catch_up(input, row, target);
            }
        }
        let missed = self.clock.now() - began;
        let mut chains: Vec<(usize, Ready)> = Vec::new();
        for (index, row) in input.rows.iter().enumerate() {
            if row.drafts > 0
                && let Some(seat) = self.seat(row)
                && let Some(ready) = &seat.ready
            {
                drafts[index].push(ready.guess);
                chains.push((index, ready.clone()));
            }
        }
        for guess in 1.. {
            chains.retain(|(index, _)| input.rows[*index].drafts > guess);
            if chains.is_empty() {
                break;
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
        missed
    }

    pub(super) fn heard(
        &mut self,
        input: &StepInput,
        said: &[StepTokens],
        target: &Model,
        plan: &Plan,
    ) {
        self.plan.clear();
        self.places.clear();
        self.rows.clear();
        for (index, (row, planned)) in input.rows.iter().zip(&plan.rows).enumerate() {
            if self.may_wait(row, planned, &said[index]) {
                let follows = following(input, row, &said[index], 0);
                self.put_by(row.slot, planned, follows, target);
                continue;
            }
            let said = &said[index];
            let stay = row.count + said.len().saturating_sub(1);
            let follow = (0..stay).map(|index| following(input, row, said, index));
            let blocks = input.blocks_of(row).iter().copied();
            let outputs = usize::from(!said.is_empty());
            self.plan.push(follow, row.start, blocks, outputs);
            self.places.extend(planned.first..planned.first + stay);
            self.rows.push(index);
        }
        if !self.rows.is_empty() {
            let places = &self.places;
            let tap = |tap: usize, index: usize| target.tapped(tap, places[index]);
            let states = States::Target(&tap);
            self.head.pass(&self.plan, &states, target.embeddings());
        }
        let mut output = 0;
        for (index, planned) in self.rows.iter().zip(&self.plan.rows) {
            let row = &input.rows[*index];
            let ready = (!said[*index].is_empty()).then(|| Ready {
                guess: self.head.best(output),
                state: self.head.state(planned.first + planned.count - 1).into(),
            });
            output += usize::from(ready.is_some());
            self.seats[row.slot] = Some(Seat {
                sequence: row.sequence,
                seen: planned.start + planned.count,
                ready,
                put_by: PutBy::default(),
            });
        }
        for (row, said) in input.rows.iter().zip(said) {
            let end = row.start + row.count + said.len().saturating_sub(1);
            let waits = |seat: &Seat| seat.put_by.follow.len();
            let waiting = self.seats[row.slot].as_ref().map_or(0, waits);
            if end.is_multiple_of(plan.block_size) || waiting == self.most {
                self.catch_up(input, row, target);
            }
        }
    }

    /// Whether nothing was guessed for a row that says a token.
    fn may_wait(&self, row: &RowInput, planned: &PlanRow, said: &StepTokens) -> bool {
        planned.count == 1 && said.len() == 1 && self.seat(row).is_some()
    }

    /// Keeps one position of the sequence in a slot, and the token that follows it, for later.
    fn put_by(&mut self, slot: usize, planned: &PlanRow, follows: TokenId, target: &Model) {
        if let Some(seat) = &mut self.seats[slot] {
            seat.put_by.follow.push(follows);
            for tap in 0..self.head.taps() {
                let state = target.tapped(tap, planned.first);
                seat.put_by.states.extend_from_slice(state);
            }
        }
    }

    /// Sees what was put by of a row's sequence.
    fn catch_up(&mut self, input: &StepInput, row: &RowInput, target: &Model) {
        let Some(seat) = &mut self.seats[row.slot] else {
            return;
        };
        let count = seat.put_by.follow.len();
        if count == 0 {
            return;
        }
        self.plan.clear();
        let blocks = input.blocks_of(row).iter().copied();
        self.plan
            .push(seat.put_by.follow.drain(..), seat.seen, blocks, 1);
        let (states, taps) = (&seat.put_by.states, self.head.taps());
        let width = states.len() / (count * taps);
        let tap = |tap: usize, index: usize| &states[(index * taps + tap) * width..][..width];
        let states = States::Target(&tap);
        self.head.pass(&self.plan, &states, target.embeddings());
        seat.put_by.states.clear();
        seat.seen += count;
        seat.ready = Some(Ready {
            guess: self.head.best(0),
            state: self.head.state(count - 1).into(),
        });
    }
}

/// The token after the row's token `index`: known, just said, or the next of a prompt.
fn following(input: &StepInput, row: &RowInput, said: &StepTokens, index: usize) -> TokenId {
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
