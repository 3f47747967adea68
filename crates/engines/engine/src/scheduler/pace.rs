//! How many guesses pay.
//!
//! A step's time is a fixed part and a part for each token, both learned from steps as they
//! happen. A sequence's guesses are right with a probability that is learned too; a new one is
//! taken to be like those before it. From these follows the number of guesses that brings most
//! tokens a second; none, when guessing does not pay. Who wants to see what each guess is worth
//! has as many made as there is room for.

#[cfg(test)]
mod tests;

/// Weight of the newest observation.
const NEWEST: f64 = 0.05;
/// Before any guess was judged.
const HOPEFUL: f64 = 0.6;
/// Guesses that are made before anybody asks whether they pay, of several lengths, so that it is
/// known what a longer one costs.
const TRIALS: u32 = 24;
const LONGEST_TRIAL: usize = 3;
/// Gains below are not worth the trouble.
const LEAST_GAIN: f64 = 1.02;
/// Steps without guesses after which one is tried, to notice that times have changed.
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

/// How often a sequence's guesses were right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acceptance {
    rate: f64,
    /// Steps without a guess.
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
    /// Takes in that the first `accepted` of `drafted` guesses were right.
    pub fn observe(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            self.idle += 1;
            return;
        }
        self.idle = 0;
        // Guesses after the first wrong one were not judged.
        let judged = drafted.min(accepted + 1);
        for index in 0..judged {
            let right = if index < accepted { 1.0 } else { 0.0 };
            self.rate += (right - self.rate) * NEWEST * 2.0;
        }
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Expected tokens of a step with so many guesses.
    fn tokens(&self, drafts: usize) -> f64 {
        (0..=drafts).map(|index| self.rate.powi(index as i32)).sum()
    }
}

/// Chooses the number of guesses.
#[derive(Clone, Debug)]
pub struct Pace {
    most: usize,
    /// Whether it may be fewer.
    adapts: bool,
    line: Line,
    /// Seconds to make one guess.
    guess: f64,
    /// All sequences together.
    common: Acceptance,
    /// Steps of a sequence that had guesses.
    tried: u32,
}

impl Pace {
    /// Never more than `most`, and always as many unless it `adapts`.
    pub fn new(most: usize, adapts: bool) -> Self {
        Self {
            most,
            adapts,
            line: Line::default(),
            guess: 0.0,
            common: Acceptance::default(),
            tried: 0,
        }
    }

    /// What a sequence is taken for of which nothing is known yet.
    pub fn newcomer(&self) -> Acceptance {
        Acceptance {
            rate: self.common.rate,
            idle: 0,
        }
    }

    /// Takes in what became of a sequence's guesses in a step.
    pub fn judge(&mut self, drafted: usize, accepted: usize) {
        self.common.observe(drafted, accepted);
        self.tried = self.tried.saturating_add(u32::from(drafted > 0));
    }

    /// Takes in a step of decoding: tokens computed, how long it took, and how long its
    /// guesses took to make.
    pub fn observe(&mut self, tokens: usize, seconds: f64, guesses: usize, guessing: f64) {
        self.line.observe(tokens as f64, seconds);
        if guesses > 0 {
            let each = guessing / guesses as f64;
            self.guess += (each - self.guess) * if self.guess == 0.0 { 1.0 } else { NEWEST };
        }
    }

    /// How many guesses each sequence of a step should get.
    pub fn choose<'a>(&self, sequences: impl Iterator<Item = &'a Acceptance> + Clone) -> usize {
        if !self.adapts {
            return self.most;
        }
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
