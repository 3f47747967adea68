//! When an engine last showed that it works.
//!
//! An engine that compiles a kernel or computes a long prompt may not answer a health check for a
//! minute. Tokens that still flow are as good a sign as the check.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct LastSign(Arc<Mutex<Instant>>);

impl LastSign {
    pub(crate) fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn seen(&self) {
        *self.0.lock() = Instant::now();
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.lock().elapsed()
    }
}
