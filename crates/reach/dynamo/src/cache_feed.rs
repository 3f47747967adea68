//! One worker's cache events on their way into its feed.

use contract::{BlockHash, FeedMessage, KvBatch, KvSnapshot, WorkerId};
use parking_lot::Mutex;
use transport::FeedPublisher;

use crate::metrics::Metrics;
use crate::wire::event::WorkerEvent;
use crate::worker_cache::{Batch, WorkerCache};

/// Whose events they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publisher {
    pub(crate) worker: WorkerId,
    /// Events of other ranks are ignored.
    pub(crate) dp_rank: u32,
    /// Changes when a worker joins again under the same id.
    pub(crate) epoch: u64,
}

/// A worker's cache in our block hashes, and its feed. Batches are published under the lock, so
/// that batches and snapshots cannot overtake each other.
#[derive(Debug)]
pub(crate) struct CacheFeed {
    publisher: Publisher,
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cache: WorkerCache,
    /// `None` once the worker has left: the feed ends.
    feed: Option<FeedPublisher>,
}

impl CacheFeed {
    pub(crate) fn new(publisher: Publisher, feed: FeedPublisher, metrics: Metrics) -> Self {
        Self {
            publisher,
            metrics,
            state: Mutex::new(State {
                cache: WorkerCache::default(),
                feed: Some(feed),
            }),
        }
    }

    /// Applies an event and publishes what it changed.
    pub(crate) fn receive(&self, event: &WorkerEvent) {
        if event.event.dp_rank != self.publisher.dp_rank {
            return;
        }
        let mut state = self.state.lock();
        let batch = state.cache.observe(event);
        self.metrics.orphaned_blocks.add(state.cache.take_orphans());
        if let (Some(Batch { number, events }), Some(feed)) = (batch, &state.feed) {
            feed.publish(FeedMessage::Kv(KvBatch {
                worker: self.publisher.worker,
                epoch: self.publisher.epoch,
                sequence: number,
                events,
            }));
        }
    }

    /// Makes the receiver ask for a snapshot, because any number of events may have been lost.
    pub(crate) fn request_snapshot(&self) {
        if let Some(feed) = &self.state.lock().feed {
            feed.publish(FeedMessage::Head {
                epoch: self.publisher.epoch,
                next_sequence: u64::MAX,
            });
        }
    }

    pub(crate) fn await_dump(&self) {
        self.metrics.snapshots.inc();
        self.state.lock().cache.await_dump();
    }

    /// Replaces all by a dump that contains every event before `next`.
    pub(crate) fn restore(&self, dump: &[WorkerEvent], next: u64) -> KvSnapshot {
        let mut state = self.state.lock();
        let restored = state.cache.restore(dump, next);
        self.metrics.orphaned_blocks.add(state.cache.take_orphans());
        KvSnapshot {
            epoch: self.publisher.epoch,
            next_sequence: restored.next,
            blocks: restored.blocks,
        }
    }

    pub(crate) fn leading_blocks(&self, chain: &[BlockHash]) -> usize {
        self.state.lock().cache.leading_blocks(chain)
    }

    /// Ends the feed.
    pub(crate) fn close(&self) {
        self.state.lock().feed = None;
    }
}
