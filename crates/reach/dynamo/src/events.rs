//! Cache events over ZeroMQ: who publishes them, and to whose feed they belong.
//!
//! Not every version registers which worker a publisher belongs to, but every event names its
//! worker. So all channels are subscribed, and each event goes to the feed of the worker that
//! it names.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use contract::WorkerId;
use parking_lot::RwLock;
use tasks::Tasks;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use zmtp::{Error, Message, Subscriber};

use crate::cache_feed::CacheFeed;
use crate::metrics::Metrics;
use crate::wire::event;

/// Before another attempt to reach a publisher.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for a publisher to process a subscription, which it does not confirm.
const SETTLING: Duration = Duration::from_millis(200);

/// The largest message that is read: a frame of the largest size and what comes before it.
const LARGEST_MESSAGE: usize = event::LARGEST_FRAME + 1024;

/// The feeds of all workers that have joined.
pub(crate) type Feeds = Arc<RwLock<HashMap<WorkerId, Arc<CacheFeed>>>>;

/// Listens to a changing set of channels.
#[derive(Debug)]
pub(crate) struct Listeners {
    feeds: Feeds,
    metrics: Metrics,
    tasks: Tasks,
    channels: HashMap<String, CancellationToken>,
}

impl Listeners {
    pub(crate) fn new(metrics: Metrics, tasks: Tasks) -> Self {
        Self {
            feeds: Feeds::default(),
            metrics,
            tasks,
            channels: HashMap::new(),
        }
    }

    pub(crate) fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    /// Listens to these channels and to no others.
    pub(crate) fn follow(&mut self, wanted: &BTreeMap<String, Option<WorkerId>>) {
        self.channels.retain(|address, stop| {
            let keep = wanted.contains_key(address);
            if !keep {
                stop.cancel();
            }
            keep
        });
        for (address, worker) in wanted {
            if !self.channels.contains_key(address) {
                let stop = self.tasks.stop.child_token();
                self.channels.insert(address.clone(), stop.clone());
                let listener = Listener {
                    address: address.clone(),
                    worker: *worker,
                    feeds: Arc::clone(&self.feeds),
                    metrics: self.metrics.clone(),
                };
                self.tasks.spawn(async move {
                    stop.run_until_cancelled(listener.run()).await;
                });
            }
        }
        self.metrics.event_channels.set(self.channels.len() as f64);
    }
}

struct Listener {
    address: String,
    /// Whose events are published there, if that was known at the start.
    worker: Option<WorkerId>,
    feeds: Feeds,
    metrics: Metrics,
}

impl Listener {
    /// Listens forever. What is missed between two connections shows as a gap.
    async fn run(self) {
        loop {
            match self.listen().await {
                Ok(()) => {}
                Err(error) => {
                    if let Error::Violation(_) = error {
                        self.metrics.unreadable_events.inc();
                    }
                    warn!(channel = self.address, %error, "cannot receive cache events");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn listen(&self) -> Result<(), Error> {
        let topic = event::TOPIC;
        let mut subscriber = Subscriber::connect(&self.address, topic, LARGEST_MESSAGE).await?;
        debug!(channel = self.address, "listening to cache events");
        let mut settling = std::pin::pin!(tokio::time::sleep(SETTLING));
        let mut settled = false;
        loop {
            tokio::select! {
                message = subscriber.next() => self.receive(&message?),
                () = &mut settling, if !settled => {
                    settled = true;
                    self.catch_up();
                }
            }
        }
    }

    /// A worker that joined before we listened may have published events in between.
    fn catch_up(&self) {
        let feeds = self.feeds.read();
        if let Some(feed) = self.worker.and_then(|worker| feeds.get(&worker)) {
            feed.request_snapshot();
        }
    }

    fn receive(&self, message: &Message) {
        // Topic, publisher, number, frame; the first three are in the frame too.
        let events = match message.get(3) {
            Some(frame) if message.len() == 4 => event::decode(frame),
            Some(_) | None => return self.metrics.unreadable_events.inc(),
        };
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                debug!(channel = self.address, %error, "cache event cannot be read");
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
