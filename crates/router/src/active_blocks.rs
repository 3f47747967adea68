//! Which blocks the requests under way use, by worker.
//!
//! One structure answers two questions, because both are about the same blocks: how much
//! memory a worker's running requests pin (shared blocks counted once), and which blocks a
//! worker is *expected* to hold because a request with that prefix has been sent to it. The
//! second closes the gap between dispatch and the worker's own event, so that a sibling
//! arriving a millisecond later follows its prefix. An expectation lives exactly as long as
//! the placement that raised it; if the worker really stored the block, its event has put
//! it into the [`PrefixIndex`] of confirmed blocks by then.
//!
//! # Counting
//!
//! A block is referenced by the requests whose chain ends at it and by each active block
//! that follows it directly, like a node of a tree whose children keep it alive. Joining an
//! active prefix thus costs one step per block that is *not* shared yet, and releasing costs
//! one per block that nobody else needs, instead of one per block of the prompt. Nearly all
//! counts are 1, so only what exceeds 1 is stored.
//!
//! # Guarantees
//!
//! - **Prefix-closed**, so lookup by quarters is exact.
//! - **Empty when idle.** Two chains that share a block share everything before it, except
//!   if 64-bit hashes collide; then a count may be off until the worker is idle, when its
//!   owner calls [`forget`](ActiveBlocks::forget).

use std::hash::{BuildHasherDefault, Hasher};

use contract::BlockHash;
use hashbrown::HashMap;

use crate::prefix_index::PrefixIndex;

/// Reference-counted blocks in use, by slot.
#[derive(Debug, Default)]
pub struct ActiveBlocks {
    index: PrefixIndex,
    /// References beyond the first. No entry is zero.
    further: HashMap<(BlockHash, usize), u32, BuildHasherDefault<BlockHasher>>,
}

/// Takes a block hash as it is; further fields of a key are spread by multiplication.
#[derive(Debug, Default)]
struct BlockHasher(u64);

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

impl ActiveBlocks {
    pub fn reserve_slots(&mut self, slots: usize) {
        self.index.reserve_slots(slots);
    }

    /// A request with this chain is under way on the slot.
    pub fn acquire(&mut self, slot: usize, chain: &[BlockHash]) {
        for &block in chain.iter().rev() {
            if !self.index.insert(slot, block) {
                *self.further.entry((block, slot)).or_insert(0) += 1;
                return;
            }
        }
    }

    /// The request is over. The chain is the one that was acquired.
    pub fn release(&mut self, slot: usize, chain: &[BlockHash]) {
        for &block in chain.iter().rev() {
            if self.drop_further(slot, block) || !self.index.remove(slot, block) {
                return;
            }
        }
    }

    /// No request is under way on the slot any more.
    pub fn forget(&mut self, slot: usize) {
        if self.index.held(slot) > 0 {
            self.index.forget(slot);
            self.further.retain(|(_, owner), _| *owner != slot);
        }
    }

    /// Distinct blocks in use on the slot.
    pub fn count(&self, slot: usize) -> usize {
        self.index.held(slot)
    }

    /// Blocks in use anywhere.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Writes for each slot how many leading blocks of the chain are in use there.
    pub fn overlap(&self, chain: &[BlockHash], depths: &mut [u32]) {
        self.index.overlap(chain, depths);
    }

    /// Takes away one reference beyond the first, if there is one.
    fn drop_further(&mut self, slot: usize, block: BlockHash) -> bool {
        let Some(count) = self.further.get_mut(&(block, slot)) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.further.remove(&(block, slot));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use contract::random::mix;
    use proptest::prelude::*;

    use super::*;

    const SLOTS: usize = 3;

    fn chain(path: &[u8]) -> Vec<BlockHash> {
        let mut parent = 1;
        let step = |&step: &u8| {
            parent = mix(3, parent, u64::from(step));
            BlockHash(parent)
        };
        path.iter().map(step).collect()
    }

    fn blocks() -> ActiveBlocks {
        let mut blocks = ActiveBlocks::default();
        blocks.reserve_slots(SLOTS);
        blocks
    }

    #[test]
    fn shared_blocks_count_once_and_stay_while_anyone_needs_them() {
        let mut blocks = blocks();
        let (long, short) = (chain(&[0, 0, 0]), chain(&[0, 1]));
        blocks.acquire(0, &long);
        blocks.acquire(0, &short);
        blocks.acquire(0, &short);
        assert_eq!(blocks.count(0), 4);
        blocks.release(0, &long);
        assert_eq!(blocks.count(0), 2);
        blocks.release(0, &short);
        assert_eq!(blocks.count(0), 2);
        blocks.release(0, &short);
        assert!(blocks.is_empty());
        assert!(blocks.further.is_empty());
    }

    #[test]
    fn a_worker_that_is_forgotten_leaves_nothing_behind() {
        let mut blocks = blocks();
        for slot in [0, 0, 1] {
            blocks.acquire(slot, &chain(&[0, 1]));
        }
        blocks.forget(0);
        assert_eq!((blocks.count(0), blocks.count(1)), (0, 2));
        // The later release of a forgotten request finds nothing and takes nothing.
        blocks.release(0, &chain(&[0, 1]));
        assert_eq!(blocks.count(1), 2);
        blocks.release(1, &chain(&[0, 1]));
        assert!(blocks.is_empty() && blocks.further.is_empty());
    }

    proptest! {
        #[test]
        fn counts_agree_with_a_count_per_block(
            requests in prop::collection::vec(
                (0..SLOTS, prop::collection::vec(0_u8..2, 0..8), any::<prop::sample::Index>()),
                0..40,
            ),
        ) {
            let mut blocks = blocks();
            let mut under_way: Vec<(usize, Vec<BlockHash>)> = Vec::new();
            for (slot, path, ended) in requests {
                let chain = chain(&path);
                blocks.acquire(slot, &chain);
                under_way.push((slot, chain));
                if path.len() % 2 == 0 {
                    let (slot, chain) = under_way.swap_remove(ended.index(under_way.len()));
                    blocks.release(slot, &chain);
                }
                let mut naive: BTreeMap<(usize, BlockHash), u32> = BTreeMap::new();
                for (slot, chain) in &under_way {
                    for &block in chain {
                        *naive.entry((*slot, block)).or_default() += 1;
                    }
                }
                for slot in 0..SLOTS {
                    let used = naive.keys().filter(|(owner, _)| *owner == slot).count();
                    prop_assert_eq!(blocks.count(slot), used);
                }
            }
            for (slot, chain) in under_way {
                blocks.release(slot, &chain);
            }
            prop_assert!(blocks.is_empty() && blocks.further.is_empty());
        }
    }
}
