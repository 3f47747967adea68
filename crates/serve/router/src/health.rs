//! Whether a worker is trusted with requests, and with how many.
//!
//! A worker that fails several requests in a row is left alone for a while, longer each
//! time; then one request tries it. If that one is served, the worker is taken back, but only
//! a few requests at first and one more for each first token that comes, because a worker
//! that has just restarted has a cold cache and perhaps the same fault. A worker that comes
//! back after it was lost begins there too.
//!
//! ```text
//!            failures in a row              pause over             served
//! sound ───────────────────────► shunned ─────────────► on trial ─────────► recovering ──► sound
//!                                   ▲                       │ failed            │ failed again
//!                                   └───────────────────────┴───────────────────┘
//! ```
//!
//! A worker that says that it has no room has not failed. One that is silent about a request
//! while it serves others has not either: engines preempt requests for want of memory, and not
//! every engine says so. Requests that were under way when a worker was shunned do not count
//! for its trial: how long they take says nothing about it.

use std::time::Duration;

use contract::Moment;
use serde::Serialize;

/// So many failures in a row, and a worker is left alone.
const FAILURES: u32 = 3;
/// For how long, the first time; doubled each time after that.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Requests at once on a worker that has just been taken back.
const FIRST_TRUST: u32 = 4;

/// What a worker's past says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    standing: Standing,
    /// Pauses since it was last sound.
    pauses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Sound { failures: u32 },
    Shunned { until: Moment },
    Recovering { trust: u32 },
}

/// A worker's health as it is reported outside the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    Sound,
    /// Gets few requests, and more as they are served.
    Recovering,
    /// Gets one request, which decides whether it recovers.
    OnTrial,
    /// Quarantined: gets no requests.
    Shunned,
}

impl Health {
    /// A worker without failures.
    pub const SOUND: Self = Self {
        standing: Standing::Sound { failures: 0 },
        pauses: 0,
    };

    /// A worker that comes back after it was lost.
    pub const RETURNED: Self = Self {
        standing: Standing::Recovering { trust: FIRST_TRUST },
        pauses: 0,
    };

    pub fn condition(&self, now: Moment) -> Condition {
        match self.standing {
            Standing::Sound { .. } => Condition::Sound,
            Standing::Recovering { .. } => Condition::Recovering,
            Standing::Shunned { until } if now < until => Condition::Shunned,
            Standing::Shunned { .. } => Condition::OnTrial,
        }
    }

    /// Requests that it may have at once, without those from before it was shunned; `None` for
    /// as many as it has slots.
    pub fn most(&self, now: Moment) -> Option<u32> {
        match (self.condition(now), self.standing) {
            (Condition::Shunned, _) => Some(0),
            (Condition::OnTrial, _) => Some(1),
            (Condition::Recovering, Standing::Recovering { trust }) => Some(trust),
            (Condition::Sound | Condition::Recovering, _) => None,
        }
    }

    /// A first token has come from the worker, which has so many slots.
    pub fn served(&mut self, slots: u32) {
        self.standing = match self.standing {
            Standing::Shunned { .. } => Standing::Recovering { trust: FIRST_TRUST },
            Standing::Recovering { trust } if trust < slots => {
                Standing::Recovering { trust: trust + 1 }
            }
            Standing::Sound { .. } | Standing::Recovering { .. } => {
                self.pauses = 0;
                Standing::Sound { failures: 0 }
            }
        };
    }

    /// Records a failure that the worker caused. Returns whether the worker is quarantined from now
    /// on.
    pub fn failed(&mut self, now: Moment) -> bool {
        let failures = match self.standing {
            Standing::Sound { failures } => failures + 1,
            // One failure ends a trial. Requests that were running when the worker was
            // shunned fail late and prove nothing new.
            Standing::Shunned { until } if now < until => return false,
            Standing::Shunned { .. } | Standing::Recovering { .. } => FAILURES,
        };
        self.standing = if failures < FAILURES {
            Standing::Sound { failures }
        } else {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(16));
            self.pauses += 1;
            let until = now + pause.min(LONGEST_PAUSE);
            Standing::Shunned { until }
        };
        failures >= FAILURES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn failed(times: u32, now: Moment) -> Health {
        let mut health = Health::SOUND;
        for _ in 0..times {
            health.failed(now);
        }
        health
    }

    #[test]
    fn only_failures_in_a_row_count() {
        let mut health = failed(FAILURES - 1, at(0));
        assert_eq!(health.most(at(0)), None);
        health.served(64);
        health.failed(at(1));
        assert_eq!(health.condition(at(1)), Condition::Sound);
        assert_eq!(failed(FAILURES, at(0)).condition(at(0)), Condition::Shunned);
    }

    #[test]
    fn after_a_pause_one_request_tries_it_and_trust_grows_with_what_is_served() {
        let mut health = failed(FAILURES, at(0));
        assert_eq!(health.most(at(0)), Some(0));
        assert_eq!(health.most(at(1)), Some(1));
        let slots = FIRST_TRUST + 2;
        health.served(slots);
        assert_eq!(health.most(at(1)), Some(FIRST_TRUST));
        health.served(slots);
        health.served(slots);
        assert_eq!(health.most(at(1)), Some(slots));
        health.served(slots);
        assert_eq!((health.most(at(1)), health), (None, Health::SOUND));
    }

    #[test]
    fn each_trial_that_fails_doubles_the_pause_up_to_a_limit() {
        let mut health = failed(FAILURES, at(0));
        let (mut now, mut pauses) = (at(0), Vec::new());
        for _ in 0..8 {
            let began = now;
            while health.condition(now) == Condition::Shunned {
                now += Duration::from_secs(1);
            }
            pauses.push(now.since(began).as_secs());
            health.failed(now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn a_failure_of_what_was_under_way_does_not_lengthen_the_pause() {
        let mut health = failed(FAILURES, at(0));
        let before = health;
        health.failed(at(0));
        assert_eq!(health, before);
    }

    #[test]
    fn who_comes_back_begins_small_and_one_failure_is_enough() {
        let mut health = Health::RETURNED;
        assert_eq!(health.most(at(0)), Some(FIRST_TRUST));
        health.failed(at(0));
        assert_eq!(health.condition(at(0)), Condition::Shunned);
    }
}
