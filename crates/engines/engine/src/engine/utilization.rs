//! How much of the last second an engine was busy.
//!
//! Busy time is summed in ten buckets of 100 ms, so recording a step costs the same at 30
//! steps a second and at 300,000.

use std::time::Duration;

use contract::Moment;

const BUCKET: Duration = Duration::from_millis(100);
const BUCKETS: u64 = 10;

/// After this long without a step the share is zero.
pub(super) const WINDOW: Duration = BUCKET.saturating_mul(BUCKETS as u32);

#[derive(Debug, Default)]
pub(super) struct Utilization {
    busy: [Duration; BUCKETS as usize],
    /// Number of the newest bucket, counted from the clock's beginning.
    newest: u64,
}

impl Utilization {
    /// Counts the time from `began` to `ended` as busy. Calls come in order of time.
    pub(super) fn record(&mut self, began: Moment, ended: Moment) {
        self.move_to(number(ended));
        let oldest = (self.newest + 1).saturating_sub(BUCKETS);
        for bucket in number(began).max(oldest)..=self.newest {
            let begin = began.max(start(bucket));
            let end = ended.min(start(bucket + 1));
            self.busy[slot(bucket)] += end - begin;
        }
    }

    /// The busy share of the nine full buckets before `now` and the one under way, 0 to 1.
    pub(super) fn share(&mut self, now: Moment) -> f64 {
        self.move_to(number(now));
        let busy: Duration = self.busy.iter().sum();
        let window = WINDOW - BUCKET + (now - start(self.newest));
        (busy.as_secs_f64() / window.as_secs_f64()).min(1.0)
    }

    /// Empties the buckets that time has passed over.
    fn move_to(&mut self, newest: u64) {
        let first_stale = self.newest + 1;
        for bucket in first_stale.max((newest + 1).saturating_sub(BUCKETS))..=newest {
            self.busy[slot(bucket)] = Duration::ZERO;
        }
        self.newest = self.newest.max(newest);
    }
}

fn number(moment: Moment) -> u64 {
    moment.as_nanos() / BUCKET.as_nanos() as u64
}

fn start(bucket: u64) -> Moment {
    Moment::from_nanos(bucket * BUCKET.as_nanos() as u64)
}

fn slot(bucket: u64) -> usize {
    (bucket % BUCKETS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_share_is_that_of_the_last_second() {
        let mut utilization = Utilization::default();
        utilization.record(at(1000), at(1500));
        assert_eq!(utilization.share(at(2000)), 0.4 / 0.9);
        assert_eq!(utilization.share(at(2050)), 0.4 / 0.95);
        assert_eq!(utilization.share(at(2550)), 0.0);
        assert_eq!(utilization.share(at(90_000)), 0.0);
    }

    #[test]
    fn a_step_longer_than_the_window_fills_it() {
        let mut utilization = Utilization::default();
        utilization.record(at(100), at(5_050));
        assert_eq!(utilization.share(at(5_050)), 1.0);
    }

    #[test]
    fn steps_without_duration_count_nothing() {
        let mut utilization = Utilization::default();
        utilization.record(at(1_250), at(1_250));
        assert_eq!(utilization.share(at(1_250)), 0.0);
    }
}
