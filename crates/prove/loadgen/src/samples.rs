//! Exact percentiles.
//!
//! Every value is kept, because a measurement window holds some thousand requests and a
//! percentile that is reported should be one that was measured. Runs are pooled by
//! [`merge`](Samples::merge) and never by averaging their percentiles, which would be the
//! percentile of nothing.

use std::time::Duration;

/// A collection of measured durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    nanos: Vec<u64>,
}

/// The percentiles that are reported everywhere, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

impl Percentiles {
    /// Multiplies every percentile by `factor`, to change the unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            p50: self.p50 * factor,
            p95: self.p95 * factor,
            p99: self.p99 * factor,
        }
    }
}

impl Samples {
    pub fn push(&mut self, value: Duration) {
        self.nanos
            .push(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn merge(&mut self, other: &Self) {
        self.nanos.extend_from_slice(&other.nanos);
    }

    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// Nearest-rank percentiles: the smallest value that at least that share does not
    /// exceed. `None` without a sample.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        let at = |share: f64| {
            let rank = nearest_rank(share, sorted.len() as u64);
            sorted
                .get(rank as usize)
                .map(|&nanos| Duration::from_nanos(nanos).as_secs_f64())
        };
        Some(Percentiles {
            p50: at(0.50)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
        })
    }
}

impl Samples {
    /// The nearest rank of one share, in seconds.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let mut nanos = self.nanos.clone();
        let rank = nearest_rank(share, nanos.len() as u64) as usize;
        let (_, found, _) = (rank < nanos.len()).then(|| nanos.select_nth_unstable(rank))?;
        Some(Duration::from_nanos(*found).as_secs_f64())
    }
}

/// The position, from 0, of a share among `count` ordered values.
pub fn nearest_rank(share: f64, count: u64) -> u64 {
    ((share * count as f64).ceil() as u64).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(millis: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        for value in millis {
            samples.push(Duration::from_millis(value));
        }
        samples
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        for (values, expected) in [
            ((1..=100).rev().collect::<Vec<u64>>(), [50, 95, 99]),
            (vec![7], [7, 7, 7]),
            (vec![1, 2], [1, 2, 2]),
            ((1..=20).collect(), [10, 19, 20]),
            (vec![5, 5, 5, 9], [5, 9, 9]),
        ] {
            let found = samples(values.clone())
                .percentiles()
                .unwrap()
                .scaled(1000.0);
            let found = [found.p50, found.p95, found.p99].map(|value| value.round() as u64);
            assert_eq!(found, expected, "{values:?}");
            let one = samples(values.clone()).percentile(0.95).unwrap() * 1000.0;
            assert_eq!(one.round() as u64, expected[1], "{values:?}");
        }
        assert_eq!(Samples::default().percentiles(), None);
        assert_eq!(Samples::default().percentile(0.5), None);
    }

    #[test]
    fn pooled_samples_are_as_if_measured_together() {
        let mut pooled = samples([1, 2, 3]);
        pooled.merge(&samples([100, 200]));
        assert_eq!(
            pooled.percentiles(),
            samples([1, 2, 3, 100, 200]).percentiles()
        );
        assert_eq!(pooled.len(), 5);
    }
}
