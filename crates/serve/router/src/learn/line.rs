//! A straight line through noisy samples that forgets.
//!
//! Weighted least squares over running sums: constant in memory, a few dozen operations a
//! sample. Three things are added to the textbook:
//!
//! - **Forgetting.** A sample loses weight with a time constant of [`MEMORY_SECONDS`], but
//!   no faster than so that the last [`FEWEST`] samples always count: a quiet worker is
//!   judged by what it did last, however long ago.
//! - **Clipping.** A residual beyond [`CLIP`] times the usual one is taken for that much, both
//!   relative to the value expected, because long times vary more than short ones. The usual
//!   one follows what is seen, so a lasting change is believed after a few samples and
//!   an outlier never.
//! - **An anchor for the slope.** When all samples lie at one place they say nothing about
//!   the slope. It is then held at the anchor, which starts at the prior and follows what
//!   was learned when there was something to learn from.

use contract::Moment;

/// With samples every second or more often, a change is 98 % known after a minute.
pub const MEMORY_SECONDS: f64 = 15.0;
/// Samples that count however old they are.
pub const FEWEST: f64 = 16.0;
/// Usual residuals beyond which a sample is clipped.
const CLIP: f64 = 3.0;
/// How quickly the usual residual follows.
const SCALE_RATE: f64 = 0.1;
/// How quickly the anchor follows a slope that the samples determine.
const ANCHOR_RATE: f64 = 0.02;
/// A smaller residual is never unusual.
const LEAST_SCALE: f64 = 0.02;
/// The slope stays within this factor of the first belief.
const SLOPE_RANGE: f64 = 1000.0;

/// An intercept and a slope; the initial estimate of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub intercept: f64,
    pub slope: f64,
    /// How far samples must lie apart to say something about the slope.
    pub spread: f64,
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
    anchor: f64,
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
            // The first sample takes the belief's place; only the slope is kept.
            weight: 0.0,
            mean_x: 0.0,
            mean_y: 0.0,
            xx: 0.0,
            xy: 0.0,
            anchor: prior.slope,
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

    /// How far the samples determine the slope, between 0 and 1.
    pub fn determined(&self) -> f64 {
        self.xx / (self.xx + self.prior.spread * self.prior.spread)
    }

    /// Takes in a sample `(x, y)`. Several witnesses of one event share a weight of 1.
    pub fn observe(&mut self, x: f64, y: f64, weight: f64, now: Moment) {
        let y = self.clipped(x, y, weight);
        let elapsed = now.since(self.seen).as_secs_f64();
        self.seen = self.seen.max(now);
        let kept = (-elapsed / MEMORY_SECONDS)
            .exp()
            .max((FEWEST / self.weight).min(1.0));
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

    fn clipped(&mut self, x: f64, y: f64, weight: f64) -> f64 {
        let expected = self.at(x).max(f64::MIN_POSITIVE);
        let residual = y / expected - 1.0;
        let limit = CLIP * self.scale;
        let rate = SCALE_RATE * weight.min(1.0);
        self.scale += (residual.abs().min(2.0 * limit) - self.scale) * rate;
        self.scale = self.scale.max(LEAST_SCALE);
        expected * (1.0 + residual.clamp(-limit, limit))
    }

    fn fit(&mut self, weight: f64) {
        let Shape { slope, spread, .. } = self.prior;
        let ridge = spread * spread;
        let fitted = (self.xy + ridge * self.anchor) / (self.xx + ridge);
        let fitted = fitted.clamp(slope / SLOPE_RANGE, slope * SLOPE_RANGE);
        let rate = ANCHOR_RATE * self.determined() * weight.min(1.0);
        self.anchor += (fitted - self.anchor) * rate;
        self.slope = fitted;
        self.intercept = self.mean_y - fitted * self.mean_x;
        if self.intercept < 0.0 && self.mean_x > 0.0 {
            // A time cannot be negative: the line goes through the origin instead.
            self.intercept = 0.0;
            self.slope = (self.mean_y / self.mean_x).max(slope / SLOPE_RANGE);
        }
    }
}
