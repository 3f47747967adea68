//! Which worker holds which prefix.
//!
//! A block's hash commits to every block before it, so a prefix is named by the hash of its
//! last block and the index is a flat map from hash to the workers holding it. There is no
//! tree: a tree would only rebuild, from parent links, what the hash already says.
//!
//! Workers are numbered by dense *slots*. Slots come in pages of 64 with one map each, so
//! that an entry is a key and a word, in a [table](crate::block_table) made for that: 21 to
//! 32 bytes per block. Sets that grow would need a tag or a pointer in every entry of the
//! ordinary, small fleet; beyond 64 workers a lookup is simply repeated per page.
//!
//! # Lookup by quarters
//!
//! The workers holding block *i* of a chain become fewer as *i* grows, because holdings are
//! prefix-closed: an engine stores a block after its parent and evicts leaf first. Lookup
//! therefore looks at the first and last block and cuts the stretches over which the set
//! of holders changes into quarters, until they are single steps. A chain of 128 blocks on
//! which three workers differ costs some thirty probes instead of 128. Halving would
//! cost fewer, but each would have to wait for the one before, and in an index larger than
//! the processor's caches the waiting is what takes time: three at once take hardly longer
//! than one.
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
//! about the map. Blocks that running requests will leave behind are in
//! [`crate::active_blocks`], by stretches: those come and go with every request.

use contract::BlockHash;

use crate::block_table::BlockTable;
use crate::worker_set::WorkerSet;

#[cfg(test)]
mod tests;

/// A flat map from block to the slots holding it.
#[derive(Debug, Default)]
pub struct PrefixIndex {
    /// The holders among 64 neighbouring slots each.
    pages: Vec<BlockTable>,
    /// Blocks held, by slot.
    held: Vec<usize>,
}

impl PrefixIndex {
    /// Makes room for slots `0..slots`. Nothing is ever taken away.
    pub fn reserve_slots(&mut self, slots: usize) {
        if self.held.len() < slots {
            self.held.resize(slots, 0);
            self.pages
                .resize_with(slots.div_ceil(WorkerSet::CAPACITY), BlockTable::default);
        }
    }

    /// Whether the block was new to the slot.
    pub fn insert(&mut self, slot: usize, block: BlockHash) -> bool {
        let (page, worker) = self.page(slot);
        let new = page.insert(block, worker);
        self.held[slot] += usize::from(new);
        new
    }

    /// Whether the slot held the block.
    pub fn remove(&mut self, slot: usize, block: BlockHash) -> bool {
        let (page, worker) = self.page(slot);
        let held = page.remove(block, worker);
        self.held[slot] -= usize::from(held);
        held
    }

    /// Drops everything the slot holds. Walks through its page, which happens only when a
    /// worker leaves, restarts or resets its cache.
    pub fn forget(&mut self, slot: usize) {
        if self.held[slot] == 0 {
            return;
        }
        let (page, worker) = self.page(slot);
        page.forget(worker);
        self.held[slot] = 0;
    }

    /// Blocks that the slot holds.
    pub fn held(&self, slot: usize) -> usize {
        self.held[slot]
    }

    /// Entries in the index: blocks that at least one worker holds, counted once per page.
    pub fn len(&self) -> usize {
        self.pages.iter().map(BlockTable::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
            let mut search = Search {
                page,
                chain,
                depths,
            };
            search.run();
        }
    }

    fn page(&mut self, slot: usize) -> (&mut BlockTable, WorkerSet) {
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

/// One chain looked up on one page.
struct Search<'a> {
    page: &'a BlockTable,
    chain: &'a [BlockHash],
    depths: &'a mut [u32],
}

impl Search<'_> {
    fn run(&mut self) {
        let Some(&first) = self.chain.first() else {
            return;
        };
        let near = Frontier {
            block: 0,
            holders: self.page.holders(first),
        };
        if near.holders.is_empty() {
            return;
        }
        let last = self.chain.len() - 1;
        let [one, two, three] = quarters(0, last);
        let blocks = [one, two, three, last].map(|block| self.chain[block]);
        let [one, two, three, complete] = self.page.holders_of(blocks);
        let far = Frontier {
            block: last,
            holders: complete.intersection(near.holders),
        };
        for worker in far.holders.iter() {
            self.depths[worker] = self.chain.len() as u32;
        }
        if near.holders != far.holders {
            self.find_edges(near, far, [one, two, three]);
        }
    }

    /// Settles the workers that match at `near` and no longer at `far`, by what was found at
    /// the quarters between them.
    fn find_edges(&mut self, near: Frontier, far: Frontier, found: [WorkerSet; 3]) {
        let mut before = near;
        for (block, found) in quarters(near.block, far.block).into_iter().zip(found) {
            // Between the two ends, so that each worker is settled exactly once even when
            // its holdings have holes.
            let holders = found.intersection(before.holders).union(far.holders);
            let here = Frontier { block, holders };
            self.look_between(before, here);
            before = here;
        }
        self.look_between(before, far);
    }

    #[inline]
    fn look_between(&mut self, near: Frontier, far: Frontier) {
        // Also where a short stretch has fewer blocks than quarters.
        if near.holders == far.holders {
            return;
        }
        if far.block - near.block == 1 {
            for worker in near.holders.without(far.holders).iter() {
                self.depths[worker] = far.block as u32;
            }
            return;
        }
        let blocks = quarters(near.block, far.block).map(|block| self.chain[block]);
        self.find_edges(near, far, self.page.holders_of(blocks));
    }
}

/// Where to cut a stretch.
fn quarters(from: usize, to: usize) -> [usize; 3] {
    let blocks = to - from;
    [1, 2, 3].map(|quarter| from + blocks * quarter / 4)
}
