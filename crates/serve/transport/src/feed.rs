//! The event feed that a worker pushes to a router.
//!
//! A feed may lose messages: a router that cannot keep up must not slow down an engine.
//! Loss is harmless because cache batches are numbered (a gap is noticed and repaired with
//! a snapshot) and a status report is superseded by the next one.
//!
//! What is said once is never lost: that the worker drains, and the lease. Of these only the
//! latest matters, so each has a place beside the queue, and is read before what waits there.

use std::sync::Arc;

use contract::{Clock, FeedMessage, Moment};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

/// Batches that may wait for the router: some seconds of steps at full load.
const CAPACITY: usize = 4096;

/// A connected pair. The clock is one that both ends share.
pub fn feed(clock: Clock) -> (FeedPublisher, Feed) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let orders = Arc::new(Orders::default());
    let publisher = FeedPublisher {
        sender,
        orders: Arc::clone(&orders),
        clock,
    };
    let inner = Box::new(Inner { receiver, orders });
    (publisher, Feed { inner })
}

/// What must not be lost, and has not been read.
#[derive(Debug, Default)]
struct Orders {
    latest: Mutex<Latest>,
    rung: Notify,
}

#[derive(Debug, Default)]
struct Latest {
    lease: Option<Delivery>,
    draining: Option<Delivery>,
}

impl Orders {
    fn take(&self) -> Option<Delivery> {
        let mut latest = self.latest.lock();
        latest.draining.take().or_else(|| latest.lease.take())
    }
}

/// A message, and when the worker sent it: what arrives late should be known as late.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub message: FeedMessage,
    pub published: Moment,
}

/// The worker's end of an event feed.
#[derive(Clone, Debug)]
pub struct FeedPublisher {
    sender: mpsc::Sender<Delivery>,
    orders: Arc<Orders>,
    clock: Clock,
}

impl FeedPublisher {
    /// Never waits; a message that does not fit is lost, and the receiver will notice. A lease
    /// and the news that the worker drains always fit.
    pub fn publish(&self, message: FeedMessage) {
        self.publish_at(message, self.clock.now());
    }

    /// Passes on what a worker on another machine sent at that time.
    pub fn publish_at(&self, message: FeedMessage, published: Moment) {
        let delivery = Delivery { message, published };
        let mut latest = self.orders.latest.lock();
        match &delivery.message {
            FeedMessage::Lease(_) => latest.lease = Some(delivery),
            FeedMessage::Draining => latest.draining = Some(delivery),
            FeedMessage::Kv(_)
            | FeedMessage::Status(_)
            | FeedMessage::Head { .. }
            | FeedMessage::Loads(_) => {
                drop(latest);
                // Closed means that nobody routes to this worker any more.
                let _ = self.sender.try_send(delivery);
                return;
            }
        }
        drop(latest);
        self.orders.rung.notify_one();
    }
}

/// The router's end of an event feed.
#[derive(Debug)]
pub struct Feed {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    receiver: mpsc::Receiver<Delivery>,
    orders: Arc<Orders>,
}

impl Feed {
    /// The next message; `None` once the worker is gone.
    pub async fn next(&mut self) -> Option<Delivery> {
        let Inner { receiver, orders } = &mut *self.inner;
        loop {
            if let Some(order) = orders.take() {
                return Some(order);
            }
            tokio::select! {
                () = orders.rung.notified() => {}
                delivery = receiver.recv() => {
                    return delivery.or_else(|| orders.take());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::{KvBatch, Lease, WorkerId};

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
    async fn what_is_said_once_is_never_lost() {
        let lease = |number, slots| FeedMessage::Lease(Lease { number, slots });
        let (publisher, mut feed) = feed(Clock::start());
        for sequence in 0..CAPACITY as u64 + 10 {
            publisher.publish(batch(sequence));
        }
        publisher.publish(lease(1, 9));
        publisher.publish(FeedMessage::Draining);
        publisher.publish(lease(2, 3));
        let first = feed.next().await.unwrap().message;
        assert!(matches!(first, FeedMessage::Draining), "{first:?}");
        let second = feed.next().await.unwrap().message;
        assert!(matches!(
            second,
            FeedMessage::Lease(Lease {
                number: 2,
                slots: 3
            })
        ));
        for _ in 0..CAPACITY {
            let message = feed.next().await.unwrap().message;
            assert!(matches!(message, FeedMessage::Kv(_)), "{message:?}");
        }
        // A reader that waits is woken, and one that comes too late still hears.
        let (heard, ()) = tokio::join!(feed.next(), async {
            tokio::task::yield_now().await;
            publisher.publish(lease(3, 5));
        });
        assert!(matches!(heard.unwrap().message, FeedMessage::Lease(_)));
        publisher.publish(FeedMessage::Draining);
        drop(publisher);
        let last = feed.next().await.unwrap().message;
        assert!(matches!(last, FeedMessage::Draining), "{last:?}");
        assert!(feed.next().await.is_none());
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
