//! Cache events over ZeroMQ: who publishes them, and to whose feed they belong.
//!
//! Not every version says which worker a publisher speaks for, but every event does. So all
//! channels are heard and events are handed on by the worker that they name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use contract::WorkerId;
use parking_lot::RwLock;
use tasks::Tasks;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use zmtp::{Error, Message, Subscriber};

use crate::counts::Counts;
use crate::voice::Voice;
use crate::wire::event;

/// Before another attempt to reach a publisher.
const PAUSE: Duration = Duration::from_millis(500);
/// Until a publisher has taken note of a subscription, which it does not confirm.
const SETTLING: Duration = Duration::from_millis(200);

/// The largest message that is read: a frame of the largest size and what comes before it.
const LARGEST_MESSAGE: usize = event::LARGEST_FRAME + 1024;

/// The voices of all members.
pub(crate) type Choir = Arc<RwLock<HashMap<WorkerId, Arc<Voice>>>>;

/// Listens to a changing set of channels.
#[derive(Debug)]
pub(crate) struct Listeners {
    choir: Choir,
    counts: Arc<Counts>,
    tasks: Tasks,
    channels: HashMap<String, CancellationToken>,
}

impl Listeners {
    pub(crate) fn new(counts: Arc<Counts>, tasks: Tasks) -> Self {
        Self {
            choir: Choir::default(),
            counts,
            tasks,
            channels: HashMap::new(),
        }
    }

    pub(crate) fn choir(&self) -> &Choir {
        &self.choir
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
                    choir: Arc::clone(&self.choir),
                    counts: Arc::clone(&self.counts),
                };
                self.tasks.spawn(async move {
                    stop.run_until_cancelled(listener.run()).await;
                });
            }
        }
        self.counts.channels(self.channels.len());
    }
}

struct Listener {
    address: String,
    /// Whose events are published there, if that was known when we began to listen.
    worker: Option<WorkerId>,
    choir: Choir,
    counts: Arc<Counts>,
}

impl Listener {
    /// Listens for ever. What was missed between two connections shows as a gap.
    async fn run(self) {
        loop {
            match self.listen().await {
                Ok(()) => {}
                Err(error) => {
                    if let Error::Violation(_) = error {
                        self.counts.unreadable_event();
                    }
                    warn!(channel = self.address, %error, "no cache events to be had");
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
                message = subscriber.next() => self.hear(&message?),
                () = &mut settling, if !settled => {
                    settled = true;
                    self.make_up();
                }
            }
        }
    }

    /// A worker that joined before we listened may have said something in between.
    fn make_up(&self) {
        let choir = self.choir.read();
        if let Some(voice) = self.worker.and_then(|worker| choir.get(&worker)) {
            voice.doubt();
        }
    }

    fn hear(&self, message: &Message) {
        // Topic, publisher, number, frame; the first three are in the frame too.
        let events = match message.get(3) {
            Some(frame) if message.len() == 4 => event::decode(frame),
            Some(_) | None => return self.counts.unreadable_event(),
        };
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                debug!(channel = self.address, %error, "cache event not understood");
                return self.counts.unreadable_event();
            }
        };
        let choir = self.choir.read();
        for event in &events {
            match choir.get(&WorkerId(event.worker_id)) {
                Some(voice) => voice.hear(event),
                None => self.counts.event_of_stranger(),
            }
        }
    }
}
