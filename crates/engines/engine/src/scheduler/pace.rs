//! How many drafts pay.
//!
//! A step's time is a fixed part and a part for each token, both learned from steps as they
//! happen. A sequence's drafts are right with a probability that is learned too; a new one is
//! taken to be like those before it. From these follows the number of drafts that brings most
//! tokens per second; none, when drafting does not pay.

#[cfg(test)]
mod tests;

/// Weight of the newest observation.
const NEWEST: f64 = 0.05;
/// Before any draft was judged.
const HOPEFUL: f64 = 0.6;
/// Drafts that are made before anybody asks whether they pay, of several lengths, so that it is
/// known what a longer one costs.
const TRIALS: u32 = 24;
const LONGEST_TRIAL: usize = 3;
/// Gains below are not worth the trouble.
const LEAST_GAIN: f64 = 1.02;
/// Steps without drafts after which one is tried, to notice that times have changed.
const PROBE_AFTER: u32 = 32;

/// What steps cost: a straight line through them, old ones fading.
#[derive(Clone, Debug, Default)]
struct Line {
    weight: f64,
    tokens: f64,
    seconds: f64,
    tokens_squared: f64,
    product: f64,
}

impl Line {
    fn observe(&mut self, tokens: f64, seconds: f64) {
        let fade = |sum: &mut f64, value: f64| *sum = *sum * (1.0 - NEWEST) + value * NEWEST;
        fade(&mut self.weight, 1.0);
        fade(&mut self.tokens, tokens);
        fade(&mut self.seconds, seconds);
        fade(&mut self.tokens_squared, tokens * tokens);
        fade(&mut self.product, tokens * seconds);
    }

    /// Seconds for so many tokens; `None` before anything was seen.
    fn seconds(&self, tokens: f64) -> Option<f64> {
        if self.weight == 0.0 {
            return None;
        }
        let (mean_tokens, mean) = (self.tokens / self.weight, self.seconds / self.weight);
        let spread = self.tokens_squared / self.weight - mean_tokens * mean_tokens;
        let joint = self.product / self.weight - mean_tokens * mean;
        // All steps alike: one more token is taken to cost a fifth of the first.
        let slope = if spread < 1e-6 {
            mean / (mean_tokens + 4.0)
        } else {
            (joint / spread).max(0.0)
        };
        Some((mean + slope * (tokens - mean_tokens)).max(mean * 0.05))
    }
}

/// How often a sequence's drafts were right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Acceptance {
    rate: f64,
    /// Steps without a draft.
    idle: u32,
}

impl Default for Acceptance {
    fn default() -> Self {
        Self {
            rate: HOPEFUL,
            idle: 0,
        }
    }
}

impl Acceptance {
    /// Takes in that the first `accepted` of `drafted` drafts were right.
    pub(super) fn observe(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            self.idle += 1;
            return;
        }
        self.idle = 0;
        // Drafts after the first wrong one were not judged.
        let judged = drafted.min(accepted + 1);
        for index in 0..judged {
            let right = if index < accepted { 1.0 } else { 0.0 };
            self.rate += (right - self.rate) * NEWEST * 2.0;
        }
    }

    /// Expected tokens of a step with so many drafts.
    fn tokens(&self, drafts: usize) -> f64 {
        (0..=drafts).map(|index| self.rate.powi(index as i32)).sum()
    }
}

/// How long a step of decoding took.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepTime {
    /// Tokens that were computed, drafts included.
    pub(super) tokens: usize,
    /// Seconds of the forward pass.
    pub(super) forward: f64,
    pub(super) drafted: usize,
    /// Seconds that went into making the drafts.
    pub(super) drafting: f64,
}

/// Chooses the number of drafts.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    most: usize,
    line: Line,
    /// Seconds to make one draft.
    guess: f64,
    /// All sequences together.
    common: Acceptance,
    /// Steps of a sequence that had drafts.
    tried: u32,
}

impl Pace {
    /// Never more than `most`.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            line: Line::default(),
            guess: 0.0,
            common: Acceptance::default(),
            tried: 0,
        }
    }

    /// What a sequence is taken for of which nothing is known yet.
    pub(super) fn newcomer(&self) -> Acceptance {
        Acceptance {
            rate: self.common.rate,
            idle: 0,
        }
    }

    /// Takes in what became of a sequence's drafts in a step.
    pub(super) fn judge(&mut self, drafted: usize, accepted: usize) {
        self.common.observe(drafted, accepted);
        self.tried = self.tried.saturating_add(u32::from(drafted > 0));
    }

    /// Takes in a step of decoding.
    pub(super) fn observe(&mut self, step: StepTime) {
        self.line.observe(step.tokens as f64, step.forward);
        if step.drafted > 0 {
            let each = step.drafting / step.drafted as f64;
            self.guess += (each - self.guess) * if self.guess == 0.0 { 1.0 } else { NEWEST };
        }
    }

    /// How many drafts each sequence of a step should get.
    pub(super) fn choose<'a>(
        &self,
        sequences: impl Iterator<Item = &'a Acceptance> + Clone,
    ) -> usize {
        if self.tried < TRIALS {
            return self.most.min(1 + self.tried as usize % LONGEST_TRIAL);
        }
        let count = sequences.clone().count() as f64;
        let Some(plain) = self.line.seconds(count) else {
            return self.most.min(1);
        };
        let speed = |drafts: usize| {
            let tokens: f64 = sequences.clone().map(|one| one.tokens(drafts)).sum();
            let extra = count * drafts as f64;
            let seconds = self.line.seconds(count + extra).unwrap_or(plain);
            tokens / (seconds + extra * self.guess)
        };
        let least = speed(0) * LEAST_GAIN;
        let best = (1..=self.most)
            .map(|drafts| (drafts, speed(drafts)))
            .filter(|(_, speed)| *speed > least)
            .max_by(|one, other| one.1.total_cmp(&other.1));
        match best {
            Some((drafts, _)) => drafts,
            None if sequences.clone().any(|one| one.idle >= PROBE_AFTER) => self.most.min(1),
            None => 0,
        }
    }
}
