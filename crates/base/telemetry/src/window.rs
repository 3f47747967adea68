//! Quantiles of the last minute's samples.
//!
//! Time is cut into steps of one second. The window at any moment is the step in progress
//! and the 59 before it, so a sample counts for at least 59 and at most 60 seconds and
//! then leaves at once: no decay, no sketch that remembers an hour ago.
//!
//! The quantile rule is **nearest rank**: of `n` samples in ascending order, quantile `q`
//! is sample number `ceil(q * n)`, counting from one. It is always a value that was
//! observed, never one between two.
//!
//! # Guarantees
//!
//! - **Exact** up to [`EXACT_RUNS`] observations per step. Beyond that a step rounds its
//!   samples to [`KEPT_MANTISSA_BITS`] bits, a relative error below 0.013 %: a busy
//!   frontend would otherwise hold tens of megabytes of inter-token gaps per minute.
//! - **Pure.** Time comes with each call and need not be ordered: a sample older than the
//!   window is ignored, and one stamped a little late lands in its own step.

use std::time::Duration;

const STEPS: usize = 60;

/// Above the token rate of the shipped profiles: 3 workers of 64 sequences at about 30
/// tokens per second make 5,760. A full minute of exact steps takes 8 MB.
const EXACT_RUNS: usize = 8_192;

/// Of the 52 bits of a float's fraction.
const KEPT_MANTISSA_BITS: u32 = 12;

/// A ring of one-second steps.
#[derive(Debug, Default)]
pub struct Window {
    /// Indexed by the second modulo [`STEPS`]; allocated by the first observation.
    steps: Box<[Step]>,
}

/// The samples of one minute, in no order.
#[derive(Debug)]
pub struct Samples {
    runs: Vec<Run>,
}

#[derive(Clone, Debug, Default)]
struct Step {
    second: u64,
    runs: Vec<Run>,
    /// How many of the first runs are already rounded, sorted and distinct.
    folded: usize,
}

/// `count` samples of one value.
#[derive(Clone, Copy, Debug)]
struct Run {
    value: f64,
    count: u64,
}

impl Window {
    pub fn observe(&mut self, now: Duration, value: f64, count: u64) {
        // A sample that is no number has no rank.
        if count == 0 || value.is_nan() {
            return;
        }
        if self.steps.is_empty() {
            self.steps = vec![Step::default(); STEPS].into_boxed_slice();
        }
        let second = now.as_secs();
        let step = &mut self.steps[(second % STEPS as u64) as usize];
        if step.second > second {
            return;
        }
        if step.second < second {
            step.restart(second);
        }
        step.push(Run { value, count });
    }

    /// A copy of what the window holds. Ranking is left to the copy, so that a lock around
    /// the window is held for a copy and not for a sort.
    pub fn samples(&self, now: Duration) -> Samples {
        let seconds = (now.as_secs() + 1).saturating_sub(STEPS as u64)..=now.as_secs();
        let inside = || {
            self.steps
                .iter()
                .filter(|step| seconds.contains(&step.second))
        };
        let mut runs = Vec::with_capacity(inside().map(|step| step.runs.len()).sum());
        inside().for_each(|step| runs.extend_from_slice(&step.runs));
        Samples { runs }
    }
}

impl Samples {
    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// The value at each of `quantiles`, which ascend; NaN when there is no sample.
    pub fn quantiles<const N: usize>(mut self, quantiles: [f64; N]) -> [f64; N] {
        self.runs
            .sort_unstable_by(|a, b| a.value.total_cmp(&b.value));
        let total = self.count();

        let mut runs = self.runs.into_iter();
        let mut current = Run {
            value: f64::NAN,
            count: 0,
        };
        let mut passed = 0;
        quantiles.map(|quantile| {
            let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
            while passed + current.count < rank {
                let Some(next) = runs.next() else { break };
                passed += current.count;
                current = next;
            }
            current.value
        })
    }
}

impl Step {
    fn restart(&mut self, second: u64) {
        self.second = second;
        self.runs.clear();
        self.folded = 0;
    }

    fn push(&mut self, run: Run) {
        // Folding again only once as much is new as a fold can leave keeps the cost of a
        // sample constant however many there are.
        if self.runs.len() - self.folded >= EXACT_RUNS {
            self.fold();
        }
        self.runs.push(run);
    }

    /// Rounds all samples and merges those that became equal.
    fn fold(&mut self) {
        for run in &mut self.runs[self.folded..] {
            run.value = round(run.value);
        }
        self.runs
            .sort_unstable_by(|a, b| a.value.total_cmp(&b.value));
        self.runs.dedup_by(|next, kept| {
            let same = next.value == kept.value;
            if same {
                kept.count += next.count;
            }
            same
        });
        self.folded = self.runs.len();
    }
}

/// To the nearest value with [`KEPT_MANTISSA_BITS`] bits of fraction.
fn round(value: f64) -> f64 {
    let dropped = f64::MANTISSA_DIGITS - 1 - KEPT_MANTISSA_BITS;
    let bits = value.to_bits() + (1 << (dropped - 1));
    f64::from_bits(bits >> dropped << dropped)
}

#[cfg(test)]
mod tests;
