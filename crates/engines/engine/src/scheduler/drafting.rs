//! How many tokens each sequence of a step drafts.
//!
//! A step with a prompt has no drafts: the prompt gets what they would take of the token budget,
//! and they would only make its sequence wait. In other steps every sequence drafts the same
//! number, which [`pace`](super::pace) chooses where that is asked for. Drafts take what blocks
//! are free and preempt nobody. A simulated executor drafts in every step: [`Drafting::EveryStep`].

use contract::FinishReason;

use super::Scheduler;
use super::pace::{Acceptance, Pace, StepTime};
use crate::executor::{Drafting, Limits, StepOutput};
use crate::sequence::Progress;

/// What is known of drafts.
#[derive(Debug)]
pub(super) struct Drafts {
    pace: Pace,
    /// Of the sequence in each slot; `None` before the first step that could have had drafts.
    acceptance: Vec<Option<Acceptance>>,
}

impl Drafts {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            pace: Pace::new(limits.draft_tokens as usize),
            acceptance: vec![None; limits.slots as usize],
        }
    }

    /// Another sequence has the slot now.
    pub(super) fn forget(&mut self, slot: usize) {
        self.acceptance[slot] = None;
    }
}

impl Scheduler {
    /// Most drafts of a sequence in a step of which nobody knows yet whether it has a prompt.
    pub(super) fn drafts_beside_prompts(&self) -> usize {
        match self.limits.drafting {
            Drafting::EveryStep => self.limits.draft_tokens as usize,
            Drafting::WithoutPrompts | Drafting::WherePays => 0,
        }
    }

    /// Adds drafts to a step that only decodes, as far as `budget` tokens and free blocks go.
    pub(super) fn plan_drafts(&mut self, mut budget: usize) {
        if self.limits.draft_tokens == 0 || self.totals.prefill_tokens > 0 {
            return;
        }
        let most = match self.limits.drafting {
            Drafting::EveryStep => return,
            Drafting::WithoutPrompts => self.limits.draft_tokens as usize,
            Drafting::WherePays => self.choose_drafts(),
        };
        for index in 0..self.planned.len() {
            let drafts = self.make_room_for_drafts(self.planned[index].slot, most.min(budget));
            budget -= drafts;
            self.totals.decode_tokens += drafts;
            self.planned[index].drafts = drafts;
        }
    }

    fn choose_drafts(&mut self) -> usize {
        let Drafts { pace, acceptance } = &mut self.drafts;
        for planned in &self.planned {
            acceptance[planned.slot].get_or_insert(pace.newcomer());
        }
        let acceptance = &*acceptance;
        let sequences = self.planned.iter();
        pace.choose(sequences.filter_map(|planned| acceptance[planned.slot].as_ref()))
    }

    /// Finds blocks for up to `wanted` drafts of a sequence and returns for how many. None is
    /// drafted that the answer's length limit would throw away.
    pub(super) fn make_room_for_drafts(&mut self, slot: usize, wanted: usize) -> usize {
        let block_size = self.limits.block_size as usize;
        let sequence = self.slots[slot].as_mut().expect("running slots are taken");
        let wanted = wanted.min(sequence.remaining().saturating_sub(1));
        let known = sequence.tokens.len();
        while sequence.blocks.len() * block_size < known + wanted {
            match self.pool.allocate() {
                Some(block) => sequence.blocks.push(block),
                None => return sequence.blocks.len() * block_size - known,
            }
        }
        wanted
    }

    /// Takes in how long a step of decoding took.
    pub(super) fn learn_times(&mut self, output: &StepOutput) {
        if self.limits.drafting != Drafting::WherePays || self.totals.prefill_tokens > 0 {
            return;
        }
        let drafted = output.rows.iter().map(|row| row.drafted).sum();
        let drafting = output.draft_time.saturating_sub(output.catch_up_time);
        self.drafts.pace.observe(StepTime {
            tokens: output.rows.len() + drafted,
            forward: output.forward_time.as_secs_f64(),
            drafted,
            drafting: drafting.as_secs_f64(),
        });
    }

    /// Takes in how many of a sequence's drafts were right. An answer that ends at a token of its
    /// own is no evidence: drafts behind the end were right or wrong, and nobody knows.
    pub(super) fn learn_acceptance(&mut self, slot: usize, drafted: usize, progress: &Progress) {
        let Drafts { pace, acceptance } = &mut self.drafts;
        if let Some(acceptance) = &mut acceptance[slot]
            && progress.chunk.finish != Some(FinishReason::Stop)
        {
            acceptance.observe(drafted, progress.accepted);
            pace.judge(drafted, progress.accepted);
        }
    }
}
