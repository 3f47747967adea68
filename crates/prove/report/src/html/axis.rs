//! From values to places: where an axis begins and ends, and where it is marked.
//!
//! The ends are ticks themselves, so that whatever an axis was made for lies within it.

/// Beyond this ratio, small values cannot be told apart on a linear axis.
const LINEAR_UP_TO: f64 = 10.0;
/// A limit that is so much higher than all values would flatten them; it is not drawn.
pub(super) const LIMIT_WITHIN: f64 = 4.0;
/// About as many as a small chart has room for.
const TICKS: f64 = 5.0;
/// More labels would run into each other.
const MOST_LABELS: usize = 9;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    pub(super) is_log: bool,
    /// Ascending.
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// Linear from 0 or below.
    pub(super) fn from_zero(values: &[f64]) -> Self {
        let (least, most) = range(values).unwrap_or((0.0, 1.0));
        Self::linear(least.min(0.0), most.max(0.0))
    }

    /// Linear, as close around the values as ticks allow: where 0 means nothing.
    pub(super) fn around(values: &[f64]) -> Self {
        let (least, most) = range(values).unwrap_or((0.0, 1.0));
        Self::linear(least, most)
    }

    /// Logarithmic if the values lie far apart, otherwise from 0.
    pub(super) fn fitting(values: &[f64]) -> Self {
        Self::log_beyond(LINEAR_UP_TO, values)
    }

    /// Logarithmic if the ratio of the values is beyond this one, otherwise from 0.
    pub(super) fn log_beyond(ratio: f64, values: &[f64]) -> Self {
        match range(values) {
            Some((least, most)) if least > 0.0 && most / least > ratio => Self::log(least, most),
            _ => Self::from_zero(values),
        }
    }

    /// Marked at the given values and nowhere else, with room at both ends.
    pub(super) fn marked(values: &[f64]) -> Self {
        let (least, most) = range(values).unwrap_or((0.0, 1.0));
        let room = match most > least {
            true => (most - least) * 0.07,
            false => 1.0,
        };
        let every = values.len().div_ceil(MOST_LABELS).max(1);
        Self {
            low: least - room,
            high: most + room,
            is_log: false,
            ticks: values.iter().copied().step_by(every).collect(),
        }
    }

    fn linear(least: f64, most: f64) -> Self {
        // A range so narrow that steps would vanish in rounding is drawn as one value.
        let size = least.abs().max(most.abs());
        let span = match most - least {
            span if span > size * 1e-9 && span > 0.0 => span,
            _ if size > 0.0 => size,
            _ => 1.0,
        };
        let step = nice_step(span / TICKS);
        let first = (least / step).floor();
        let last = (most / step).ceil().max(first + 1.0);
        let steps = (last - first) as usize;
        let ticks = (0..=steps).map(|index| (first + index as f64) * step);
        Self {
            low: first * step,
            high: last * step,
            is_log: false,
            ticks: ticks.collect(),
        }
    }

    /// A logarithmic axis; both values must be positive.
    fn log(least: f64, most: f64) -> Self {
        let (from, to) = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let fine =
            (from..=to).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10_f64.powi(power)));
        let fine: Vec<f64> = fine.collect();
        let low = fine.iter().rposition(|&tick| tick <= least).unwrap_or(0);
        let high = fine.iter().position(|&tick| tick >= most);
        let high = high.unwrap_or(fine.len() - 1);
        let (low, high, mut ticks) = (fine[low], fine[high], fine[low..=high].to_vec());
        if ticks.len() > MOST_LABELS {
            let is_power = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
            ticks.retain(|tick| is_power(tick) || *tick == low || *tick == high);
        }
        Self {
            low,
            high,
            is_log: true,
            ticks,
        }
    }

    /// 0 at the low end, 1 at the high end; `None` for what has no place.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.is_log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        share.is_finite().then_some(share)
    }
}

/// The least and the most of those that are numbers.
pub(super) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let nice = [1.0, 2.0, 5.0].iter().map(|one| one * power);
    nice.into_iter()
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}
