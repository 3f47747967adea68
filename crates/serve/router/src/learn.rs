//! How fast a worker is, learned from what the router sees of its requests.
//!
//! Nothing about a worker's speed is configured. Dispatch, first token, token times and
//! completion pass through the router anyway, and they are enough:
//!
//! ```text
//! seconds per token      = step + step_growth × requests in flight       while decoding
//! time to first token    = first_token_steps × seconds per token
//!                        + prefill × (pending + uncached prompt tokens)
//! ```
//!
//! The fixed part of the time to first token is counted in steps, because what it consists
//! of (the rest of the running step, the steps that share the batch with decodes) grows and
//! shrinks with them: when a worker slows down, the many samples of its decoding correct
//! the few samples of its prefill as well.
//!
//! # Guarantees
//!
//! - **Wrong for a minute at most.** Samples lose weight with time and with number, so a
//!   worker that changes its speed is known again soon; see [`line`].
//! - **One bad sample is one bad sample.** Residuals are clipped at a multiple of what they
//!   usually are.
//! - **The level is each worker's own, the shape is the fleet's.** How steps grow with
//!   company shows only while the load varies, and then through noise. Workers that differ
//!   by that noise alone would be loaded differently for good, so growth, relative to the
//!   step, is averaged over the fleet.
//! - **Doubt decays.** What was learned long ago fades into what the rest of the fleet
//!   shows, so a worker that once looked slow and was avoided since is tried again.
//!
//! # Elsewhere
//!
//! What the figures are worth in a decision is [`crate::policy`]'s business.

pub mod average;
pub mod line;
pub mod occupancy;
mod slots;
#[cfg(test)]
mod tests;

use std::time::Duration;

use contract::Moment;

use average::Average;
use line::{Line, Shape};
pub use occupancy::{Interval, Mark, Occupancy};
pub use slots::Slots;

/// After so long without a sample, what is known about a worker begins to fade.
const FRESH: Duration = Duration::from_secs(15);
/// How fast it fades then.
const FADING_SECONDS: f64 = 15.0;

/// No engine is faster, and dividing by a step must stay possible.
const SHORTEST_STEP_SECONDS: f64 = 1e-6;

/// What is believed about a worker before it has served anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priors {
    pub prefill_tokens_per_second: f64,
    /// Time between two tokens of a request that is alone.
    pub step_seconds: f64,
    /// How much each further request adds to it.
    pub step_growth_seconds: f64,
    /// The fixed part of the time to first token.
    pub first_token_steps: f64,
    pub output_tokens: f64,
}

impl Default for Priors {
    /// A model of 70 billion parameters on an accelerator of the H100 class, in round
    /// figures.
    fn default() -> Self {
        Self {
            prefill_tokens_per_second: 8000.0,
            step_seconds: 0.030,
            step_growth_seconds: 0.0003,
            first_token_steps: 2.0,
            output_tokens: 500.0,
        }
    }
}

/// What is believed about a worker now. Small, because every pick reads one per worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    pub prefill_seconds_per_token: f32,
    pub first_token_steps: f32,
    pub step_seconds: f32,
    pub step_growth_seconds: f32,
    pub output_tokens: f32,
    /// How long a request keeps its slot.
    pub residence_seconds: f32,
    /// Share of prompt tokens that come out of the cache.
    pub hit_rate: f32,
}

impl Outlook {
    /// Seconds between two tokens of a request that shares the worker with so many others.
    pub fn step(&self, in_flight: f32) -> f32 {
        self.step_seconds + self.step_growth_seconds * in_flight
    }

    /// Seconds from dispatch to the first token, with so many tokens to compute until then.
    pub fn first_token(&self, in_flight: f32, tokens: f32) -> f32 {
        self.first_token_steps * self.step(in_flight) + self.prefill_seconds_per_token * tokens
    }

    /// Between two outlooks; 0 is the first.
    fn toward(self, other: Self, share: f32) -> Self {
        let mix = |mine: f32, theirs: f32| mine + (theirs - mine) * share;
        Self {
            prefill_seconds_per_token: mix(
                self.prefill_seconds_per_token,
                other.prefill_seconds_per_token,
            ),
            first_token_steps: mix(self.first_token_steps, other.first_token_steps),
            step_seconds: mix(self.step_seconds, other.step_seconds),
            step_growth_seconds: mix(self.step_growth_seconds, other.step_growth_seconds),
            output_tokens: mix(self.output_tokens, other.output_tokens),
            residence_seconds: mix(self.residence_seconds, other.residence_seconds),
            hit_rate: mix(self.hit_rate, other.hit_rate),
        }
    }

    /// The mean of several; `None` of none.
    pub fn mean(outlooks: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut mean = Self::default();
        let mut count = 0.0;
        for outlook in outlooks {
            count += 1.0;
            mean = mean.toward(outlook, 1.0 / count);
        }
        (count > 0.0).then_some(mean)
    }
}

