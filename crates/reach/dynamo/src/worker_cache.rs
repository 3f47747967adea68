//! What one worker holds, in our block hashes, and up to which of its events.
//!
//! The translation of names into hashes is [`block_mirror::Mirror`]'s; here are Dynamo's
//! numbers, gaps and dumps.
//!
//! # Guarantees
//!
//! - **Numbers are the worker's.** One event becomes one batch with the event's own number,
//!   so a receiver of the batches sees the worker's gaps.
//! - **A gap ends translation, not reception.** Names may be missing after it. Events are kept
//!   as they came, and empty batches with their numbers make the receiver ask for a snapshot,
//!   which contains what was kept. An empty batch is never mistaken for the event itself: the
//!   snapshot's number is always beyond it, or a gap remains visible.
//! - **A dump is as good as the events.** A block is held while any of its names is, so the
//!   blocks follow from the names alone, whether those came by events or by a dump.
//! - **Bounded.** At most [`MOST_KEPT`] events wait for a snapshot, and at most
//!   [`block_mirror::MOST_NAMES`] names are remembered.

use std::collections::VecDeque;

use block_mirror::{EngineBlock, EngineHash, Mirror, SharedBlock, TooManyNames};
use contract::{BlockHash, KvEvent, LocalHash};

use crate::wire::event::{CacheChange, Stored, WorkerEvent};

/// Some seconds of steps at full load.
pub(crate) const MOST_KEPT: usize = 4096;

/// What an event means in our block hashes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    /// The event's own.
    pub(crate) number: u64,
    pub(crate) events: Vec<KvEvent>,
}

/// Everything that a worker holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) blocks: Vec<BlockHash>,
    /// The number of the first event that is not contained.
    pub(crate) next: u64,
}

#[derive(Debug)]
pub(crate) struct WorkerCache {
    mirror: Mirror<()>,
    /// Number of the event that comes next.
    next: u64,
    /// Events that wait for a snapshot; `None` while none is missing.
    kept: Option<VecDeque<WorkerEvent>>,
    /// Blocks whose predecessor the worker has never named, since the last look.
    orphans: u64,
}

impl Default for WorkerCache {
    fn default() -> Self {
        Self {
            mirror: Mirror::new(SharedBlock::GoneWithLastName),
            next: 0,
            kept: None,
            orphans: 0,
        }
    }
}

impl WorkerCache {
    /// Applies an event. Returns the batch to publish; `None` if the event was known.
    pub(crate) fn observe(&mut self, event: &WorkerEvent) -> Option<Batch> {
        let id = event.event.event_id;
        if id < self.next {
            return None;
        }
        if self.kept.is_none() && id == self.next {
            return Some(Batch {
                number: id,
                events: self.translate(event),
            });
        }
        let kept = self.kept.get_or_insert_default();
        if kept.len() == MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(event.clone());
        Some(Batch {
            number: id,
            events: Vec::new(),
        })
    }

    /// A dump has been asked for: events from now on may not be in it.
    pub(crate) fn await_dump(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Replaces everything by a dump that contains all events before `next`, and perhaps some of
    /// those after, and goes on with what was kept since.
    pub(crate) fn restore(&mut self, dump: &[WorkerEvent], next: u64) -> Restored {
        let is_newer = self.kept.is_none() && self.next > next;
        if !is_newer {
            self.mirror.clear();
            for event in dump {
                self.translate(event);
            }
            self.next = next;
            self.replay();
        }
        Restored {
            blocks: self.mirror.blocks().collect(),
            next: self.next,
        }
    }

    /// How many leading blocks of a chain the worker holds.
    pub(crate) fn leading_blocks(&self, chain: &[BlockHash]) -> usize {
        let held = chain.iter().take_while(|hash| self.mirror.holds(**hash));
        held.count()
    }

    /// Blocks that have no hash of ours, since the last call.
    pub(crate) fn take_orphans(&mut self) -> u64 {
        std::mem::take(&mut self.orphans)
    }

    /// Applies what was kept, up to the next gap.
    fn replay(&mut self) {
        let mut kept = self.kept.take().unwrap_or_default();
        while let Some(event) = kept.front() {
            let id = event.event.event_id;
            let next = self.next;
            if id > next {
                self.kept = Some(kept);
                return;
            }
            if let Some(event) = kept.pop_front()
                && id == next
            {
                self.translate(&event);
            }
        }
    }

    /// Applies an event whose predecessors have all been applied.
    fn translate(&mut self, event: &WorkerEvent) -> Vec<KvEvent> {
        self.next = event.event.event_id.saturating_add(1);
        if !event.is_on_device() {
            return Vec::new();
        }
        match &event.event.data {
            CacheChange::Stored(stored) => self.store(stored),
            CacheChange::Removed(removed) => {
                let names = removed.block_hashes.iter().copied().map(EngineHash);
                let removal = self.mirror.remove(names);
                removal.into_event().into_iter().collect()
            }
            CacheChange::Cleared => vec![self.mirror.clear()],
        }
    }

    fn store(&mut self, stored: &Stored) -> Vec<KvEvent> {
        let parent = stored.parent_hash.map(EngineHash);
        let parent = parent.and_then(|name| self.mirror.named(name));
        let parent = parent.map(|named| named.block.hash);
        let is_root = stored.parent_hash.is_none() && stored.start_position.unwrap_or(0) == 0;
        if parent.is_none() && !is_root {
            self.orphans += stored.blocks.len() as u64;
            return Vec::new();
        }
        let blocks = stored.blocks.iter().map(|block| EngineBlock {
            name: EngineHash(block.block_hash),
            local: LocalHash(block.tokens_hash),
        });
        match self.mirror.store(parent, blocks, ()) {
            Ok(events) => events,
            Err(TooManyNames) => vec![KvEvent::Cleared],
        }
    }
}

#[cfg(test)]
mod tests;
