//! Estimates when a slot frees from the recent rate of completions.
//!
//! Counts per second over the last minute: enough for a `Retry-After`, constant in memory,
//! and quick to forget a time when things were different.

use std::time::Duration;

use contract::Moment;

const WINDOW: u64 = 60;

#[derive(Debug)]
pub(crate) struct Completions {
    /// Requests that ended, by second modulo the window.
    by_second: [u32; WINDOW as usize],
    total: u32,
    /// The second that was last counted.
    latest: u64,
    /// The second of the first completion in a row without an empty minute.
    first: u64,
}

impl Default for Completions {
    fn default() -> Self {
        Self {
            by_second: [0; WINDOW as usize],
            total: 0,
            latest: 0,
            first: 0,
        }
    }
}

impl Completions {
    pub(crate) fn record(&mut self, now: Moment) {
        self.advance(now);
        if self.total == 0 {
            self.first = self.latest;
        }
        self.by_second[(self.latest % WINDOW) as usize] += 1;
        self.total += 1;
    }

    /// Expected time until the next request ends, between one second and one minute; one
    /// second if none has ended for a minute, which says nothing about the next.
    pub(crate) fn expected_wait(&mut self, now: Moment) -> Duration {
        self.advance(now);
        if self.total == 0 {
            return Duration::from_secs(1);
        }
        let observed = (self.latest - self.first + 1).min(WINDOW);
        let expected = Duration::from_secs(observed) / self.total;
        expected.clamp(Duration::from_secs(1), Duration::from_secs(WINDOW))
    }

    /// Forgets the seconds that have left the window. Time never runs backwards here: an
    /// earlier moment counts as the latest one.
    fn advance(&mut self, now: Moment) {
        let second = now.since(Moment::ZERO).as_secs().max(self.latest);
        for passed in (self.latest + 1)..=second.min(self.latest + WINDOW) {
            let left = std::mem::take(&mut self.by_second[(passed % WINDOW) as usize]);
            self.total -= left;
        }
        self.latest = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    /// Records completions at the given seconds and asks at `now`.
    fn wait_seconds(completed: impl IntoIterator<Item = u64>, now: u64) -> f64 {
        let mut completions = Completions::default();
        for at in completed {
            completions.record(second(at));
        }
        completions.expected_wait(second(now)).as_secs_f64()
    }

    #[test]
    fn the_wait_is_the_observed_interval_within_bounds() {
        for (name, completed, now, expected) in [
            ("nothing known", vec![], 5, 1.0),
            (
                "one every four seconds",
                (0..20).map(|n| n * 4).collect(),
                79,
                4.0,
            ),
            ("many a second", vec![7; 500], 7, 1.0),
            ("the first, just now", vec![1_000], 1_000, 1.0),
            ("one, half a minute ago", vec![10], 39, 30.0),
            ("one, a minute ago less a second", vec![10], 69, 60.0),
            ("one, a minute ago", vec![10], 70, 1.0),
            ("long ago", vec![10; 9], 1_000_000, 1.0),
            ("the clock steps back", vec![10], 0, 1.0),
        ] {
            assert_eq!(wait_seconds(completed, now), expected, "{name}");
        }
    }
}
