//! What one worker holds, in our names.
//!
//! An engine names blocks as it likes and removes them by these names; our index wants the
//! hash of the whole prefix ([`contract::block`]). Stored events carry both the engine's name
//! and the hash of the block's own tokens, and say which block comes before, so ours can be
//! computed, and is kept for the removal.
//!
//! # Guarantees
//!
//! - **Numbers are the worker's.** One event becomes one batch with the event's own number,
//!   so whoever receives the batches sees the worker's gaps.
//! - **A gap ends translation, not reception.** Names may be missing after it. Events are kept
//!   as they came, and empty batches with their numbers make the receiver ask for a snapshot,
//!   which contains what was kept. An empty batch can never pass for the event itself: the
//!   snapshot's number is always beyond it, or a gap remains in view.
//! - **Bounded.** At most [`MOST_KEPT`] events wait for a snapshot.

use std::collections::{HashMap, VecDeque};

use contract::{BlockHash, KvEvent, LocalHash, StoredBlock};

use crate::wire::event::{CacheChange, Stored, WorkerEvent};

/// Some seconds of steps at full load.
pub(crate) const MOST_KEPT: usize = 4096;

/// A batch: the number of its event and what it means in our names.
pub(crate) type Batch = (u64, Vec<KvEvent>);

#[derive(Debug, Default)]
pub(crate) struct Mirror {
    names: HashMap<u64, BlockHash>,
    /// How many of the engine's names stand for a block.
    held: HashMap<BlockHash, u32>,
    /// Number of the event that comes next.
    next: u64,
    /// Events that wait for a snapshot; `None` while none is missing.
    kept: Option<VecDeque<WorkerEvent>>,
    /// Blocks whose predecessor the worker has never named.
    orphans: u64,
}

impl Mirror {
    /// Takes an event. Returns the batch to publish; `None` if it was known.
    pub(crate) fn observe(&mut self, event: &WorkerEvent) -> Option<Batch> {
        let id = event.event.event_id;
        if id < self.next {
            return None;
        }
        if self.kept.is_none() && id == self.next {
            return Some((id, self.translate(event)));
        }
        let kept = self.kept.get_or_insert_default();
        if kept.len() == MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(event.clone());
        Some((id, Vec::new()))
    }

    /// Says that a dump has been asked for: what comes from now on may not be in it.
    pub(crate) fn await_dump(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Replaces everything by a dump that contains events up to `last`, and goes on with what
    /// was kept since. Returns all blocks and the number of the first event not among them.
    pub(crate) fn restore(&mut self, dump: &[WorkerEvent], last: u64) -> (Vec<BlockHash>, u64) {
        let next = last.saturating_add(1);
        let is_newer = self.kept.is_none() && self.next > next;
        if !is_newer {
            self.names.clear();
            self.held.clear();
            for event in dump {
                self.translate(event);
            }
            self.next = next;
            self.replay();
        }
        let blocks = self.held.keys().copied().collect();
        (blocks, self.next)
    }

    /// How many leading blocks of a chain the worker holds.
    pub(crate) fn leading_blocks(&self, chain: &[BlockHash]) -> usize {
        let held = chain.iter().take_while(|hash| self.held.contains_key(hash));
        held.count()
    }

    /// Blocks that could not be named since the beginning.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans
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

    /// Takes an event whose predecessors are all here.
    fn translate(&mut self, event: &WorkerEvent) -> Vec<KvEvent> {
        self.next = event.event.event_id.saturating_add(1);
        if !event.is_on_device() {
            return Vec::new();
        }
        match &event.event.data {
            CacheChange::Stored(stored) => self.store(stored).into_iter().collect(),
            CacheChange::Removed(removed) => {
                let names = removed.block_hashes.iter();
                let blocks: Vec<BlockHash> = names.filter_map(|name| self.forget(*name)).collect();
                if blocks.is_empty() {
                    return Vec::new();
                }
                vec![KvEvent::Removed { blocks }]
            }
            CacheChange::Cleared => {
                self.names.clear();
                self.held.clear();
                vec![KvEvent::Cleared]
            }
        }
    }

    fn store(&mut self, stored: &Stored) -> Option<KvEvent> {
        let parent = match stored.parent_hash {
            Some(name) => self.names.get(&name).copied(),
            None => None,
        };
        let is_root = stored.parent_hash.is_none() && stored.start_position.unwrap_or(0) == 0;
        if parent.is_none() && !is_root {
            self.orphans += stored.blocks.len() as u64;
            return None;
        }
        let mut before = parent;
        let blocks = stored.blocks.iter().map(|block| {
            let local = LocalHash(block.tokens_hash);
            let hash = BlockHash::after(before, local);
            before = Some(hash);
            (block.block_hash, StoredBlock { hash, local })
        });
        let blocks: Vec<(u64, StoredBlock)> = blocks.collect();
        for (name, block) in &blocks {
            self.name(*name, block.hash);
        }
        let blocks = blocks.into_iter().map(|(_, block)| block).collect();
        Some(KvEvent::Stored { parent, blocks })
    }

    fn name(&mut self, name: u64, hash: BlockHash) {
        match self.names.insert(name, hash) {
            Some(old) if old == hash => return,
            Some(old) => {
                self.release(old);
            }
            None => {}
        }
        *self.held.entry(hash).or_default() += 1;
    }

    /// Takes a name away; returns the block if nothing stands for it any more.
    fn forget(&mut self, name: u64) -> Option<BlockHash> {
        let hash = self.names.remove(&name)?;
        self.release(hash)
    }

    fn release(&mut self, hash: BlockHash) -> Option<BlockHash> {
        let count = self.held.get_mut(&hash)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.held.remove(&hash);
        Some(hash)
    }
}

#[cfg(test)]
mod tests;
