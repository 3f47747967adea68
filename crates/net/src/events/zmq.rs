//! Events over ZeroMQ: every worker publishes by itself, and keeps its latest batches for
//! those who missed one.
//!
//! ```text
//! PUB     [topic][number of the batch, u64 BE, or nothing][envelope]
//! replay  DEALER asks [][first number wanted, u64 BE]
//!         ROUTER answers [][number][envelope] …, and at the end [][][]
//! ```
//!
//! A listener that sees a gap asks for what it missed before it passes the next batch on. If
//! the worker no longer has it, the gap stays, and the router fetches a snapshot.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use zeromq::{
    DealerSocket, PubSocket, RouterSocket, Socket as _, SocketRecv as _, SocketSend as _,
    SubSocket, ZmqMessage,
};

use super::{EventError, Inlet, Outgoing};
use crate::registration::EventAddress;

/// Batches kept for replay: more than a minute at full load.
const KEPT: usize = 4096;
/// A replay that takes longer is given up for a snapshot.
const PATIENCE: Duration = Duration::from_millis(500);

/// The worker's sockets, bound and not yet in use.
pub(super) struct Sockets {
    publish: PubSocket,
    publish_port: u16,
    replay: RouterSocket,
    replay_port: u16,
}

impl Sockets {
    /// Binds the port and the one after it; any two if it is 0.
    pub(super) async fn bind(host: &str, port: u16) -> Result<Self, EventError> {
        let mut publish = PubSocket::new();
        let bound = publish.bind(&format!("tcp://{host}:{port}")).await;
        let publish_port = port_of(&bound.map_err(failed)?)?;
        let mut replay = RouterSocket::new();
        let next = if port == 0 { 0 } else { port.wrapping_add(1) };
        let bound = replay.bind(&format!("tcp://{host}:{next}")).await;
        let replay_port = port_of(&bound.map_err(failed)?)?;
        Ok(Self {
            publish,
            publish_port,
            replay,
            replay_port,
        })
    }

    pub(super) fn address(&self, host: &str) -> EventAddress {
        EventAddress::Zmq {
            publish: format!("tcp://{host}:{}", self.publish_port),
            replay: format!("tcp://{host}:{}", self.replay_port),
        }
    }

    pub(super) fn serve(
        self,
        topic: String,
        outgoing: mpsc::Receiver<Outgoing>,
        (tasks, stop): (&TaskTracker, &CancellationToken),
    ) {
        let kept: Kept = Arc::default();
        let publish = publish(self.publish, topic, outgoing, Arc::clone(&kept));
        let answer = answer(self.replay, kept);
        for task in [
            Box::pin(publish) as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
            Box::pin(answer),
        ] {
            let stop = stop.clone();
            tasks.spawn(async move {
                stop.run_until_cancelled(task).await;
            });
        }
    }
}

impl std::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sockets({}, {})", self.publish_port, self.replay_port)
    }
}

fn failed(error: zeromq::ZmqError) -> EventError {
    EventError::Zmq(error.to_string())
}

fn port_of(endpoint: &zeromq::Endpoint) -> Result<u16, EventError> {
    if let zeromq::Endpoint::Tcp(_, port) = endpoint {
        return Ok(*port);
    }
    Err(EventError::Zmq(format!(
        "bound to {endpoint}, not to a port"
    )))
}

/// The latest batches, oldest first.
type Kept = Arc<Mutex<VecDeque<(u64, Bytes)>>>;

async fn publish(
    mut socket: PubSocket,
    topic: String,
    mut outgoing: mpsc::Receiver<Outgoing>,
    kept: Kept,
) {
    let topic = Bytes::from(topic);
    while let Some(Outgoing { envelope, sequence }) = outgoing.recv().await {
        let number = sequence.map_or_else(Bytes::new, be);
        if let Some(sequence) = sequence {
            let mut kept = kept.lock();
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back((sequence, envelope.clone()));
        }
        if let Err(error) = socket
            .send(message([topic.clone(), number, envelope]))
            .await
        {
            debug!(%error, "cannot publish over ZeroMQ");
        }
    }
}

/// Answers whoever asks for batches again.
async fn answer(mut socket: RouterSocket, kept: Kept) {
    loop {
        let asked = match socket.recv().await {
            Ok(asked) => asked.into_vec(),
            Err(error) => {
                debug!(%error, "replay");
                tokio::time::sleep(PATIENCE).await;
                continue;
            }
        };
        let (Some(asker), Some(first)) = (asked.first(), asked.last().and_then(from_be)) else {
            continue;
        };
        let batches: Vec<(u64, Bytes)> = {
            let kept = kept.lock();
            let wanted = kept.iter().filter(|(number, _)| *number >= first);
            wanted.cloned().collect()
        };
        let end = [(None, Bytes::new())];
        let parts = batches
            .into_iter()
            .map(|(number, bytes)| (Some(number), bytes));
        for (number, envelope) in parts.chain(end) {
            let number = number.map_or_else(Bytes::new, be);
            let part = message([asker.clone(), Bytes::new(), number, envelope]);
            if let Err(error) = socket.send(part).await {
                debug!(%error, "replay");
                break;
            }
        }
    }
}

/// Listens to one worker until `stop` fires. Returns once connected; the task is the
/// caller's to run.
pub async fn listen(
    (publish, replay): (&str, &str),
    topic: &str,
    inlet: Inlet,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + use<>, EventError> {
    let mut socket = SubSocket::new();
    socket.connect(publish).await.map_err(failed)?;
    socket.subscribe(topic).await.map_err(failed)?;
    let mut listener = Listener {
        inlet,
        replay: replay.to_owned(),
        next: None,
    };
    Ok(async move {
        let work = async {
            loop {
                match socket.recv().await {
                    Ok(message) => listener.take(message).await,
                    Err(error) => {
                        debug!(%error, "ZeroMQ");
                        tokio::time::sleep(PATIENCE).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(work).await;
    })
}

struct Listener {
    inlet: Inlet,
    replay: String,
    /// Number of the next batch; `None` before the first.
    next: Option<u64>,
}

impl Listener {
    async fn take(&mut self, message: ZmqMessage) {
        let parts = message.into_vec();
        let [_, number, envelope] = &parts[..] else {
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
                for envelope in batches {
                    self.inlet.take(&envelope);
                    self.inlet.metrics.replayed.inc();
                }
            }
            Ok(Ok(_)) => debug!(first, end, "the worker no longer has these batches"),
            Ok(Err(error)) => warn!(%error, "no replay"),
            Err(_) => debug!(first, end, "no replay in time"),
        }
    }
}

async fn ask(replay: &str, first: u64, end: u64) -> Result<Vec<Bytes>, EventError> {
    let mut socket = DealerSocket::new();
    socket.connect(replay).await.map_err(failed)?;
    let question = message([Bytes::new(), be(first)]);
    socket.send(question).await.map_err(failed)?;
    let mut batches = Vec::new();
    loop {
        let parts = socket.recv().await.map_err(failed)?.into_vec();
        let [_, number, envelope] = &parts[..] else {
            return Err(EventError::Zmq("a replay of another form".to_owned()));
        };
        let Some(number) = from_be(number) else {
            return Ok(batches);
        };
        if number >= first && number < end {
            batches.push(envelope.clone());
        }
    }
}

fn message<const N: usize>(parts: [Bytes; N]) -> ZmqMessage {
    ZmqMessage::try_from(parts.to_vec()).expect("there are parts")
}

fn be(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn from_be(bytes: &Bytes) -> Option<u64> {
    Some(u64::from_be_bytes(bytes[..].try_into().ok()?))
}
