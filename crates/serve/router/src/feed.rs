//! Checks that a worker's cache events are complete, and repairs gaps.
//!
//! Batches carry a number that is contiguous per epoch. As long as each batch continues the
//! last, it is applied at once. A missing number, or an epoch that differs, means that what
//! the index believes may be wrong: the caller is asked once to fetch a snapshot, and batches
//! that arrive in the meantime are kept and replayed on top of it. A gap within what was kept
//! asks for another snapshot, so the feed converges however messages were lost.
//!
//! # Guarantees
//!
//! - **Once per loss.** [`Observed::NeedsSnapshot`] is returned when the feed breaks, not for
//!   each batch until it is mended. The caller retries a snapshot that fails.
//! - **Bounded.** At most [`MOST_BUFFERED`] batches are kept; the oldest goes first, because
//!   a snapshot taken later contains it.
//! - **Stale beats blind.** After a gap the old entries stay until the snapshot replaces
//!   them. After a restart they go at once: that cache does not exist any more.

use std::collections::VecDeque;

use contract::{KvBatch, KvEvent, KvSnapshot};
use serde::Serialize;

use crate::prefix_index::PrefixIndex;

#[cfg(test)]
mod tests;

/// At one batch per engine step of some 20 ms, five seconds of waiting for a snapshot.
pub const MOST_BUFFERED: usize = 256;

/// What became of a batch or a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The index is up to date with it.
    Applied,
    /// It was contained in what had been applied before.
    Duplicate,
    /// Kept until the snapshot arrives that has already been asked for.
    Buffered,
    /// The feed has a gap or a new epoch: fetch a snapshot and restore it.
    NeedsSnapshot,
    /// The worker is not a member.
    Unknown,
}

/// Whether a worker's entries in the index can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeedState {
    /// Nothing has been received yet.
    Silent,
    Live,
    AwaitingSnapshot,
}

/// How many events were applied, by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTally {
    pub stored: u64,
    pub removed: u64,
    pub cleared: u64,
    /// Blocks about which the index was wrong when a gap was repaired.
    pub lost_blocks: u64,
}

/// The entries of one worker in the index, and a count of what was done to them.
#[derive(Debug)]
pub struct Holdings<'a> {
    pub index: &'a mut PrefixIndex,
    pub slot: usize,
    pub tally: EventTally,
}

impl<'a> Holdings<'a> {
    pub fn new(index: &'a mut PrefixIndex, slot: usize) -> Self {
        Self {
            index,
            slot,
            tally: EventTally::default(),
        }
    }

    fn apply(&mut self, events: &[KvEvent]) {
        for event in events {
            match event {
                KvEvent::Stored { blocks, .. } => {
                    for block in blocks {
                        self.index.insert(self.slot, block.hash);
                    }
                    self.tally.stored += 1;
                }
                KvEvent::Removed { blocks } => {
                    for block in blocks {
                        self.index.remove(self.slot, *block);
                    }
                    self.tally.removed += 1;
                }
                KvEvent::Cleared => {
                    self.index.forget(self.slot);
                    self.tally.cleared += 1;
                }
            }
        }
    }

    /// Returns how many blocks it had missed or held wrongly.
    fn replace(&mut self, snapshot: &KvSnapshot) -> u64 {
        let blocks = &snapshot.blocks;
        let known = blocks
            .iter()
            .filter(|block| self.index.remove(self.slot, **block));
        let missed = blocks.len() - known.count();
        let stale = self.index.held(self.slot);
        self.index.forget(self.slot);
        for &block in blocks {
            self.index.insert(self.slot, block);
        }
        (missed + stale) as u64
    }
}

/// Where one worker's feed stands.
#[derive(Debug, Default)]
pub struct Feed {
    /// Epoch and number of the batch that comes next; `None` before anything was received.
    next: Option<(u64, u64)>,
    /// Batches of one epoch that wait for a snapshot; `None` while live.
    waiting: Option<VecDeque<KvBatch>>,
    /// The worker's behaviour contradicts its events.
    doubted: bool,
}

impl Feed {
    pub fn state(&self) -> FeedState {
        match (&self.waiting, self.next) {
            (Some(_), _) => FeedState::AwaitingSnapshot,
            (None, Some(_)) => FeedState::Live,
            (None, None) => FeedState::Silent,
        }
    }

