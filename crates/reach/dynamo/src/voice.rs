//! One worker's cache events on their way into its feed.

use std::sync::Arc;

use contract::{BlockHash, FeedMessage, KvBatch, KvSnapshot, WorkerId};
use parking_lot::Mutex;
use transport::FeedPublisher;

use crate::counts::Counts;
use crate::mirror::Mirror;
use crate::wire::event::WorkerEvent;

/// What is heard of a worker, in our names. Publishing happens under the lock, so that
/// batches and snapshots cannot overtake each other.
#[derive(Debug)]
pub(crate) struct Voice {
    worker: WorkerId,
    dp_rank: u32,
    /// Changes when a worker joins again under the same id.
    epoch: u64,
    counts: Arc<Counts>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    mirror: Mirror,
    /// `None` once the worker has left: the feed ends.
    publisher: Option<FeedPublisher>,
}

impl Voice {
    pub(crate) fn new(
        (worker, dp_rank): (WorkerId, u32),
        epoch: u64,
        publisher: FeedPublisher,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            worker,
            dp_rank,
            epoch,
            counts,
            state: Mutex::new(State {
                mirror: Mirror::default(),
                publisher: Some(publisher),
            }),
        }
    }

    pub(crate) fn hear(&self, event: &WorkerEvent) {
        if event.event.dp_rank != self.dp_rank {
            return;
        }
        let mut state = self.state.lock();
        let orphans = state.mirror.orphans();
        let batch = state.mirror.observe(event);
        self.counts
            .orphaned_blocks(state.mirror.orphans() - orphans);
        if let (Some((sequence, events)), Some(publisher)) = (batch, &state.publisher) {
            publisher.publish(FeedMessage::Kv(KvBatch {
                worker: self.worker,
                epoch: self.epoch,
                sequence,
                events,
            }));
        }
    }

    /// Events may have been missed, however many: has the receiver ask for a snapshot.
    pub(crate) fn doubt(&self) {
        if let Some(publisher) = &self.state.lock().publisher {
            publisher.publish(FeedMessage::Head {
                epoch: self.epoch,
                next_sequence: u64::MAX,
            });
        }
    }

    pub(crate) fn await_dump(&self) {
        self.counts.snapshot();
        self.state.lock().mirror.await_dump();
    }

    pub(crate) fn restore(&self, dump: &[WorkerEvent], last: u64) -> KvSnapshot {
        let mut state = self.state.lock();
        let orphans = state.mirror.orphans();
        let (blocks, next_sequence) = state.mirror.restore(dump, last);
        self.counts
            .orphaned_blocks(state.mirror.orphans() - orphans);
        KvSnapshot {
            epoch: self.epoch,
            next_sequence,
            blocks,
        }
    }

    pub(crate) fn leading_blocks(&self, chain: &[BlockHash]) -> usize {
        self.state.lock().mirror.leading_blocks(chain)
    }

    /// Ends the feed.
    pub(crate) fn fall_silent(&self) {
        self.state.lock().publisher = None;
    }
}
