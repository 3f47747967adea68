//! How full a worker was on average between two moments.
//!
//! The integral of the requests in flight over time, brought up to date when their number
//! changes. Two readings of it give the average of any interval without a sample being
//! stored, so a request that reports its progress once per second still knows with how many
//! others it shared the worker.

use std::time::Duration;

use contract::Moment;

/// Requests in flight, summed over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Occupancy {
    in_flight: u32,
    request_seconds: f64,
    at: Moment,
}

/// A reading, to be compared with a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mark {
    request_seconds: f64,
    at: Moment,
}

/// What lies between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub in_flight: f64,
    pub elapsed: Duration,
}

impl Occupancy {
    /// From `now` on, so many requests are in flight.
    pub fn set(&mut self, in_flight: u32, now: Moment) {
        *self = Self {
            in_flight,
            request_seconds: self.mark(now).request_seconds,
            at: self.at.max(now),
        };
    }

    pub fn mark(&self, now: Moment) -> Mark {
        let elapsed = now.since(self.at).as_secs_f64();
        Mark {
            request_seconds: self.request_seconds + elapsed * f64::from(self.in_flight),
            at: now,
        }
    }

    /// The average since an earlier reading.
    pub fn since(&self, earlier: Mark, now: Moment) -> Interval {
        let elapsed = now.since(earlier.at);
        let seconds = elapsed.as_secs_f64();
        let in_flight = if seconds > 0.0 {
            (self.mark(now).request_seconds - earlier.request_seconds) / seconds
        } else {
            f64::from(self.in_flight)
        };
        Interval { in_flight, elapsed }
    }
}
