//! The pause before the next attempt: doubling, bounded, and with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long to wait after each of several failed attempts in a row.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Pauses of about `first`, twice that, and so on up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// Waits; longer after each call.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.pause()).await;
    }

    /// How long to wait now; nominally twice as long after each call.
    pub fn pause(&mut self) -> Duration {
        let pause = self.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    /// How long to wait after `failures` others, for those who count themselves: between half
    /// of the nominal pause and all of it.
    pub fn after(&self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.min(31));
        // Every state of the standard library's hash has keys of its own.
        let jitter = RandomState::new().hash_one(0) % 1024;
        let share = 0.5 + jitter as f64 / 2048.0;
        doubled.min(self.longest).mul_f64(share)
    }

    /// An attempt succeeded: the next pause is the first again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_millis(350);

    #[test]
    fn pauses_double_up_to_the_longest_and_start_again() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        for nominal in [100, 200, 350, 350] {
            let pause = backoff.pause();
            let nominal = Duration::from_millis(nominal);
            assert!(
                pause >= nominal / 2 && pause <= nominal,
                "{pause:?} of {nominal:?}"
            );
        }
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }

    #[test]
    fn pauses_of_many_clients_differ() {
        let pauses: std::collections::BTreeSet<Duration> = (0..100)
            .map(|_| Backoff::new(FIRST, LONGEST).pause())
            .collect();
        assert!(pauses.len() > 50, "{} different pauses", pauses.len());
    }
}
