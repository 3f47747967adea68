//! A mean that forgets and is not thrown by outliers.
//!
//! For what has no second dimension: how long answers are, how long a slot is kept, how
//! much of a prompt is cached. Slower than [`super::line`], because these are properties of
//! the traffic and vary from request to request by nature.

use contract::Moment;

const MEMORY_SECONDS: f64 = 30.0;
/// Samples that count however old they are.
const FEWEST: f64 = 32.0;
/// Usual deviations beyond which a sample is clipped.
const CLIP: f64 = 4.0;
const SCALE_RATE: f64 = 0.1;

#[derive(Clone, Debug)]
pub struct Average {
    value: f64,
    weight: f64,
    /// The typical deviation of a sample from the average.
    scale: f64,
    seen: Moment,
}

impl Average {
    /// The first sample takes the belief's place.
    pub fn new(prior: f64) -> Self {
        Self {
            value: prior,
            weight: 0.0,
            scale: prior,
            seen: Moment::ZERO,
        }
    }

    pub fn value(&self) -> f64 {
        self.value
    }

    pub fn observe(&mut self, sample: f64, now: Moment) {
        let deviation = sample - self.value;
        let limit = CLIP * self.scale;
        self.scale += (deviation.abs().min(2.0 * limit) - self.scale) * SCALE_RATE;
        self.scale = self.scale.max(0.02 * self.value.abs()).max(f64::EPSILON);
        let elapsed = now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        let kept = self.weight * (-elapsed / MEMORY_SECONDS).exp();
        self.weight = kept.max(self.weight.min(FEWEST)) + 1.0;
        self.value += deviation.clamp(-limit, limit) / self.weight;
    }
}
