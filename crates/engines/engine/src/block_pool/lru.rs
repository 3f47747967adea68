//! The order in which unreferenced blocks are evicted.
//!
//! A doubly linked list threaded through one array with an entry per block, so that moving
//! a block in or out costs a handful of writes and never allocates. A block is in the list
//! exactly while the pool could evict it.

use super::BlockId;

/// Stands for "no neighbour": no pool has this many blocks.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
}

/// Least recently used first.
#[derive(Debug)]
pub(super) struct LruList {
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
    len: u32,
}

impl LruList {
    pub(super) fn new(total_blocks: u32) -> Self {
        let unlinked = Links {
            older: NONE,
            newer: NONE,
        };
        Self {
            links: vec![unlinked; total_blocks as usize],
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Appends a block that is not in the list, as the last to be evicted.
    pub(super) fn push_newest(&mut self, block: BlockId) {
        self.links[block.index()] = Links {
            older: self.newest,
            newer: NONE,
        };
        match self.newest {
            NONE => self.oldest = block.0,
            newest => self.links[newest as usize].newer = block.0,
        }
        self.newest = block.0;
        self.len += 1;
    }

    /// Takes out a block that is in the list.
    pub(super) fn remove(&mut self, block: BlockId) {
        let Links { older, newer } = self.links[block.index()];
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        self.len -= 1;
    }

    pub(super) fn pop_oldest(&mut self) -> Option<BlockId> {
        if self.oldest == NONE {
            return None;
        }
        let block = BlockId(self.oldest);
        self.remove(block);
        Some(block)
    }
}
