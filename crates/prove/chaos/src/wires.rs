//! The connection between a frontend and a worker, with injected faults.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use contract::random::Random;
use contract::{
    ChunkSource, Clock, FeedMessage, GenerateRequest, KvSnapshot, LinkError, TokenChunk,
    TokenStream, WorkerId,
};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use transport::{Delivery, Feed, FeedPublisher, LinkFuture, WorkerLink};

/// How often a worker says how far its batches go, and how long it waits until it says so:
/// as on a real network.
const HEAD_EVERY: Duration = Duration::from_millis(250);
const HEAD_DELAY: Duration = Duration::from_secs(1);

/// The state of one worker's wires.
#[derive(Debug)]
pub struct Condition {
    pub stalled_until: Instant,
    pub slow_until: Instant,
    pub slow_by: Duration,
    pub bad_until: Instant,
    /// Chances in a hundred: lost, repeated, swapped with the next.
    pub bad: [u64; 3],
    pub partitioned_until: Instant,
    pub draws: Random,
}

impl Condition {
    pub fn good(seed: u64) -> Self {
        let now = Instant::now();
        Self {
            stalled_until: now,
            slow_until: now,
            slow_by: Duration::ZERO,
            bad_until: now,
            bad: [0; 3],
            partitioned_until: now,
            draws: Random::new(seed),
        }
    }
}

pub type Shared = Arc<Mutex<Condition>>;

/// A link that can stall, slow down and break.
#[derive(Debug)]
pub struct Wire {
    pub worker: WorkerId,
    pub link: Arc<dyn WorkerLink>,
    pub condition: Shared,
    /// Fires when the connection is gone.
    pub gone: CancellationToken,
}

impl Wire {
    fn lost(&self) -> LinkError {
        LinkError::Unreachable {
            worker: self.worker,
            detail: "the connection is lost".to_owned(),
        }
    }
}

impl WorkerLink for Wire {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(async {
            if self.gone.is_cancelled() {
                return Err(self.lost());
            }
            let stream = self.link.generate(request).await?;
            Ok(TokenStream::from_source(WireChunks {
                worker: self.worker,
                stream,
                condition: Arc::clone(&self.condition),
                held: None,
                gone: Box::pin(self.gone.clone().cancelled_owned()),
            }))
        })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async {
            match self.gone.run_until_cancelled(self.link.snapshot()).await {
                Some(snapshot) => snapshot,
                None => Err(self.lost()),
            }
        })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        self.link.reset_cache()
    }
}

/// What comes out of a stream; nothing at its end.
type Item = Option<Result<TokenChunk, LinkError>>;

#[derive(Debug)]
struct WireChunks {
    worker: WorkerId,
    stream: TokenStream,
    condition: Shared,
    /// A chunk on its way, and when it arrives.
    held: Option<(Pin<Box<Sleep>>, Item)>,
    gone: Pin<Box<tokio_util::sync::WaitForCancellationFutureOwned>>,
}

impl ChunkSource for WireChunks {
    fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<TokenChunk, LinkError>>> {
        if self.gone.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(LinkError::Interrupted {
                worker: self.worker,
                detail: "the connection is lost".to_owned(),
            })));
        }
        loop {
            if let Some((delay, item)) = &mut self.held {
                if delay.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                let item = item.take();
                self.held = None;
                return Poll::Ready(item);
            }
            let Poll::Ready(item) = self.stream.poll_next(context) else {
                return Poll::Pending;
            };
            let now = Instant::now();
            let arrives = {
                let condition = self.condition.lock();
                let slow = condition.slow_until > now;
                let late = if slow {
                    condition.slow_by
                } else {
                    Duration::ZERO
                };
                condition.stalled_until.max(now + late)
            };
            if arrives <= now {
                return Poll::Ready(item);
            }
            self.held = Some((Box::pin(tokio::time::sleep_until(arrives)), item));
        }
    }
}

/// Where a worker's messages go: the frontend that is there now.
pub type FeedSlot = Arc<Mutex<Option<FeedPublisher>>>;

/// Carries a worker's messages to the frontend, as well as the wires allow. Ends with the
/// worker.
pub async fn carry(mut feed: Feed, ear: FeedSlot, condition: Shared, clock: Clock) {
    let mut swapped: Option<FeedMessage> = None;
    let mut head = None;
    let mut heads: VecDeque<(Instant, (u64, u64))> = VecDeque::new();
    let mut ticks = tokio::time::interval(HEAD_EVERY);
    loop {
        let delivery = tokio::select! {
            delivery = feed.next() => delivery,
            _ = ticks.tick() => {
                let now = Instant::now();
                heads.extend(head.map(|head| (now + HEAD_DELAY, head)));
                while let Some((_, (epoch, next_sequence))) = heads.pop_front_if(|(due, _)| *due <= now) {
                    publish(&ear, FeedMessage::Head { epoch, next_sequence }, clock);
                }
                continue;
            }
        };
        let Some(Delivery { message, .. }) = delivery else {
            // The worker is gone, and its listeners should know.
            *ear.lock() = None;
            return;
        };
        if let FeedMessage::Kv(batch) = &message {
            head = Some((batch.epoch, batch.sequence + 1));
        }
        let (lost, repeated, swap) = {
            let mut condition = condition.lock();
            let now = Instant::now();
            let bad = condition.bad_until > now;
            let [lost, repeated, swap] = condition.bad;
            let mut chance = |of: u64| bad && (condition.draws.below(100) as u64) < of;
            let (lost, repeated, swap) = (chance(lost), chance(repeated), chance(swap));
            let partitioned = condition.partitioned_until > now;
            (lost || partitioned, repeated, swap)
        };
        if lost {
            continue;
        }
        if swap && swapped.is_none() {
            swapped = Some(message);
            continue;
        }
        publish(&ear, message.clone(), clock);
        if repeated {
            publish(&ear, message, clock);
        }
        if let Some(late) = swapped.take() {
            publish(&ear, late, clock);
        }
    }
}

fn publish(ear: &FeedSlot, message: FeedMessage, clock: Clock) {
    if let Some(publisher) = &*ear.lock() {
        publisher.publish_at(message, clock.now());
    }
}
