//! A straight line through noisy samples that forgets.
//!
//! Weighted least squares over running sums: constant in memory, a few dozen operations a
//! sample. Three things are added to the textbook:
//!
//! - **Forgetting.** A sample loses weight with a time constant of [`MEMORY_SECONDS`], but
//!   no faster than so that the last [`FEWEST`] samples always count: a quiet worker is
//!   judged by what it did last. In a silence of more than that time constant they fade as
//!   well, down to what a first sample counts, so that a worker that was avoided for its
//!   slowness and is tried again is not judged by that for long.
//! - **Clipping.** A residual beyond [`CLIP`] times the usual one is taken for that much, both
//!   relative to the value expected, because long times vary more than short ones. The usual
//!   one follows what is seen, so a lasting change is believed after a few samples and
//!   an outlier never.
//! - **A ridge for the slope, in relative terms.** When all samples lie at one place they say
//!   nothing about the slope. It is then held at the level that they show, divided by the
//!   *pivot*: the ratio of intercept and slope, in units of x. A prior of that kind belongs to
//!   no machine: what takes a hundred times longer has the same pivot. It starts at the prior,
//!   which is worth a few samples or many, and is averaged over what was learned when there was
//!   something to learn from. How strongly it holds is relative as well: samples determine the
//!   slope as soon as what it adds between them is more than chance ([`CHANCE`]).
//!
//! The first sample hardly counts once there is another ([`FIRST_WEIGHT`]): engines compile and
//! warm up in their first request.

use contract::Moment;

/// With samples every second or more often, a change is 98 % known after a minute.
pub const MEMORY_SECONDS: f64 = 15.0;
/// Samples that count although others are younger.
pub const FEWEST: f64 = 16.0;
/// Usual residuals beyond which a sample is clipped.
const CLIP: f64 = 3.0;
/// How quickly the usual residual follows.
const SCALE_RATE: f64 = 0.1;
/// By how much times differ by chance, for the ridge: a fifth.
const CHANCE: f64 = 0.2;
/// Samples that the pivot is averaged over, as far as they determine the slope.
const PIVOT_MEMORY: f64 = 50.0;
/// The pivot is at most so many times the first belief: times grow with work, however little
/// of that can be seen.
const MOST_PIVOT: f64 = 16.0;
/// And at least this share of it, because levels are divided by it.
const LEAST_PIVOT: f64 = 1e-3;
/// What the first sample counts. It is the first belief about the level, and no more.
const FIRST_WEIGHT: f64 = 0.1;
/// A smaller residual is never unusual.
const LEAST_SCALE: f64 = 0.02;

/// An intercept and a slope; the initial estimate of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub intercept: f64,
    pub slope: f64,
    /// How many samples their ratio is worth.
    pub worth: f64,
}

impl Shape {
    fn pivot(&self) -> f64 {
        self.intercept / self.slope
    }
}

#[derive(Clone, Debug)]
pub struct Line {
    prior: Shape,
    weight: f64,
    mean_x: f64,
    mean_y: f64,
    /// Weighted sums of squares and products around the means.
    xx: f64,
    xy: f64,
    /// Intercept by slope, where the samples do not say.
    pivot: f64,
    /// How many samples it is worth, up to [`PIVOT_MEMORY`].
    learned: f64,
    /// The usual residual, relative to the value expected.
    scale: f64,
    intercept: f64,
    slope: f64,
    seen: Moment,
}

impl Line {
    pub fn new(prior: Shape) -> Self {
        Self {
            prior,
            // The first sample takes the belief's place; only the pivot is kept.
            weight: 0.0,
            mean_x: 0.0,
            mean_y: 0.0,
            xx: 0.0,
            xy: 0.0,
            pivot: prior.pivot(),
            learned: prior.worth,
            // Nothing is unusual before anything is known.
            scale: 1.0,
            intercept: prior.intercept,
            slope: prior.slope,
            seen: Moment::ZERO,
        }
    }

    pub fn slope(&self) -> f64 {
        self.slope
    }

    pub fn intercept(&self) -> f64 {
        self.intercept
    }

    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// Where the samples lie on average.
    pub fn center(&self) -> f64 {
        self.mean_x
    }

    /// How many samples count now.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// How far the samples determine the slope, between 0 and 1.
    pub fn determined(&self) -> f64 {
        self.xx / (self.xx + self.ridge())
    }

    /// How far the level may be from the true one by chance, relative to it; infinite before
    /// the first sample.
    pub fn doubt(&self) -> f64 {
        self.scale / self.weight.sqrt()
    }

