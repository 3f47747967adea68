//! When something may happen at the earliest: a limit of the rate, and random arrivals.

use std::time::Duration;

use contract::Moment;
use contract::random::{mix, unit};

/// Separates the draws from those of the script.
const ARRIVAL: u64 = 6;

/// At most so many turns per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateLimit {
    interval: Duration,
    next: Moment,
}

impl RateLimit {
    pub(super) fn set(&mut self, per_second: Option<f64>) {
        self.interval = per_second.map_or(Duration::ZERO, interval);
        // A stricter limit of before does not outlast its end.
        if self.interval.is_zero() {
            self.next = Moment::ZERO;
        }
    }

    /// When what is due at `at` may be sent.
    pub(super) fn earliest(&self, at: Moment) -> Moment {
        at.max(self.next)
    }

    /// Records that something is sent now which could have been sent from `at` on. A short delay is
    /// caught up; what waited longer, as in a pause, does not come out in a burst.
    pub(super) fn spend(&mut self, at: Moment, now: Moment) {
        if self.interval.is_zero() {
            return;
        }
        let next = at + self.interval;
        self.next = if next < now {
            now + self.interval
        } else {
            next
        };
    }
}

/// Conversations that begin at random moments: the gaps are exponential, so that any second
/// is like any other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    mean: Duration,
    seed: u64,
    number: u64,
    pub(super) next: Moment,
}

impl Arrivals {
    pub(super) fn new(per_second: f64, seed: u64, now: Moment) -> Self {
        let mut arrivals = Self {
            mean: interval(per_second),
            seed,
            number: 0,
            next: now,
        };
        arrivals.skip_to(now);
        arrivals
    }

    /// The moment of an arrival up to `now`, if there is one more.
    pub(super) fn arrive(&mut self, now: Moment) -> Option<Moment> {
        let at = self.next;
        (at <= now).then(|| {
            self.skip_to(at);
            at
        })
    }

    /// The next arrival is one gap after `now`.
    pub(super) fn skip_to(&mut self, now: Moment) {
        // 1 less a draw from [0, 1) is above 0, where the logarithm is finite.
        let draw = 1.0 - unit(mix(self.seed ^ ARRIVAL, self.number, 0));
        self.number += 1;
        self.next = now + self.mean.mul_f64(-draw.ln());
    }
}

/// At most a day, also for rates that make no sense.
fn interval(per_second: f64) -> Duration {
    let longest = Duration::from_secs(86_400);
    Duration::try_from_secs_f64(1.0 / per_second).map_or(longest, |time| time.min(longest))
}
