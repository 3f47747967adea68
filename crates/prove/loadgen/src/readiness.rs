//! Whether a server has somebody who answers. Load that began before would be refused, and a
//! measurement would begin with failures that say nothing.
//!
//! `GET /health` is asked, as probes do: 503 means not yet, and so does a server that cannot be
//! reached. Any other answer counts as ready, and so does none, because many servers have no such
//! path. A proxy may answer 503 there whatever is behind it, so that patience can have an end.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::client::Client;

const PAUSE: Duration = Duration::from_millis(500);

/// A server's readiness as last seen; ready until somebody has asked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness {
    ready: watch::Receiver<bool>,
}

impl Readiness {
    /// Of a server that needs no asking.
    pub fn assumed() -> Self {
        Self {
            ready: watch::channel(true).1,
        }
    }

    /// Not before the sender says so.
    pub fn told() -> (watch::Sender<bool>, Self) {
        let (sender, ready) = watch::channel(false);
        (sender, Self { ready })
    }

    /// Asks until the server is ready for the first time, or nobody wants to know. After `patience`
    /// it is taken for ready, and its answers to requests will say what is wrong.
    pub fn follow(client: Client, patience: Option<Duration>, tasks: &TaskTracker) -> Self {
        let (sender, ready) = watch::channel(true);
        let asked = Instant::now();
        tasks.spawn(async move {
            loop {
                let mut is_ready = client.is_ready().await;
                if !is_ready && patience.is_some_and(|patience| asked.elapsed() >= patience) {
                    warn!(
                        "the server's /health is not ready in time: requests are sent all the same"
                    );
                    is_ready = true;
                }
                sender.send_replace(is_ready);
                if is_ready {
                    return;
                }
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    () = sender.closed() => return,
                }
            }
        });
        Self { ready }
    }

    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Returns what the first answer was.
    pub async fn first_answer(&mut self) -> bool {
        // Fails where nobody asks any more.
        let _ = self.ready.changed().await;
        self.is_ready()
    }

    /// Returns once the server is ready; never, if nobody asks any more and it was not.
    pub async fn ready(&mut self) {
        if self.ready.wait_for(|ready| *ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::Clock;

    use super::*;
    use crate::mock::{Fault, Manner, Mock};

    async fn first(fault: Fault) -> (bool, Mock, Readiness) {
        let mock = Mock::new(Manner {
            fault,
            ..Manner::default()
        });
        let client = mock.client(Clock::start(), false);
        let mut readiness = Readiness::follow(client, None, &TaskTracker::new());
        assert!(readiness.is_ready(), "nobody has asked yet");
        (readiness.first_answer().await, mock, readiness)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_a_worker_is_asked_until_it_has_one() {
        let refuse = |status| Fault::Refuse { status, every: 1 };
        for fault in [refuse(503), Fault::Away] {
            let (is_ready, mock, mut readiness) = first(fault).await;
            assert!(!is_ready, "{fault:?}");
            mock.behave(Manner::default());
            readiness.ready().await;
            assert!(readiness.is_ready());
        }
        // It has no such path, or wants a key for it: it may well answer.
        for status in [404, 401, 500] {
            assert!(first(refuse(status)).await.0, "{status}");
        }
        assert!(Readiness::assumed().first_answer().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_proxy_that_answers_for_nobody_is_not_waited_for_without_end() {
        let mock = Mock::new(Manner {
            fault: Fault::Refuse {
                status: 503,
                every: 1,
            },
            ..Manner::default()
        });
        let client = mock.client(Clock::start(), false);
        let patience = Duration::from_secs(20);
        let (asked, tasks) = (Instant::now(), TaskTracker::new());
        let mut readiness = Readiness::follow(client, Some(patience), &tasks);
        assert!(!readiness.first_answer().await);
        readiness.ready().await;
        assert!((patience..2 * patience).contains(&asked.elapsed()));
    }
}
