//! What all workers show together, and how far one of them is proven to differ.
//!
//! Two workers that are alike never show the same times. If each were judged by its own few
//! samples, requests would leave a worker that holds their prompt for one that only looks
//! faster. So a worker is taken to be like the fleet, and differs from it by what its samples
//! prove: a difference within the doubt about it counts nothing, one far beyond it counts in
//! full ([`proven`]). As the samples become many the doubt vanishes.

use contract::Moment;

use super::Learner;
use super::average::Average;
use super::line::{Line, pooled_pivot};

/// Usual errors of a level that a difference must exceed to count. Chosen in the loop of the
/// tests; with seeds that were not used for that, 1 of 2.7 million turns left an idle worker for
/// its equal.
const DOUBTS: f64 = 3.0;

/// By how much the levels of a fleet's workers differ, in a fleet of one kind: a tenth.
const DIVERSITY: f64 = 0.1;

/// A level is never less, so that its logarithm stays a number.
const LEAST_LEVEL: f64 = 1e-9;

/// What a worker is trusted at least beside others, however old its samples are.
const LEAST_TRUST: f64 = 1e-6;

/// What a worker without samples counts in a mean, so that there is one.
const LEAST_WEIGHT: f64 = 1e-30;

/// The workers' common shape, and their usual levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fleet {
    /// How much a step grows with each further request, as a share of the step of a request
    /// that is alone.
    pub(super) growth: f64,
    /// The fixed part of the time to first token, in tokens that take as long.
    pub(super) pivot: f64,
    /// Seconds per token, the fixed part's tokens included.
    pub(super) first_token: f64,
    /// Seconds of a step alone.
    pub(super) step: f64,
    pub(super) output_tokens: f64,
    pub(super) residence: f64,
    pub(super) hit_rate: f64,
}

impl Fleet {
    /// `None` if no worker has shown anything yet.
    pub fn of<'a>(learners: impl Iterator<Item = &'a Learner>, now: Moment) -> Option<Self> {
        let known: Vec<_> = learners.filter(|one| one.sampled.is_some()).collect();
        if known.is_empty() {
            return None;
        }
        let trust = |one: &Learner| one.trust(now).max(LEAST_TRUST);
        // The shape is the model's and the engine's; it does not age.
        let growth = mean(&known, |one| (one.own_growth(), one.decode.determined()));
        let pivot = pooled_pivot(known.iter().map(|one| &one.prefill));
        // Levels do. One known by a few samples counts less as well, in inverse proportion to
        // the variance that its doubt and the fleet's diversity make.
        let usual = |figure: &dyn Fn(&Learner) -> (f64, &Line)| {
            let log = |one: &Learner| {
                let (level, line) = figure(one);
                let variance = line.doubt().powi(2) + DIVERSITY * DIVERSITY;
                (level.max(LEAST_LEVEL).ln(), trust(one) / variance)
            };
            // The geometric mean, which no single slow worker dominates.
            mean(&known, log).exp()
        };
        let traffic = |figure: fn(&Learner) -> &Average| {
            mean(&known, |one| (figure(one).value(), trust(one)))
        };
        Some(Self {
            growth,
            pivot,
            first_token: usual(&|one| (first_token(one, pivot), &one.prefill)),
            step: usual(&|one| (one.step_alone(growth), &one.decode)),
            output_tokens: traffic(|one| &one.output_tokens),
            residence: traffic(|one| &one.residence),
            hit_rate: traffic(|one| &one.hit_rate),
        })
    }

    /// The level of a worker's time to first token, as far as it is proven and trusted.
    pub(super) fn first_token_of(&self, learner: &Learner, trust: f64) -> f64 {
        let own = first_token(learner, self.pivot);
        level(self.first_token, own, learner.prefill.doubt(), trust)
    }

    /// Seconds of a worker's step alone, as far as they are trusted. Each sample is the mean of
    /// many steps and proves what it says.
    pub(super) fn step_of(&self, learner: &Learner, trust: f64) -> f64 {
        let own = learner.step_alone(self.growth);
        let doubt = if learner.decode.weight() > 0.0 {
            0.0
        } else {
            f64::INFINITY
        };
        level(self.step, own, doubt, trust)
    }
}

/// Seconds per token at the usual amount of work, the fixed part's tokens included.
fn first_token(learner: &Learner, pivot: f64) -> f64 {
    let line = &learner.prefill;
    line.at(line.center()) / (pivot + line.center())
}

/// The mean of a figure that comes with its weight.
fn mean(learners: &[&Learner], figure: impl Fn(&Learner) -> (f64, f64)) -> f64 {
    let (mut sum, mut known) = (0.0, 0.0);
    for learner in learners {
        let (value, weight) = figure(learner);
        let weight = weight.max(LEAST_WEIGHT);
        sum += value * weight;
        known += weight;
    }
    sum / known
}

/// A worker's level. Samples that are old are trusted less and are also as good as fewer, so
/// in the end nothing remains of a difference, and a worker that was avoided is one of all again.
fn level(fleet: f64, own: f64, doubt: f64, trust: f64) -> f64 {
    let difference = (own.max(LEAST_LEVEL) / fleet).ln();
    let doubt = DOUBTS * doubt / trust.sqrt();
    fleet * (trust * proven(difference, doubt)).exp()
}

/// What remains of a difference, given how large it may be by chance: the positive-part rule
/// of James and Stein.
pub(super) fn proven(difference: f64, doubt: f64) -> f64 {
    // Also if there is nothing to compute the doubt from.
    if difference.abs() > doubt {
        difference * (1.0 - (doubt / difference).powi(2))
    } else {
        0.0
    }
}
