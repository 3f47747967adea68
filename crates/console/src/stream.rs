//! The state over a WebSocket: at once, then every second and at each change of phase.
//!
//! Nothing is queued for a reader. The next state is made only when the last one has left, so
//! one that reads slowly skips to the newest, and one that does not read at all is let go.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::stream::SplitStream;
use futures_util::{SinkExt as _, StreamExt as _};
use loadgen::snapshot::Snapshot;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::Console;

/// How often the state is sent where no load generator sets the pace.
const PACE: Duration = Duration::from_secs(1);

/// How long a reader may take for one state before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// Serves one viewer until it leaves or the console closes.
pub(crate) async fn run(console: Console, socket: WebSocket, granted: bool) {
    let closing = console.inner.closing.clone();
    let (mut sink, mut incoming) = socket.split();
    let mut beat = Beat::new(&console);
    let sending = async {
        loop {
            let state = console.state(beat.newest(), granted);
            let Ok(text) = serde_json::to_string(&state) else {
                return;
            };
            match timeout(PATIENCE, sink.send(Message::text(text))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
            tokio::select! {
                () = beat.next() => {}
                () = gone(&mut incoming) => return,
            }
        }
    };
    closing.run_until_cancelled(sending).await;
    // Told why, if it still listens.
    let _ = timeout(PACE, sink.send(Message::Close(None))).await;
}

/// Returns when the viewer has left. What it says is read, because pings are answered by
/// reading, and not heeded.
async fn gone(incoming: &mut SplitStream<WebSocket>) {
    while let Some(Ok(message)) = incoming.next().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}

/// What says that it is time for the next state.
enum Beat {
    /// The load generator's own second, and its changes of phase.
    Load(watch::Receiver<Snapshot>),
    Clock(Interval),
}

impl Beat {
    fn new(console: &Console) -> Self {
        match &console.inner.load {
            Some(load) => Self::Load(load.snapshots()),
            None => {
                let mut ticks = interval(PACE);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // The first is over at once, and the first state is sent anyway.
                ticks.reset();
                Self::Clock(ticks)
            }
        }
    }

    fn newest(&mut self) -> Option<Snapshot> {
        match self {
            Self::Load(snapshots) => Some(snapshots.borrow_and_update().clone()),
            Self::Clock(_) => None,
        }
    }

    async fn next(&mut self) {
        match self {
            Self::Load(snapshots) => {
                if snapshots.changed().await.is_err() {
                    // No load generator any more: the server shuts down.
                    std::future::pending::<()>().await;
                }
            }
            Self::Clock(ticks) => {
                ticks.tick().await;
            }
        }
    }
}
