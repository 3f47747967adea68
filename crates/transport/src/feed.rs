//! What a worker tells without being asked.
//!
//! A feed may lose messages: a router that cannot keep up must not slow down an engine.
//! Loss is harmless because cache batches are numbered (a gap is noticed and repaired with
//! a snapshot) and a status report is superseded by the next one.

use contract::{Clock, FeedMessage, Moment};
use tokio::sync::mpsc;

/// Batches that may wait for the router: some seconds of steps at full load.
const CAPACITY: usize = 4096;

/// A connected pair. The clock is one that both ends share.
pub fn feed(clock: Clock) -> (FeedPublisher, Feed) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (FeedPublisher { sender, clock }, Feed { receiver })
}

/// A message, and when the worker sent it: what arrives late should be known as late.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub message: FeedMessage,
    pub published: Moment,
}

/// The worker's end.
#[derive(Clone, Debug)]
pub struct FeedPublisher {
    sender: mpsc::Sender<Delivery>,
    clock: Clock,
}

impl FeedPublisher {
    /// Never waits; a message that does not fit is lost, and the receiver will notice.
    pub fn publish(&self, message: FeedMessage) {
        self.publish_at(message, self.clock.now());
    }

    /// Passes on what a worker on another machine sent at that time.
    pub fn publish_at(&self, message: FeedMessage, published: Moment) {
        // Closed means that nobody routes to this worker any more.
        let _ = self.sender.try_send(Delivery { message, published });
    }
}

/// The router's end.
#[derive(Debug)]
pub struct Feed {
    receiver: mpsc::Receiver<Delivery>,
}

impl Feed {
    /// The next message; `None` once the worker is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.receiver.recv().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::{KvBatch, WorkerId};

    use super::*;

    fn batch(sequence: u64) -> FeedMessage {
        FeedMessage::Kv(KvBatch {
            worker: WorkerId(1),
            epoch: 0,
            sequence,
            events: vec![],
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_says_when_it_was_sent_not_when_it_was_read() {
        let clock = Clock::start();
        let (publisher, mut feed) = feed(clock);
        let sent = clock.now();
        publisher.publish(batch(0));
        tokio::time::advance(Duration::from_secs(2)).await;
        let delivery = feed.next().await.unwrap();
        assert_eq!(delivery.published, sent);
        assert_eq!(clock.now().since(sent), Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_slow_reader_loses_messages_but_never_blocks_the_worker() {
        let (publisher, mut feed) = feed(Clock::start());
        let sent = CAPACITY as u64 + 10;
        for sequence in 0..sent {
            publisher.publish(batch(sequence));
        }
        drop(publisher);
        let mut received = 0;
        while let Some(delivery) = feed.next().await {
            let FeedMessage::Kv(batch) = delivery.message else {
                panic!("only batches were sent");
            };
            assert_eq!(batch.sequence, received);
            received += 1;
        }
        assert_eq!(received, CAPACITY as u64);
    }
}
