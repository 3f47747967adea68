//! How fast a worker is, learned from what the router sees of its requests.
//!
//! Nothing about a worker's speed is configured. Dispatch, first token, token times and
//! completion pass through the router anyway, and they are enough:
//!
//! ```text
//! seconds per token      = step × (1 + growth × requests in flight)      while decoding
//! time to first token    = fixed × (1 + growth × requests in flight)
//!                        + prefill × (pending + uncached prompt tokens)
//! ```
//!
//! The fixed part grows with company as steps do, because it consists of them: the rest of the
//! running step, and the steps that share the batch with decodes. When a worker slows down, the
//! many samples of its decoding therefore correct the few samples of its first tokens as well.
//!
//! # Guarantees
//!
//! - **Nobody is presumed fast.** The first samples say how fast a machine is. What is believed
//!   beforehand is only the shape: how many prompt tokens take as long as the fixed part, how
//!   much a further request adds to a step. It is measured in the machine's own time, so it is
//!   the same for a processor and for an accelerator; see [`line`].
//! - **Different only as far as proven.** A worker's first tokens differ from the fleet's by what
//!   its samples show beyond chance; see [`fleet`]. Its first sample, which includes a warm-up, shows nothing.
//!   So workers that are alike cost alike, and a request leaves the one that holds its prompt
//!   for another only if that has been measured to be faster.
//! - **The level is each worker's own, the shape is the fleet's.** How steps grow with company
//!   and first tokens with work shows only while load and prompts vary, and then through noise.
//!   Workers that differ by that noise alone would be loaded differently for good, so both,
//!   relative to the level, are taken from all workers together.
//! - **Changes are known soon.** Samples lose weight with time and with number: with one per
//!   second a worker that changes its speed is known again within a minute, and with fewer after
//!   some twenty; see [`line`].
//! - **One bad sample is one bad sample.** Residuals are clipped at a multiple of what they
//!   usually are.
//! - **Doubt decays.** What was learned long ago fades into what the rest of the fleet
//!   shows, so a worker that once looked slow and was avoided since is tried again.
//!
//! # Elsewhere
//!
//! What the figures are worth in a decision is [`crate::policy`]'s business.

pub mod average;
pub mod fleet;
pub mod line;
pub mod occupancy;
mod slots;
#[cfg(test)]
mod tests;

use std::time::Duration;

use contract::Moment;

use average::Average;
pub use fleet::Fleet;
use line::{Line, Shape};
pub use occupancy::{Interval, Mark, Occupancy};
pub use slots::Slots;

/// After so long without a sample, what is known about a worker begins to fade.
const FRESH: Duration = Duration::from_secs(15);
/// How fast it fades then.
const FADING_SECONDS: f64 = 15.0;

/// How many samples it is worth what is believed beforehand about the growth of steps: many. It
/// is much the same for all machines, and a fleet in balance shows little of it.
const GROWTH_WORTH: f64 = 50.0;
/// And about the fixed part of the time to first token, in tokens: one. It differs by a factor of
/// a hundred between engines, and any two turns show it.
const PIVOT_WORTH: f64 = 1.0;

/// No engine is faster, and dividing by a step must stay possible.
const SHORTEST_STEP_SECONDS: f64 = 1e-6;

/// With fewer samples a worker is new: each of them changes what is known of all.
const NEW: f64 = 4.0;

/// What is believed about a worker before anything has served anything. From the first sample on
/// only the ratios count.
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

/// How long steps and first tokens take, in seconds.
struct Speed {
    /// Of a request that is alone.
    step: f64,
    /// What each further request adds.
    step_growth: f64,
    /// Without anything to compute.
    first_token: f64,
    /// For each token to compute.
    prefill: f64,
}

/// All that is learned about one worker.
#[derive(Debug)]
pub struct Learner {
    /// Seconds between tokens, by requests in flight.
    decode: Line,
    /// Time to first token by tokens to compute, both as they would be without company.
    prefill: Line,
    output_tokens: Average,
    residence: Average,
    hit_rate: Average,
    /// What all workers show; `None` as long as only this one's own samples are known.
    fleet: Option<Fleet>,
    /// When speed was last seen.
    sampled: Option<Moment>,
}

