//! Which worker holds which prefix.
//!
//! A block's hash commits to every block before it, so a prefix is named by the hash of its
//! last block and the index is a flat map from hash to the workers holding it. There is no
//! tree: a tree would only rebuild, from parent links, what the hash already says.
//!
//! Workers are numbered by dense *slots*. Slots come in pages of 64 with one map each, so
//! that an entry is a key and a word: 17 bytes a bucket, at most 39 a block whatever the
//! map's fill. Sets that grow would need a tag or a pointer in every entry of the ordinary,
//! small fleet; beyond 64 workers a lookup is simply repeated per page. The key is already
//! a hash, so it is not hashed again.
//!
//! # Lookup by halving
//!
//! The workers holding block *i* of a chain become fewer as *i* grows, because holdings are
//! prefix-closed: an engine stores a block after its parent and evicts leaf first. Lookup
//! therefore looks at the first and last block and halves the stretches over which the set
//! of holders changes. A chain of 128 blocks on which three workers differ costs about
//! twenty probes instead of 128.
//!
//! # Guarantees
//!
//! - **Exact for prefix-closed holdings**: the depth is the number of leading blocks held.
//! - **Otherwise an edge.** If an engine evicts in the middle, the depth reported is still a
//!   place where the worker holds the block before and lacks the one after, but there may
//!   be a hole further up.
//! - **Advisory.** The index lags its workers. A wrong entry costs one cache miss; nothing
//!   may depend on it for correctness.
//!
//! # Elsewhere
//!
//! Sequence numbers and resync are in [`crate::feed`]: a gap is a fact about a feed, not
//! about the map. Blocks that requests under way will leave behind are in
//! [`crate::active_blocks`], which is this same structure with reference counts.

use std::hash::{BuildHasherDefault, Hasher};

use contract::BlockHash;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::worker_set::WorkerSet;

#[cfg(test)]
mod tests;

/// Takes a block hash as it is; further fields of a key are spread by multiplication.
#[derive(Debug, Default)]
pub(crate) struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, value: u64) {
        self.0 ^= value;
    }

    fn write_usize(&mut self, value: usize) {
        // Odd, with bits everywhere, so that both ends of the word change: the map takes
        // its bucket from the low bits and its tag from the high ones.
        self.0 ^= (value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
}

pub(crate) type BlockMap<K, V> = HashMap<K, V, BuildHasherDefault<BlockHasher>>;

/// A flat map from block to the slots holding it.
#[derive(Debug, Default)]
pub struct PrefixIndex {
    pages: Vec<Page>,
    /// Blocks held, by slot.
    held: Vec<usize>,
}

/// The holders among 64 neighbouring slots. No entry is empty.
#[derive(Debug, Default)]
struct Page {
    holders: BlockMap<BlockHash, WorkerSet>,
}

impl PrefixIndex {
    /// Makes room for slots `0..slots`. Nothing is ever taken away.
    pub fn reserve_slots(&mut self, slots: usize) {
        if self.held.len() < slots {
            self.held.resize(slots, 0);
            self.pages
                .resize_with(slots.div_ceil(WorkerSet::CAPACITY), Page::default);
        }
    }

    /// Whether the block was new to the slot.
    pub fn insert(&mut self, slot: usize, block: BlockHash) -> bool {
        let (page, worker) = self.page(slot);
        let holders = page.holders.entry(block).or_insert(WorkerSet::EMPTY);
        if holders.contains(worker) {
            return false;
        }
        *holders = holders.union(worker);
        self.held[slot] += 1;
        true
    }

    /// Whether the slot held the block.
    pub fn remove(&mut self, slot: usize, block: BlockHash) -> bool {
        let (page, worker) = self.page(slot);
        let Entry::Occupied(mut entry) = page.holders.entry(block) else {
            return false;
        };
        if !entry.get().contains(worker) {
            return false;
        }
        let rest = entry.get().without(worker);
        if rest.is_empty() {
            entry.remove();
        } else {
            entry.insert(rest);
        }
        self.held[slot] -= 1;
        true
    }

    /// Drops everything the slot holds. Scans its page, which happens only when a worker
    /// leaves, restarts or resets its cache.
    pub fn forget(&mut self, slot: usize) {
        if self.held[slot] == 0 {
            return;
        }
        let (page, worker) = self.page(slot);
        page.holders.retain(|_, holders| {
            *holders = holders.without(worker);
            !holders.is_empty()
        });
        self.held[slot] = 0;
    }

    /// Blocks that the slot holds.
    pub fn held(&self, slot: usize) -> usize {
        self.held[slot]
    }

    /// Entries in the index: blocks that somebody holds, counted once per page.
    pub fn len(&self) -> usize {
        self.pages.iter().map(|page| page.holders.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.pages.iter().all(|page| page.holders.is_empty())
    }

    /// Writes for each slot how many leading blocks of the chain it holds. `depths` has an
    /// element for each reserved slot.
    pub fn overlap(&self, chain: &[BlockHash], depths: &mut [u32]) {
        depths.fill(0);
        for (page, depths) in self
            .pages
            .iter()
            .zip(depths.chunks_mut(WorkerSet::CAPACITY))
        {
            page.overlap(chain, depths);
        }
    }

    fn page(&mut self, slot: usize) -> (&mut Page, WorkerSet) {
        let page = &mut self.pages[slot / WorkerSet::CAPACITY];
        (page, WorkerSet::of(slot % WorkerSet::CAPACITY))
    }
}

/// Who still matches at a block of the chain.
#[derive(Clone, Copy)]
struct Frontier {
    block: usize,
    holders: WorkerSet,
}

impl Page {
    fn overlap(&self, chain: &[BlockHash], depths: &mut [u32]) {
        let Some((first, last)) = chain.first().zip(chain.last()) else {
            return;
        };
        let near = Frontier {
            block: 0,
            holders: self.holders(*first),
        };
        if near.holders.is_empty() {
            return;
        }
        let complete = self.holders(*last).intersection(near.holders);
        for worker in complete.iter() {
            depths[worker] = chain.len() as u32;
        }
        let far = Frontier {
            block: chain.len() - 1,
            holders: complete,
        };
        self.find_edges(chain, near, far, depths);
    }

    /// Settles the workers that match at `near` and no longer at `far`.
    fn find_edges(&self, chain: &[BlockHash], near: Frontier, far: Frontier, depths: &mut [u32]) {
        if near.holders == far.holders {
            return;
        }
        if far.block - near.block == 1 {
            for worker in near.holders.without(far.holders).iter() {
                depths[worker] = far.block as u32;
            }
            return;
        }
        let block = near.block.midpoint(far.block);
        // Between the two ends, so that each worker is settled exactly once even when its
        // holdings have holes.
        let holders = self
            .holders(chain[block])
            .intersection(near.holders)
            .union(far.holders);
        let middle = Frontier { block, holders };
        self.find_edges(chain, near, middle, depths);
        self.find_edges(chain, middle, far, depths);
    }

    fn holders(&self, block: BlockHash) -> WorkerSet {
        self.holders.get(&block).copied().unwrap_or_default()
    }
}
