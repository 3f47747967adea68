//! How long a request's body that comes slowly is waited for.
//!
//! Reading one costs memory and a place, so it has to keep coming: a sender may let us wait for
//! as long as the read timeout in all, and earns more waiting by what it sends, up to the same
//! again. One that sends nothing is refused when the time is over, one that drips soon after,
//! and one that sends at a modem's speed never.

use std::time::Duration;

/// What must be sent to be waited for any longer, in bytes per second: a modem's speed.
const SLOWEST: f64 = 4096.0;

/// Waiting that a sender has left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    most: Duration,
    left: Duration,
}

impl Allowance {
    pub(crate) fn new(most: Duration) -> Self {
        Self { most, left: most }
    }

    pub(crate) fn left(&self) -> Duration {
        self.left
    }

    /// The sender let us wait for so long.
    pub(crate) fn waited(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }

    /// So many bytes came.
    pub(crate) fn came(&mut self, bytes: usize) {
        let earned = Duration::from_secs_f64(bytes as f64 / SLOWEST);
        self.left = (self.left + earned).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_used_up_and_earned_again_up_to_the_timeout() {
        let second = Duration::from_secs(1);
        let mut allowance = Allowance::new(10 * second);
        allowance.came(1 << 20);
        assert_eq!(allowance.left(), 10 * second);
        allowance.waited(6 * second);
        assert_eq!(allowance.left(), 4 * second);
        allowance.came(8192);
        assert_eq!(allowance.left(), 6 * second);
        allowance.waited(7 * second);
        assert_eq!(allowance.left(), Duration::ZERO);
    }
}
