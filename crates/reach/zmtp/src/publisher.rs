//! Publishes messages to all subscribers.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tasks::Tasks;
use tokio::sync::mpsc;

use crate::Message;
use crate::codec::Kind;
use crate::connection::{Bound, Error, Reader, Writer};

/// Messages that wait for a slow listener; it misses what comes while they do.
const QUEUE: usize = 1000;
/// A subscription is a topic.
const LARGEST_SUBSCRIPTION: usize = 4 << 10;
const MOST_TOPICS: usize = 64;

/// A PUB socket.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    listeners: Arc<Mutex<Vec<Listener>>>,
}

#[derive(Debug)]
struct Listener {
    topics: Arc<Mutex<Vec<Bytes>>>,
    queue: mpsc::Sender<Arc<Message>>,
}

impl Publisher {
    /// Answers on a port until `tasks` stop.
    pub fn serve(bound: Bound, tasks: &Tasks) -> Self {
        let publisher = Self::default();
        let own = publisher.clone();
        let talk = move |reader, writer| own.clone().talk(reader, writer);
        bound.serve(Kind::Pub, LARGEST_SUBSCRIPTION, talk, tasks);
        publisher
    }

    /// Tells those whose topic the first part begins with. Never waits.
    pub fn publish(&self, message: Message) {
        let message = Arc::new(message);
        let Some(first) = message.first() else {
            return;
        };
        self.listeners.lock().retain(|listener| {
            let topics = listener.topics.lock();
            if !topics.iter().any(|topic| first.starts_with(topic)) {
                return !listener.queue.is_closed();
            }
            let sent = listener.queue.try_send(Arc::clone(&message));
            !matches!(sent, Err(mpsc::error::TrySendError::Closed(_)))
        });
    }

    async fn talk(self, mut reader: Reader, mut writer: Writer) -> Result<(), Error> {
        let topics = Arc::new(Mutex::new(Vec::new()));
        let (queue, mut waiting) = mpsc::channel(QUEUE);
        self.listeners.lock().push(Listener {
            topics: Arc::clone(&topics),
            queue,
        });
        loop {
            tokio::select! {
                subscription = reader.message() => subscribe(&mut topics.lock(), &subscription?),
                Some(message) = waiting.recv() => writer.send(&message).await?,
            }
        }
    }
}

/// The first byte says whether a topic comes or goes.
fn subscribe(topics: &mut Vec<Bytes>, subscription: &Message) {
    let Some(subscription) = subscription.first() else {
        return;
    };
    match subscription.first() {
        Some(1) if topics.len() < MOST_TOPICS => topics.push(subscription.slice(1..)),
        Some(0) => {
            let gone = &subscription[1..];
            if let Some(place) = topics.iter().position(|topic| topic == gone) {
                topics.remove(place);
            }
        }
        Some(_) | None => {}
    }
}
