//! How long to wait before the next attempt: doubling, bounded, and never in step with the
//! other clients that lost the same server.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST }
    }

    /// Waits; longer after each call.
    pub(crate) async fn wait(&mut self) {
        let jitter = RandomState::new().hash_one(0) % 1024;
        let pause = self.next.mul_f64(0.5 + jitter as f64 / 2048.0);
        tokio::time::sleep(pause).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}