impl Learner {
    pub fn new(priors: &Priors) -> Self {
        let residence = priors.output_tokens * priors.step_seconds * 2.0;
        Self {
            decode: Line::new(Shape {
                intercept: priors.step_seconds,
                slope: priors.step_growth_seconds,
                worth: GROWTH_WORTH,
            }),
            prefill: Line::new(Shape {
                intercept: priors.first_token_steps * priors.step_seconds,
                slope: 1.0 / priors.prefill_tokens_per_second,
                worth: PIVOT_WORTH,
            }),
            output_tokens: Average::new(priors.output_tokens),
            residence: Average::new(residence),
            hit_rate: Average::new(0.5),
            fleet: None,
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
        let company = 1.0 + self.growth() * f64::from(seen.in_flight);
        let (work, after) = (seen.work_tokens as f64, seen.after.as_secs_f64());
        self.prefill
            .observe(work / company, after / company, 1.0, now);
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
        let growth = self.growth();
        let before = (self.decode.weight() >= NEW).then(|| self.step_alone(growth));
        self.decode
            .observe(others, seconds / f64::from(tokens), weight, now);
        if let Some(before) = before {
            let times = self.step_alone(growth) / before.max(SHORTEST_STEP_SECONDS);
            self.prefill.raise_intercept(times);
        }
        self.sampled = Some(now);
    }

    /// A request that had begun to answer is over.
    pub fn ended(&mut self, output_tokens: u32, residence: Duration, now: Moment) {
        self.output_tokens.observe(f64::from(output_tokens), now);
        self.residence.observe(residence.as_secs_f64(), now);
    }

    /// Seconds of a step alone: what the worker shows at its usual load, less what that adds.
    fn step_alone(&self, growth: f64) -> f64 {
        let usual = self.decode.center().max(0.0);
        self.decode.at(usual) / (1.0 + growth * usual)
    }

    /// How much steps grow with company, as far as is known.
    fn growth(&self) -> f64 {
        self.fleet
            .map_or_else(|| self.own_growth(), |fleet| fleet.growth)
    }

    /// How much steps grow with company here, relative to a step alone. Requests that run together
    /// take no longer than one after the other, whatever a line through few or bent samples says.
    fn own_growth(&self) -> f64 {
        let alone = self.decode.intercept().max(self.decode.slope());
        self.decode.slope() / alone.max(SHORTEST_STEP_SECONDS)
    }

    /// Takes over what all workers show.
    pub fn set_fleet(&mut self, fleet: Fleet) {
        self.fleet = Some(fleet);
    }

    /// The current estimates.
    pub fn outlook(&self) -> Outlook {
        self.outlook_trusted(1.0)
    }

    /// What to believe now: old samples fade into what the fleet shows, so that a worker avoided
    /// for its slowness gets to show whether it still is.
    pub fn outlook_at(&self, now: Moment) -> Outlook {
        self.outlook_trusted(self.trust(now))
    }

    /// How far what was seen holds now, between 0 and 1.
    fn trust(&self, now: Moment) -> f64 {
        let Some(at) = self.sampled else {
            return 0.0;
        };
        let age = now.since(at).saturating_sub(FRESH).as_secs_f64();
        (-age / FADING_SECONDS).exp()
    }

    /// The worker's own figures as far as they are trusted, between 0 and 1, and for the rest the
    /// fleet's.
    fn outlook_trusted(&self, trust: f64) -> Outlook {
        let Some(fleet) = &self.fleet else {
            return self.figures(Speed {
                step: self.decode.intercept(),
                step_growth: self.decode.slope(),
                first_token: self.prefill.intercept(),
                prefill: self.prefill.slope(),
            });
        };
        let step = fleet.step_of(self, trust);
        let level = fleet.first_token_of(self, trust);
        let mix = |own: &Average, fleet: f64| (fleet + (own.value() - fleet) * trust) as f32;
        Outlook {
            output_tokens: mix(&self.output_tokens, fleet.output_tokens),
            residence_seconds: mix(&self.residence, fleet.residence),
            hit_rate: mix(&self.hit_rate, fleet.hit_rate),
            ..self.figures(Speed {
                step,
                step_growth: step * fleet.growth,
                first_token: level * fleet.pivot,
                prefill: level,
            })
        }
    }

    fn figures(&self, speed: Speed) -> Outlook {
        let first_token_steps = speed.first_token / speed.step.max(SHORTEST_STEP_SECONDS);
        Outlook {
            prefill_seconds_per_token: speed.prefill as f32,
            first_token_steps: first_token_steps as f32,
            step_seconds: speed.step as f32,
            step_growth_seconds: speed.step_growth as f32,
            output_tokens: self.output_tokens.value() as f32,
            residence_seconds: self.residence.value() as f32,
            hit_rate: self.hit_rate.value() as f32,
        }
    }

    /// Whether so little of its speed was seen that each sample changes what is known of all.
    pub fn is_new(&self) -> bool {
        self.prefill.weight() < NEW
    }
}
