//! The places where numbers accumulate, and the handles that stages hold on them.
//!
//! A handle is a reference-counted pointer to its cell. Counters, gauges and histograms
//! are relaxed atomics: every number stands alone, so no ordering between them is
//! promised, and reporting one costs a few nanoseconds on the token path. A summary keeps
//! samples and so sits behind a short lock.
//!
//! # Guarantees
//!
//! - **Histograms add up.** The count is the sum of the buckets that were read, so a
//!   scrape during an observation is never inconsistent with itself; only `_sum` may be
//!   one observation apart.
//! - **A handle outlives its cell's exposition.** After [`crate::Registry::forget`] it
//!   still accepts numbers, which nobody reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::window::Window;

/// One labelled series of a family, whatever its kind.
#[derive(Clone)]
pub(crate) enum Cell {
    Counter(Counter),
    Time(TimeCounter),
    Gauge(Gauge),
    Histogram(Histogram),
    Summary(Summary),
}

/// A number that only grows.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    pub fn inc(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Time that only grows. Rendered in seconds.
#[derive(Clone, Debug, Default)]
pub struct TimeCounter(
    /// Nanoseconds: whole numbers add up exactly, and 64 bits of them last for centuries.
    Arc<AtomicU64>,
);

impl TimeCounter {
    pub fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A number that goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicF64>);

impl Gauge {
    pub fn set(&self, value: f64) {
        self.0.set(value);
    }

    /// Adds `change`, which may be negative.
    pub fn add(&self, change: f64) {
        self.0.add(change);
    }

    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

/// How observed values are spread over the catalogue's buckets.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<HistogramCell>);

#[derive(Debug)]
struct HistogramCell {
    /// Inclusive upper bounds, ascending, without the last infinite one.
    bounds: &'static [f64],
    /// One more than `bounds`; not cumulative, so an observation touches only one.
    buckets: Box<[AtomicU64]>,
    sum: AtomicF64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(HistogramCell {
            bounds,
            buckets,
            sum: AtomicF64::default(),
        }))
    }

    pub fn observe(&self, value: f64) {
        self.observe_many(value, 1);
    }

    /// Observes the same value `count` times, as when one chunk brings several tokens.
    pub fn observe_many(&self, value: f64, count: u64) {
        // What is no number is no observation: it would make the sum NaN for good.
        if count == 0 || value.is_nan() {
            return;
        }
        let cell = &*self.0;
        let bucket = cell.bounds.partition_point(|&bound| bound < value);
        cell.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        cell.sum.add(value * count as f64);
    }

    pub fn count(&self) -> u64 {
        self.0
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Relaxed))
            .sum()
    }

    pub fn sum(&self) -> f64 {
        self.0.sum.get()
    }

    /// Every bucket's upper bound, the last one infinite, and how many values are at or
    /// below it.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        let mut below = 0;
        bounds.zip(&self.0.buckets).map(move |(bound, bucket)| {
            below += bucket.load(Ordering::Relaxed);
            (bound, below)
        })
    }
}

/// Quantiles over the last minute, and what was observed in all.
#[derive(Clone, Debug, Default)]
pub struct Summary(Arc<Mutex<SummaryCell>>);

#[derive(Debug, Default)]
struct SummaryCell {
    window: Window,
    count: u64,
    sum: f64,
}

impl Summary {
    /// `now` counts from any fixed origin, the same for every call and for rendering.
    pub fn observe(&self, now: Duration, value: f64) {
        self.observe_many(now, value, 1);
    }

    pub fn observe_many(&self, now: Duration, value: f64, count: u64) {
        if value.is_nan() {
            return;
        }
        let mut cell = self.0.lock();
        cell.window.observe(now, value, count);
        cell.count += count;
        cell.sum += value * count as f64;
    }

    /// The value at each of `quantiles`, which ascend; NaN when the window is empty.
    pub fn quantiles<const N: usize>(&self, now: Duration, quantiles: [f64; N]) -> [f64; N] {
        let samples = self.0.lock().window.samples(now);
        samples.quantiles(quantiles)
    }

    pub fn count(&self) -> u64 {
        self.0.lock().count
    }

    pub fn sum(&self) -> f64 {
        self.0.lock().sum
    }
}

/// A float that several threads add to.
#[derive(Debug, Default)]
struct AtomicF64(AtomicU64);

impl AtomicF64 {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    fn add(&self, change: f64) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let sum = (f64::from_bits(seen) + change).to_bits();
            match self
                .0
                .compare_exchange_weak(seen, sum, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(actual) => seen = actual,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: &[f64] = &[0.0, 1.0, 10.0];

    #[track_caller]
    fn check_buckets(observed: &[f64], expected: [u64; 4]) {
        let histogram = Histogram::new(BOUNDS);
        for &value in observed {
            histogram.observe(value);
        }
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts, expected, "{observed:?}");
        assert_eq!(histogram.count(), observed.len() as u64);
    }

    #[test]
    fn a_bound_includes_its_own_value() {
        check_buckets(&[], [0, 0, 0, 0]);
        check_buckets(&[0.0], [1, 1, 1, 1]);
        check_buckets(&[1.0], [0, 1, 1, 1]);
        check_buckets(&[1.0000001], [0, 0, 1, 1]);
        check_buckets(&[-3.0, 0.5, 10.0, 11.0], [1, 2, 3, 4]);
        check_buckets(&[f64::INFINITY], [0, 0, 0, 1]);
    }

    #[test]
    fn what_is_no_number_is_not_observed() {
        let (histogram, summary) = (Histogram::new(BOUNDS), Summary::default());
        histogram.observe(f64::NAN);
        summary.observe(Duration::ZERO, f64::NAN);
        assert_eq!((histogram.count(), histogram.sum()), (0, 0.0));
        assert_eq!((summary.count(), summary.sum()), (0, 0.0));
    }

    #[test]
    fn many_at_once_equals_one_by_one() {
        let (many, single) = (Histogram::new(BOUNDS), Histogram::new(BOUNDS));
        many.observe_many(2.5, 4);
        many.observe_many(0.5, 0);
        (0..4).for_each(|_| single.observe(2.5));
        assert!(many.cumulative().eq(single.cumulative()));
        assert_eq!((many.sum(), many.count()), (10.0, 4));
        assert_eq!((single.sum(), single.count()), (10.0, 4));
    }

    #[test]
    fn threads_lose_no_addition() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        counter.inc();
                        gauge.add(1.5);
                        gauge.add(-0.5);
                    }
                });
            }
        });
        assert_eq!(counter.get(), 40_000);
        assert_eq!(gauge.get(), 40_000.0);
        gauge.set(-2.0);
        assert_eq!(gauge.get(), -2.0);
    }
}
