//! Work in the background: how it is started, stopped and waited for, and how it retries.
//!
//! - [`Tasks`] is what a component needs to run tasks of its own: a tracker that shutdown waits
//!   for, and a token that asks them to end. One value, because the two always travel together.
//! - [`Backoff`] is the pause between attempts to reach something that is away: doubling,
//!   bounded, and with jitter, so that a fleet that lost one server does not return in step.

mod backoff;

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use backoff::Backoff;

/// The tasks of a component. Clones share the tracker and the token.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    pub tracker: TaskTracker,
    /// Cancelled when the tasks should end.
    pub stop: CancellationToken,
}

impl Tasks {
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task that [`finish`](Self::finish) waits for.
    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(work)
    }

    /// Starts a task that is dropped, wherever it waits, when the tasks should end.
    pub fn spawn_until_stop<F>(&self, work: F)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(work).await;
        });
    }

    /// Asks all tasks to end, and waits until they have.
    pub async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn finish_stops_and_waits() {
        let tasks = Tasks::new();
        let stop = tasks.clone().stop;
        let ended = tasks.spawn(async move {
            stop.cancelled().await;
            tokio::task::yield_now().await;
            7
        });
        tasks.finish().await;
        assert!(ended.is_finished());
        assert_eq!(ended.await.unwrap(), 7);
    }
}
