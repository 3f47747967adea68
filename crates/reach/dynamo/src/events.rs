//! Cache events over ZeroMQ and NATS: where they are published, and to whose feed they belong.
//!
//! Not every version registers which worker a publisher belongs to, and workers share a subject of
//! NATS, but every event names its worker. So all channels are subscribed, and each event goes to
//! the feed of the worker that it names.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use contract::WorkerId;
use nats::{Nats, NatsError, Received};
use parking_lot::RwLock;
use tasks::Tasks;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use zmtp::{Error, Message, Subscriber};

use crate::cache_feed::CacheFeed;
use crate::directory::Channels;
use crate::metrics::Metrics;
use crate::registration::ChannelAddress;
use crate::wire::DecodeError;
use crate::wire::event::{self, WorkerEvent};

/// Before another attempt to reach a publisher.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for a publisher, or a server, to process a subscription, which it does not confirm.
const SETTLING: Duration = Duration::from_millis(200);

/// The largest message that is read: a frame of the largest size and what comes before it.
const LARGEST_MESSAGE: usize = event::LARGEST_FRAME + 1024;

/// The feeds of all workers that have joined.
pub(crate) type Feeds = Arc<RwLock<HashMap<WorkerId, Arc<CacheFeed>>>>;

/// Listens to a changing set of channels.
#[derive(Debug)]
pub(crate) struct Listeners {
    feeds: Feeds,
    nats: Option<Nats>,
    metrics: Metrics,
    tasks: Tasks,
    channels: HashMap<ChannelAddress, Running>,
}

/// A channel that is listened to.
#[derive(Debug)]
struct Running {
    stop: CancellationToken,
    workers: watch::Sender<BTreeSet<WorkerId>>,
}

impl Listeners {
    pub(crate) fn new(nats: Option<Nats>, metrics: Metrics, tasks: Tasks) -> Self {
        Self {
            feeds: Feeds::default(),
            nats,
            metrics,
            tasks,
            channels: HashMap::new(),
        }
    }

    pub(crate) fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Listens to these channels and to no others.
    pub(crate) fn follow(&mut self, wanted: &Channels) {
        self.channels.retain(|address, running| {
            let keep = wanted.contains_key(address);
            if !keep {
                running.stop.cancel();
            }
            keep
        });
        for (address, workers) in wanted {
            match self.channels.get(address) {
                Some(running) => {
                    running.workers.send_replace(workers.clone());
                }
                None => {
                    let running = self.listen(address, workers);
                    self.channels.insert(address.clone(), running);
                }
            }
        }
        // A subject of NATS has a publisher for each worker.
        let publishers = wanted.values().map(|workers| workers.len().max(1));
        let publishers: usize = publishers.sum();
        self.metrics.event_channels.set(publishers as f64);
    }

    fn listen(&self, address: &ChannelAddress, workers: &BTreeSet<WorkerId>) -> Running {
        let stop = self.tasks.stop.child_token();
        let (sender, workers) = watch::channel(workers.clone());
        let listener = Listener {
            address: address.clone(),
            workers,
            feeds: Arc::clone(&self.feeds),
            nats: self.nats.clone(),
            metrics: self.metrics.clone(),
        };
        let running = Running {
            stop: stop.clone(),
            workers: sender,
        };
        self.tasks.spawn(async move {
            stop.run_until_cancelled(listener.run()).await;
        });
        running
    }
}

struct Listener {
    address: ChannelAddress,
    /// Whose events are published there, as far as that is known.
    workers: watch::Receiver<BTreeSet<WorkerId>>,
    feeds: Feeds,
    nats: Option<Nats>,
    metrics: Metrics,
}

/// Why nothing is heard of a channel.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error(transparent)]
    Zmq(#[from] Error),
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("no NATS server is configured")]
    NoNats,
}

impl Listener {
    /// Listens forever. What is missed between two connections shows as a gap.
    async fn run(self) {
        loop {
            let listened = match &self.address {
                ChannelAddress::Zmq(address) => self.listen_to_publisher(address).await,
                ChannelAddress::Nats(subject) => self.listen_to_subject(subject).await,
            };
            if let Err(error) = listened {
                if let ListenError::Zmq(Error::Violation(_)) = error {
                    self.metrics.unreadable_events.inc();
                }
                warn!(channel = %self.address, %error, "cannot receive cache events");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn listen_to_publisher(&self, address: &str) -> Result<(), ListenError> {
        let topic = event::TOPIC;
        let mut subscriber = Subscriber::connect(address, topic, LARGEST_MESSAGE).await?;
        debug!(channel = %self.address, "listening to cache events");
        let mut settling = std::pin::pin!(tokio::time::sleep(SETTLING));
        let mut settled = false;
        loop {
            tokio::select! {
                message = subscriber.next() => self.receive(events_of(&message?)),
                () = &mut settling, if !settled => {
                    settled = true;
                    self.catch_up();
                }
            }
        }
    }

    async fn listen_to_subject(&self, subject: &str) -> Result<(), ListenError> {
        let nats = self.nats.as_ref().ok_or(ListenError::NoNats)?;
        let mut subscription = nats.subscribe(subject).await?;
        debug!(channel = %self.address, "listening to cache events");
        let mut settling = std::pin::pin!(tokio::time::sleep(SETTLING));
        let mut settled = false;
        loop {
            tokio::select! {
                received = subscription.next() => match received {
                    Some(Received::Message(message)) => {
                        self.receive(event::decode_envelope(&message));
                    }
                    // The next event of a worker would show what it lost, but may be long in
                    // coming.
                    Some(Received::Gap) => {
                        settling.as_mut().reset(Instant::now() + SETTLING);
                        settled = false;
                    }
                    None => return Ok(()),
                },
                () = &mut settling, if !settled => {
                    settled = true;
                    self.catch_up();
                }
            }
        }
    }

    /// Workers may have published events that nobody heard: before we listened, or since.
    fn catch_up(&self) {
        let feeds = self.feeds.read();
        for worker in self.workers.borrow().iter() {
            if let Some(feed) = feeds.get(worker) {
                feed.request_snapshot();
            }
        }
    }

    fn receive(&self, events: Result<Vec<WorkerEvent>, DecodeError>) {
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                debug!(channel = %self.address, %error, "cache event cannot be read");
                return self.metrics.unreadable_events.inc();
            }
        };
        let feeds = self.feeds.read();
        for event in &events {
            match feeds.get(&WorkerId(event.worker_id)) {
                Some(feed) => feed.receive(event),
                None => self.metrics.unknown_worker_events.inc(),
            }
        }
    }
}

/// The events in a message of four parts: topic, publisher, number, frame. The first three are in
/// the frame too.
fn events_of(message: &Message) -> Result<Vec<WorkerEvent>, DecodeError> {
    match message.get(3) {
        Some(frame) if message.len() == 4 => event::decode(frame),
        Some(_) | None => {
            let parts = format!("{} parts instead of 4", message.len());
            Err(DecodeError::malformed("message", parts))
        }
    }
}
