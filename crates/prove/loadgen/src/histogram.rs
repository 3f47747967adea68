//! Percentiles of many durations in little memory.
//!
//! Buckets are 1/1024 of their value wide: below 2,048 ns each value has its own, and from
//! there on each power of two is cut into 1,024. The middle of a bucket is at most 0.05 %
//! from any value in it. A gap of 20 to 40 ms between tokens falls into one of two thousand
//! neighbouring counters, so counting a token touches memory that is in the cache.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::samples::{Percentiles, nearest_rank};

/// Buckets in a power of two, as a power of two.
const PRECISION: u32 = 10;

/// Durations, counted with weights. Written as the buckets that hold something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(usize, u64)>", into = "Vec<(usize, u64)>")]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts `value` as often as `weight` says.
    pub fn record(&mut self, value: Duration, weight: u64) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.record_nanos(nanos, weight);
    }

    /// [`record`](Self::record) for callers that count in nanoseconds: once for each token.
    pub fn record_nanos(&mut self, nanos: u64, weight: u64) {
        let bucket = bucket_of(nanos);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += weight;
        self.total += weight;
    }

    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// How many values were counted, by weight.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Nearest-rank percentiles within 0.05 %. `None` if nothing was counted.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            p50: self.percentile(0.50)?,
            p95: self.percentile(0.95)?,
            p99: self.percentile(0.99)?,
        })
    }

    /// The nearest rank of one share, in seconds.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let rank = nearest_rank(share, self.total);
        let mut before = 0;
        let bucket = self.counts.iter().position(|&count| {
            before += count;
            before > rank
        })?;
        Some(middle_of(bucket))
    }
}

impl From<Histogram> for Vec<(usize, u64)> {
    fn from(histogram: Histogram) -> Self {
        let counts = histogram.counts.into_iter().enumerate();
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

impl From<Vec<(usize, u64)>> for Histogram {
    /// Buckets beyond the longest duration that exists are nobody's and left out.
    fn from(buckets: Vec<(usize, u64)>) -> Self {
        let mut histogram = Self::default();
        let known = |bucket: &usize| *bucket <= bucket_of(u64::MAX);
        for (bucket, count) in buckets.into_iter().filter(|(bucket, _)| known(bucket)) {
            if bucket >= histogram.counts.len() {
                histogram.counts.resize(bucket + 1, 0);
            }
            histogram.counts[bucket] += count;
            histogram.total += count;
        }
        histogram
    }
}

fn bucket_of(nanos: u64) -> usize {
    let magnitude = (nanos | 1).ilog2();
    let shift = magnitude.saturating_sub(PRECISION);
    ((shift as usize) << PRECISION) + (nanos >> shift) as usize
}

/// The middle of a bucket in seconds.
fn middle_of(bucket: usize) -> f64 {
    let shift = (bucket >> PRECISION).saturating_sub(1);
    let leading = bucket - (shift << PRECISION);
    let width = (1_u64 << shift) as f64;
    (leading as f64 * width + (width - 1.0) / 2.0) * 1e-9
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::Samples;

    proptest! {
        #[test]
        fn percentiles_agree_with_exact_ones(
            values in prop::collection::vec((0_u64..100_000_000_000, 1_u64..4), 1..300),
        ) {
            let (mut histogram, mut exact) = (Histogram::default(), Samples::default());
            for &(nanos, weight) in &values {
                histogram.record(Duration::from_nanos(nanos), weight);
                for _ in 0..weight {
                    exact.push(Duration::from_nanos(nanos));
                }
            }
            prop_assert_eq!(histogram.total(), exact.len() as u64);
            let written = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Histogram>(&written).unwrap(), &histogram);
            let (found, expected) = (histogram.percentiles().unwrap(), exact.percentiles().unwrap());
            for (found, expected) in [
                (found.p50, expected.p50),
                (found.p95, expected.p95),
                (found.p99, expected.p99),
            ] {
                prop_assert!((found - expected).abs() <= expected * 0.0005 + 1e-12);
            }
        }

        #[test]
        fn merging_is_counting_together(
            left in prop::collection::vec(0_u64..1_000_000_000, 0..50),
            right in prop::collection::vec(0_u64..1_000_000_000, 0..50),
        ) {
            let count = |values: &[u64]| {
                let mut histogram = Histogram::default();
                for &nanos in values {
                    histogram.record(Duration::from_nanos(nanos), 1);
                }
                histogram
            };
            let mut merged = count(&left);
            merged.merge(&count(&right));
            prop_assert_eq!(merged, count(&[left, right].concat()));
        }
    }

    #[test]
    fn buckets_follow_one_another_without_gap() {
        let mut last = 0;
        for nanos in 0..1 << 14 {
            let bucket = bucket_of(nanos);
            assert!(bucket == last || bucket == last + 1, "{nanos}");
            last = bucket;
        }
        assert_eq!(Histogram::default().percentiles(), None);
    }
}