/// A first token, as it bears on what there is to learn.
#[derive(Clone, Copy, Debug)]
pub struct FirstToken {
    pub after: Duration,
    /// Requests that were on the worker at dispatch, without this one.
    pub in_flight: u32,
    /// Tokens to compute at dispatch: pending ones and this request's own.
    pub work_tokens: u64,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    /// It had to wait for a slot of the engine, so its time says nothing about speed.
    pub waited: bool,
}

/// All that is learned about one worker.
#[derive(Debug)]
pub struct Learner {
    /// Seconds between tokens, by requests in flight.
    decode: Line,
    /// Time to first token by tokens to compute, both in steps.
    prefill: Line,
    output_tokens: Average,
    residence: Average,
    hit_rate: Average,
    /// How much a step grows with each further request, as a share of the step of a request
    /// that is alone; `None` as long as only this worker's own samples are known.
    growth: Option<f64>,
    /// When speed was last seen.
    sampled: Option<Moment>,
}

impl Learner {
    pub fn new(priors: &Priors) -> Self {
        let prefill = 1.0 / priors.prefill_tokens_per_second;
        let residence = priors.output_tokens * priors.step_seconds * 2.0;
        Self {
            decode: Line::new(Shape {
                intercept: priors.step_seconds,
                slope: priors.step_growth_seconds,
                spread: 16.0,
            }),
            prefill: Line::new(Shape {
                intercept: priors.first_token_steps,
                slope: prefill,
                spread: 1000.0 / priors.step_seconds,
            }),
            output_tokens: Average::new(priors.output_tokens),
            residence: Average::new(residence),
            hit_rate: Average::new(0.5),
            growth: None,
            sampled: None,
        }
    }

    pub fn first_token(&mut self, seen: &FirstToken, now: Moment) {
        if seen.prompt_tokens > 0 {
            let hit = f64::from(seen.cached_tokens) / f64::from(seen.prompt_tokens);
            self.hit_rate.observe(hit, now);
        }
        if seen.waited {
            return;
        }
        let (alone, growth) = self.step();
        let step = (alone + growth * f64::from(seen.in_flight)).max(SHORTEST_STEP_SECONDS);
        let (work, after) = (seen.work_tokens as f64, seen.after.as_secs_f64());
        self.prefill.observe(work / step, after / step, 1.0, now);
        self.sampled = Some(now);
    }

    /// Tokens that came within an interval, and how full the worker was meanwhile.
    pub fn progress(&mut self, tokens: u32, during: Interval, now: Moment) {
        let seconds = during.elapsed.as_secs_f64();
        if tokens == 0 || seconds <= 0.0 {
            return;
        }
        // This request is itself in flight; the others are what it shares the worker with.
        let others = (during.in_flight - 1.0).max(0.0);
        // All requests of a worker see the same steps: together they are one witness.
        let weight = 1.0 / during.in_flight.max(1.0);
        self.decode
            .observe(others, seconds / f64::from(tokens), weight, now);
        self.sampled = Some(now);
    }

    /// A request that had begun to answer is over.
    pub fn ended(&mut self, output_tokens: u32, residence: Duration, now: Moment) {
        self.output_tokens.observe(f64::from(output_tokens), now);
        self.residence.observe(residence.as_secs_f64(), now);
    }

    /// How much steps grow with company, and how well that is known, between 0 and 1.
    pub fn own_growth(&self) -> (f64, f64) {
        let alone = self.decode.intercept().max(SHORTEST_STEP_SECONDS);
        (self.decode.slope() / alone, self.decode.determined())
    }

    /// Takes over what the fleet shows of [`own_growth`](Self::own_growth).
    pub fn set_growth(&mut self, growth: f64) {
        self.growth = Some(growth);
    }

    /// Seconds of a step alone, and what each further request adds: at the usual load what
    /// this worker shows, and from there as the fleet shows.
    fn step(&self) -> (f64, f64) {
        let Some(growth) = self.growth else {
            return (self.decode.intercept(), self.decode.slope());
        };
        let usual = self.decode.center().max(0.0);
        let alone = self.decode.at(usual) / (1.0 + growth * usual);
        (alone, growth * alone)
    }

    /// The current estimates.
    pub fn outlook(&self) -> Outlook {
        let (step, growth) = self.step();
        Outlook {
            prefill_seconds_per_token: self.prefill.slope() as f32,
            first_token_steps: self.prefill.intercept() as f32,
            step_seconds: step as f32,
            step_growth_seconds: growth as f32,
            output_tokens: self.output_tokens.value() as f32,
            residence_seconds: self.residence.value() as f32,
            hit_rate: self.hit_rate.value() as f32,
        }
    }

    /// Whether speed was seen lately.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.sampled.is_some_and(|at| now.since(at) <= FRESH)
    }

    /// What to believe now, given what the rest of the fleet shows: old samples fade into
    /// that, so that a worker avoided for its slowness gets to show whether it still is.
    pub fn outlook_beside(&self, fleet: Outlook, now: Moment) -> Outlook {
        let own = self.outlook();
        let Some(at) = self.sampled else {
            return fleet;
        };
        let age = now.since(at).saturating_sub(FRESH).as_secs_f64();
        own.toward(fleet, (1.0 - (-age / FADING_SECONDS).exp()) as f32)
    }
}
