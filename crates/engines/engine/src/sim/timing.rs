//! How long a step takes.
//!
//! ```text
//! step = max(base, computed tokens × per_token)      weights are read once, and computing
//!                                                    hides behind that until it is longer;
//!                                                    the sum of both where it does not hide
//!      + per_sequence    × rows                      sampling, launch and table upkeep
//!      + per_context_token × context tokens          KV read by attention
//!      + wide_batch, if rows > narrow_rows          kernels of the next larger batch size
//!      + attention_per_pair × (query, key) pairs     attention arithmetic of prefill
//!      + draft_per_token × longest draft             drafting is one token after the other
//!      + verify_per_token × drafted tokens           more rows in the same matrices
//! ```
//!
//! *Computed tokens* are those of prefill chunks and one for each decoding sequence, so a
//! short prefill in a decode step is nearly free and a long one costs its arithmetic. A
//! step without prefill has neither pairs nor a second term in the maximum.
//!
//! Workers that share a machine also share its cores and its memory's bandwidth: [`Sharing`].

use std::time::Duration;

use crate::executor::{Batch, Phase};

/// Seconds for each unit of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// A step with nothing in it: all weights read once.
    pub base: f64,
    pub per_token: f64,
    /// Whether computing hides behind reading weights. It does on an accelerator; a core of a
    /// processor does one after the other.
    pub overlaps: bool,
    pub per_sequence: f64,
    pub per_context_token: f64,
    /// What a step of more than `narrow_rows` rows takes longer.
    pub wide_batch: f64,
    pub narrow_rows: u32,
    pub attention_per_pair: f64,
    pub draft_per_token: f64,
    pub verify_per_token: f64,
}

/// What part of its time a step takes while few of the workers that share a machine compute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sharing {
    /// While one worker computes, two, and so on; 1 by default.
    parts: Vec<f64>,
}

impl Sharing {
    pub fn new(parts: Vec<f64>) -> Self {
        Self { parts }
    }

    /// While so many workers compute, the one in question included.
    pub fn part(&self, computing: usize) -> f64 {
        let index = computing.saturating_sub(1);
        self.parts.get(index).copied().unwrap_or(1.0)
    }
}

/// What a step has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepLoad {
    pub rows: u64,
    pub computed_tokens: u64,
    pub context_tokens: u64,
    pub attention_pairs: u64,
    pub longest_draft: u64,
    pub drafted_tokens: u64,
}

impl StepLoad {
    pub fn of(batch: &Batch<'_>) -> Self {
        let mut load = Self {
            rows: batch.rows.len() as u64,
            ..Self::default()
        };
        for row in &batch.rows {
            let (start, count, drafts) = (row.start as u64, row.count as u64, row.drafts as u64);
            load.computed_tokens += count;
            load.context_tokens += start;
            load.longest_draft = load.longest_draft.max(drafts);
            load.drafted_tokens += drafts;
            if row.phase == Phase::Prefill {
                load.attention_pairs += count * start + count * (count + 1) / 2;
            }
        }
        load
    }
}

impl Timing {
    pub fn step(&self, load: &StepLoad) -> Duration {
        let computing = load.computed_tokens as f64 * self.per_token;
        let weights = match self.overlaps {
            true => self.base.max(computing),
            false => self.base + computing,
        };
        let seconds = weights
            + load.rows as f64 * self.per_sequence
            + load.context_tokens as f64 * self.per_context_token
            + self.wide_batch * f64::from(u8::from(load.rows > u64::from(self.narrow_rows)))
            + load.attention_pairs as f64 * self.attention_per_pair
            + load.longest_draft as f64 * self.draft_per_token
            + load.drafted_tokens as f64 * self.verify_per_token;
        Duration::from_secs_f64(seconds)
    }

    /// What of [`step`](Self::step) is drafting; the rest is the forward pass.
    pub fn draft(&self, load: &StepLoad) -> Duration {
        Duration::from_secs_f64(load.longest_draft as f64 * self.draft_per_token)
    }
}