    /// Applies a batch if it continues the feed.
    pub fn observe(&mut self, batch: &KvBatch, holdings: &mut Holdings<'_>) -> Observed {
        if let Some(waiting) = &mut self.waiting {
            keep(waiting, batch.clone());
            return Observed::Buffered;
        }
        if std::mem::take(&mut self.doubted) {
            return self.wait_from(batch);
        }
        let expected = match self.next {
            Some((epoch, sequence)) if epoch == batch.epoch => sequence,
            Some(_) => {
                holdings.index.forget(holdings.slot);
                return self.wait_from(batch);
            }
            // An epoch begins with an empty cache, so its first batch is the whole story.
            None => 0,
        };
        if batch.sequence < expected {
            return Observed::Duplicate;
        }
        if batch.sequence > expected {
            return self.wait_from(batch);
        }
        holdings.apply(&batch.events);
        // A worker that is wrong about its numbers may have reached the last one.
        self.next = Some((batch.epoch, batch.sequence.saturating_add(1)));
        Observed::Applied
    }

    /// Takes the worker's latest batch number. If the feed is behind it, batches were lost: the
    /// caller passes it only once they should have arrived.
    pub fn head(&mut self, head: (u64, u64), holdings: &mut Holdings<'_>) -> Observed {
        if self.waiting.is_some() {
            return Observed::Buffered;
        }
        match self.next {
            Some(next) if next.0 == head.0 && next.1 >= head.1 => return Observed::Duplicate,
            None if head.1 == 0 => return Observed::Duplicate,
            Some(next) if next.0 != head.0 => holdings.index.forget(holdings.slot),
            Some(_) | None => {}
        }
        self.waiting = Some(VecDeque::new());
        Observed::NeedsSnapshot
    }

    /// The index is wrong about this worker although no event was missed. The next batch
    /// asks for a snapshot, as if it had come after a gap.
    pub fn doubt(&mut self) {
        self.doubted = self.state() == FeedState::Live;
    }

    /// Replaces the worker's holdings with a snapshot and applies the batches that were kept.
    pub fn restore(&mut self, snapshot: &KvSnapshot, holdings: &mut Holdings<'_>) -> Observed {
        if self.waiting.is_none() && self.is_behind(snapshot) {
            return Observed::Duplicate;
        }
        self.doubted = false;
        let wrong = holdings.replace(snapshot);
        // Who hears of a worker for the first time, or of its new life, has lost nothing.
        if self.next.is_some_and(|(epoch, _)| epoch == snapshot.epoch) {
            holdings.tally.lost_blocks += wrong;
        }
        let mut next = snapshot.next_sequence;
        let mut waiting = self.waiting.take().unwrap_or_default();
        if waiting
            .front()
            .is_some_and(|batch| batch.epoch != snapshot.epoch)
        {
            // The worker restarted around the snapshot and nothing says which came first.
            // The next snapshot is certainly younger than these batches.
            self.waiting = Some(VecDeque::new());
            return Observed::NeedsSnapshot;
        }
        while let Some(batch) = waiting.front() {
            if batch.sequence > next {
                self.waiting = Some(waiting);
                return Observed::NeedsSnapshot;
            }
            if batch.sequence == next {
                holdings.apply(&batch.events);
                next = next.saturating_add(1);
            }
            waiting.pop_front();
        }
        self.next = Some((snapshot.epoch, next));
        Observed::Applied
    }

    /// Whether the feed has already gone past the snapshot.
    fn is_behind(&self, snapshot: &KvSnapshot) -> bool {
        self.next.is_some_and(|(epoch, sequence)| {
            epoch == snapshot.epoch && snapshot.next_sequence < sequence
        })
    }

    fn wait_from(&mut self, batch: &KvBatch) -> Observed {
        self.waiting = Some(VecDeque::from([batch.clone()]));
        Observed::NeedsSnapshot
    }
}

/// Keeps a batch for later. Only the latest epoch is worth keeping.
fn keep(waiting: &mut VecDeque<KvBatch>, batch: KvBatch) {
    if waiting
        .front()
        .is_some_and(|first| first.epoch != batch.epoch)
    {
        waiting.clear();
    }
    if waiting.len() == MOST_BUFFERED {
        waiting.pop_front();
    }
    waiting.push_back(batch);
}
