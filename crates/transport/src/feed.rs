//! What a worker tells without being asked.
//!
//! A feed may lose messages: a router that cannot keep up must not slow down an engine.
//! Loss is harmless because cache batches are numbered (a gap is noticed and repaired with
//! a snapshot) and a status report is superseded by the next one.

use contract::FeedMessage;
use tokio::sync::mpsc;

/// Batches that may wait for the router: some seconds of steps at full load.
const CAPACITY: usize = 4096;

/// A connected pair.
pub fn feed() -> (FeedPublisher, Feed) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (FeedPublisher { sender }, Feed { receiver })
}

/// The worker's end.
#[derive(Clone, Debug)]
pub struct FeedPublisher {
    sender: mpsc::Sender<FeedMessage>,
}

impl FeedPublisher {
    /// Never waits; a message that does not fit is lost, and the receiver will notice.
    pub fn publish(&self, message: FeedMessage) {
        // Closed means that nobody routes to this worker any more.
        let _ = self.sender.try_send(message);
    }
}

/// The router's end.
#[derive(Debug)]
pub struct Feed {
    receiver: mpsc::Receiver<FeedMessage>,
}

impl Feed {
    /// The next message; `None` once the worker is gone.
    pub async fn next(&mut self) -> Option<FeedMessage> {
        self.receiver.recv().await
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn a_slow_reader_loses_messages_but_never_blocks_the_worker() {
        let (publisher, mut feed) = feed();
        let sent = CAPACITY as u64 + 10;
        for sequence in 0..sent {
            publisher.publish(batch(sequence));
        }
        drop(publisher);
        let mut received = 0;
        while let Some(FeedMessage::Kv(batch)) = feed.next().await {
            assert_eq!(batch.sequence, received);
            received += 1;
        }
        assert_eq!(received, CAPACITY as u64);
    }
}
