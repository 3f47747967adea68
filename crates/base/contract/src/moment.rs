//! Time as a value.
//!
//! Pure code (scheduler, block pool, router state, statistics) never reads a clock: it is
//! handed a [`Moment`]. The asynchronous shell makes moments from tokio's clock, a
//! discrete-event loop from its own, and both drive the same code.

use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Makes moments out of tokio's clock, which tests can pause. Only the asynchronous shells
/// hold one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// Unix time at the origin, as far as this machine knows it.
    unix_origin: Duration,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
            unix_origin: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or(Duration::ZERO),
        }
    }

    pub fn now(&self) -> Moment {
        Moment::ZERO + self.origin.elapsed()
    }

    /// A moment as other machines name it: time since 1970.
    pub fn unix(&self, moment: Moment) -> Duration {
        self.unix_origin + Duration::from_nanos(moment.0)
    }

    /// The moment that another machine means. What lies before this clock's start is its
    /// start.
    pub fn at_unix(&self, unix: Duration) -> Moment {
        Moment::ZERO + unix.saturating_sub(self.unix_origin)
    }
}

/// Nanoseconds since the process, or the simulation, began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    pub fn as_secs_f64(self) -> f64 {
        Duration::from_nanos(self.0).as_secs_f64()
    }

    /// Time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}
