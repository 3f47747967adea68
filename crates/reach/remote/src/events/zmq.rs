//! Events over ZeroMQ: every worker publishes by itself, and keeps its latest batches for
//! those who missed one.
//!
//! ```text
//! PUB     [topic][number of the batch, u64 BE, or nothing][envelope]
//! ```
//!
//! Missed batches come again by [`zmtp::replay`].
//!
//! A listener that sees a gap asks for what it missed before it passes the next batch on. If
//! the worker no longer has it, the gap stays, and the router fetches a snapshot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tasks::Tasks;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use zmtp::replay::{self, Numbered, from_be, serve_replay, to_be};
use zmtp::{Bound, Error, Message, Subscriber};

use super::{EventError, EventReceiver, Outgoing};
use crate::registration::EventAddress;

/// Batches kept for replay: more than a minute at full load.
const KEPT: usize = 4096;
/// A replay that takes longer is given up for a snapshot.
const PATIENCE: Duration = Duration::from_millis(500);
/// The largest message that is read: more than the busiest worker's batch by far.
const LARGEST_MESSAGE: usize = 4 << 20;

/// The worker's ports, bound and not yet in use.
#[derive(Debug)]
pub(super) struct Sockets {
    publish: Bound,
    replay: Bound,
}

impl Sockets {
    /// Binds the port and the one after it; any two if it is 0.
    pub(super) async fn bind(host: &str, port: u16) -> Result<Self, EventError> {
        let next = if port == 0 { 0 } else { port.wrapping_add(1) };
        Ok(Self {
            publish: bound(host, port).await?,
            replay: bound(host, next).await?,
        })
    }

    pub(super) fn address(&self, host: &str) -> EventAddress {
        EventAddress::Zmq {
            publish: format!("tcp://{host}:{}", self.publish.port()),
            replay: format!("tcp://{host}:{}", self.replay.port()),
        }
    }

    pub(super) fn serve(self, topic: String, outgoing: mpsc::Receiver<Outgoing>, tasks: &Tasks) {
        let kept: Kept = Arc::default();
        let publisher = zmtp::Publisher::serve(self.publish, tasks);
        let again = Arc::clone(&kept);
        let kept_from = move |first| kept_from(&again, first);
        serve_replay(self.replay, kept_from, tasks);
        tasks.spawn_until_stop(publish(publisher, topic, outgoing, kept));
    }
}

async fn bound(host: &str, port: u16) -> Result<Bound, EventError> {
    let bound = Bound::bind(host, port).await;
    bound.map_err(|error| EventError::Zmq(format!("cannot listen on {host}:{port}: {error}")))
}

fn failed(error: Error) -> EventError {
    EventError::Zmq(error.to_string())
}

/// The latest batches, oldest first.
type Kept = Arc<Mutex<VecDeque<Numbered>>>;

async fn publish(
    publisher: zmtp::Publisher,
    topic: String,
    mut outgoing: mpsc::Receiver<Outgoing>,
    kept: Kept,
) {
    let topic = Bytes::from(topic);
    while let Some(Outgoing { envelope, sequence }) = outgoing.recv().await {
        let number = sequence.map_or_else(Bytes::new, to_be);
        if let Some(sequence) = sequence {
            let mut kept = kept.lock();
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(Numbered {
                number: sequence,
                payload: envelope.clone(),
            });
        }
        publisher.publish(vec![topic.clone(), number, envelope]);
    }
}

/// The batches from a number on.
fn kept_from(kept: &Kept, first: u64) -> Vec<Numbered> {
    let kept = kept.lock();
    let wanted = kept.iter().filter(|batch| batch.number >= first);
    wanted.cloned().collect()
}

/// Listens to one worker until `stop` fires. Returns once connected; the task is the
/// caller's to run.
pub async fn listen(
    publish: &str,
    replay: &str,
    topic: &str,
    inlet: EventReceiver,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + use<>, EventError> {
    let subscriber = Subscriber::connect(publish, topic, LARGEST_MESSAGE).await;
    let mut subscriber = subscriber.map_err(failed)?;
    let mut listener = Listener {
        inlet,
        replay: replay.to_owned(),
        next: None,
    };
    Ok(async move {
        let work = async {
            loop {
                match subscriber.next().await {
                    Ok(message) => listener.take(&message).await,
                    Err(error) => listener.interrupted(&error),
                }
            }
        };
        stop.run_until_cancelled(work).await;
    })
}

struct Listener {
    inlet: EventReceiver,
    replay: String,
    /// Number of the next batch; `None` before the first.
    next: Option<u64>,
}

impl Listener {
    /// What comes after shows whether anything was missed.
    fn interrupted(&self, error: &Error) {
        debug!(%error, "events over ZeroMQ interrupted");
        if let Error::Violation(_) = error {
            self.inlet.metrics.refused_event("malformed");
        }
    }

    async fn take(&mut self, message: &Message) {
        let [_, number, envelope] = &message[..] else {
            self.inlet.metrics.refused_event("malformed");
            return;
        };
        if let (Some(next), Some(number)) = (self.next, from_be(number))
            && number > next
        {
            self.fill(next, number).await;
        }
        if let Some(sequence) = self.inlet.take(envelope) {
            self.next = Some(sequence + 1);
        }
    }

    /// Asks for the batches between, and passes them on if they are all there.
    async fn fill(&self, first: u64, end: u64) {
        let asked = tokio::time::timeout(PATIENCE, ask(&self.replay, first, end)).await;
        match asked {
            Ok(Ok(batches)) if batches.len() as u64 == end - first => {
                for batch in batches {
                    self.inlet.take(&batch.payload);
                    self.inlet.metrics.replayed.inc();
                }
            }
            Ok(Ok(_)) => debug!(first, end, "the worker no longer has these batches"),
            Ok(Err(error)) => warn!(%error, "replay failed"),
            Err(_) => debug!(first, end, "replay timed out"),
        }
    }
}

async fn ask(endpoint: &str, first: u64, end: u64) -> Result<Vec<Numbered>, Error> {
    let mut batches = replay::replay(endpoint, first, LARGEST_MESSAGE).await?;
    batches.retain(|batch| batch.number < end);
    Ok(batches)
}