    /// Takes in a sample `(x, y)`. Several witnesses of one event share a weight of 1.
    pub fn observe(&mut self, x: f64, y: f64, weight: f64, now: Moment) {
        let elapsed = now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        let first = self.weight == 0.0;
        let y = self.clipped(x, y, weight);
        let weight = if first { weight * FIRST_WEIGHT } else { weight };
        let kept = kept(self.weight, elapsed);
        let before = self.weight * kept;
        self.weight = before + weight;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        let share = weight / self.weight;
        self.mean_x += dx * share;
        self.mean_y += dy * share;
        self.xx = self.xx * kept + before * share * dx * dx;
        self.xy = self.xy * kept + before * share * dx * dy;
        self.fit(weight);
    }

    /// What does not grow with x takes so many times longer than the samples show.
    pub fn raise_intercept(&mut self, times: f64) {
        self.mean_y += self.intercept * (times - 1.0);
        self.intercept *= times;
    }

    fn clipped(&mut self, x: f64, y: f64, weight: f64) -> f64 {
        if self.weight <= FIRST_WEIGHT {
            // One sample, which may be of a warm-up, and a belief that is none of this machine's
            // are nothing to measure another by.
            return y;
        }
        let expected = self.at(x).max(f64::MIN_POSITIVE);
        let residual = y / expected - 1.0;
        let limit = CLIP * self.scale;
        let rate = SCALE_RATE * weight.min(1.0);
        self.scale += (residual.abs().min(2.0 * limit) - self.scale) * rate;
        self.scale = self.scale.max(LEAST_SCALE);
        expected * (1.0 + residual.clamp(-limit, limit))
    }

    fn ridge(&self) -> f64 {
        (CHANCE * (self.pivot + self.mean_x)).powi(2)
    }

    fn fit(&mut self, weight: f64) {
        let most_pivot = MOST_PIVOT * self.prior.pivot();
        let held = self.mean_y / (self.pivot + self.mean_x);
        let ridge = self.ridge();
        let fitted = (self.xy + ridge * held) / (self.xx + ridge);
        self.slope = fitted.max(self.mean_y / (most_pivot + self.mean_x));
        self.intercept = self.mean_y - self.slope * self.mean_x;
        if self.intercept < 0.0 && self.mean_x > 0.0 {
            // A time cannot be negative: the line goes through the origin instead.
            self.intercept = 0.0;
            self.slope = self.mean_y / self.mean_x;
        }
        let more = self.determined() * weight.min(1.0);
        self.learned = (self.learned + more).min(PIVOT_MEMORY);
        // What is averaged is the slope: a mean of ratios would be that of the flattest lines.
        let slope = held + (self.slope - held) * more / self.learned.max(1.0);
        if slope > 0.0 {
            let pivot = self.mean_y / slope - self.mean_x;
            self.pivot = pivot.clamp(LEAST_PIVOT * self.prior.pivot(), most_pivot);
        }
    }
}

/// The share of their weight that samples keep over a time without any.
fn kept(weight: f64, elapsed: f64) -> f64 {
    let silence = (elapsed - MEMORY_SECONDS).max(0.0);
    let fewest = (FEWEST * (-silence / MEMORY_SECONDS).exp()).max(FIRST_WEIGHT);
    (-elapsed / MEMORY_SECONDS)
        .exp()
        .max((fewest / weight).min(1.0))
}

/// The pivot that several lines show together, each relative to its own level: those with
/// samples far apart say most. Pairs of samples of the same line are compared, never of two.
pub fn pooled_pivot<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> f64 {
    let (mut known, mut steepness, mut weight, mut center) = (0.0, 0.0, 0.0, 0.0);
    let mut prior = 0.0_f64;
    for line in lines.clone() {
        // A little even where nothing was learned, so that there is a mean.
        let share = line.learned + f64::EPSILON;
        known += share;
        steepness += share / (line.pivot + line.mean_x);
        let share = line.weight + f64::EPSILON;
        weight += share;
        center += share * line.mean_x;
        prior = prior.max(line.prior.pivot());
    }
    let (reach, center) = (known / steepness, center / weight);
    let pivot = (reach - center).max(LEAST_PIVOT * prior);
    let ridge = (CHANCE * (pivot + center)).powi(2);
    let (mut xx, mut xy) = (ridge, ridge);
    for line in lines.filter(|line| line.mean_y > 0.0) {
        xx += line.xx;
        xy += line.xy * (pivot + line.mean_x) / line.mean_y;
    }
    let most = MOST_PIVOT * prior;
    if xy <= 0.0 {
        return most;
    }
    ((pivot + center) * xx / xy - center).clamp(LEAST_PIVOT * prior, most)
}
