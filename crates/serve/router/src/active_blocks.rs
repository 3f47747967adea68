//! Which blocks the running requests use, by worker.
//!
//! One structure answers two questions, because both are about the same blocks: how much
//! memory a worker's running requests pin (shared blocks counted once), and which blocks a
//! worker is *expected* to hold because a request with that prefix has been sent to it. The
//! second closes the gap between dispatch and the worker's own event, so that a sibling
//! arriving a millisecond later follows its prefix. An expectation lives exactly as long as
//! the placement that raised it; if the worker really stored the block, its event has put
//! it into the [`PrefixIndex`](crate::prefix_index::PrefixIndex) of confirmed blocks by then.
//!
//! # Stretches
//!
//! Chains that start alike share their first blocks and part somewhere, so those under way
//! form trees. A tree is kept as *stretches*: blocks that follow each other without anybody
//! parting or ending between them, with the number of requests that pass, by slot. A stretch
//! is found by its first block, and as a block's hash commits to all blocks before it, that
//! alone says where in which tree it belongs: there are no links between stretches. For the
//! same reason a stretch is part of a chain as soon as its *last* block is.
//!
//! Entering, leaving and looking up thus cost a step per stretch, which is two or three for
//! prompts of any length, and not one per block. A chain that parts or ends within a stretch
//! cuts it. What has been cut grows together again when a later chain passes both pieces
//! and finds that the same requests pass them.
//!
//! # Guarantees
//!
//! - **Exact.** Counts and depths are those of a count per block and slot.
//! - **Empty when idle.** Two chains that share a block share everything before it, except
//!   if 64-bit hashes collide; then something may stay behind until the worker is idle, when
//!   its owner calls [`forget`](ActiveBlocks::forget).

use std::hash::{BuildHasherDefault, Hasher};

use contract::BlockHash;
use hashbrown::HashMap;

#[cfg(test)]
mod tests;

/// Blocks in use and by how many requests, by slot.
#[derive(Debug, Default)]
pub struct ActiveBlocks {
    /// Stretches of blocks, keyed by their first block.
    stretches: HashMap<BlockHash, Stretch, BuildHasherDefault<BlockHasher>>,
    /// Distinct blocks in use, by slot.
    used: Vec<usize>,
}

/// Takes a block hash as it is.
#[derive(Debug, Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
}

/// Blocks in a row that the same requests use. Neither list is empty.
#[derive(Debug)]
struct Stretch {
    blocks: Vec<BlockHash>,
    /// Ascending by slot.
    users: Vec<User>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    slot: usize,
    /// How many of its requests pass. Not zero.
    requests: usize,
}

impl Stretch {
    /// How many leading blocks the stretch and the rest of a chain have in common.
    fn shared_with(&self, rest: &[BlockHash]) -> usize {
        let most = self.blocks.len().min(rest.len());
        let (mut alike, mut differ) = (0, most + 1);
        let mut probe = most;
        while alike + 1 < differ {
            // Equal here is equal everywhere before. The first probe is the far end.
            if self.blocks[probe - 1] == rest[probe - 1] {
                alike = probe;
            } else {
                differ = probe;
            }
            probe = alike.midpoint(differ);
        }
        alike
    }

    /// Cuts off what comes after the first `blocks`.
    fn cut(&mut self, blocks: usize) -> Self {
        Self {
            blocks: self.blocks.split_off(blocks),
            users: self.users.clone(),
        }
    }

    /// One more request of the slot passes. Returns whether it is the slot's first.
    fn enter(&mut self, slot: usize) -> bool {
        match self.users.binary_search_by_key(&slot, |user| user.slot) {
            Ok(at) => {
                self.users[at].requests += 1;
                false
            }
            Err(at) => {
                self.users.insert(at, User { slot, requests: 1 });
                true
            }
        }
    }

    /// One request of the slot passes no more. How many of the slot still do, `None` if it
    /// had none.
    fn leave(&mut self, slot: usize) -> Option<usize> {
        let found = self.users.binary_search_by_key(&slot, |user| user.slot);
        let user = &mut self.users[found.ok()?];
        user.requests -= 1;
        let left = user.requests;
        if left == 0 {
            self.users.retain(|user| user.slot != slot);
        }
        Some(left)
    }
}

impl ActiveBlocks {
    pub fn reserve_slots(&mut self, slots: usize) {
        self.used.resize(slots.max(self.used.len()), 0);
    }

    /// A request with this chain runs on the slot.
    pub fn acquire(&mut self, slot: usize, chain: &[BlockHash]) {
        let mut rest = chain;
        let mut before = None;
        while let Some(&first) = rest.first() {
            let Some(stretch) = self.stretches.get_mut(&first) else {
                self.add(slot, rest);
                return;
            };
            let shared = stretch.shared_with(rest);
            let cut_off = (shared < stretch.blocks.len()).then(|| stretch.cut(shared));
            if stretch.enter(slot) {
                self.used[slot] += shared;
            }
            if let Some(cut_off) = cut_off {
                self.stretches.insert(cut_off.blocks[0], cut_off);
                before = Some(first);
            } else if !before.is_some_and(|before| self.rejoin(before, first)) {
                before = Some(first);
            }
            rest = &rest[shared..];
        }
    }

    /// The request is over. The chain is the one that was acquired.
    pub fn release(&mut self, slot: usize, chain: &[BlockHash]) {
        let mut rest = chain;
        while let Some(&first) = rest.first() {
            let Some(stretch) = self.stretches.get_mut(&first) else {
                return;
            };
            let length = stretch.blocks.len();
            // A chain that was acquired ends where a stretch does.
            if length > rest.len() {
                return;
            }
            let Some(left) = stretch.leave(slot) else {
                return;
            };
            if left == 0 {
                self.used[slot] -= length;
            }
            if stretch.users.is_empty() {
                self.stretches.remove(&first);
            }
            rest = &rest[length..];
        }
    }

    /// No request runs on the slot any more.
    pub fn forget(&mut self, slot: usize) {
        if self.used[slot] == 0 {
            return;
        }
        self.used[slot] = 0;
        self.stretches.retain(|_, stretch| {
            stretch.users.retain(|user| user.slot != slot);
            !stretch.users.is_empty()
        });
    }

    /// Distinct blocks in use on the slot.
    pub fn count(&self, slot: usize) -> usize {
        self.used[slot]
    }

    /// Blocks in use anywhere.
    pub fn len(&self) -> usize {
        let stretches = self.stretches.values();
        stretches.map(|stretch| stretch.blocks.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Writes for each slot how many leading blocks of the chain are in use there.
    pub fn overlap(&self, chain: &[BlockHash], depths: &mut [u32]) {
        depths.fill(0);
        let mut depth = 0;
        while let Some(first) = chain.get(depth)
            && let Some(stretch) = self.stretches.get(first)
        {
            let shared = stretch.shared_with(&chain[depth..]);
            depth += shared;
            for user in &stretch.users {
                depths[user.slot] = depth as u32;
            }
            if shared < stretch.blocks.len() {
                return;
            }
        }
    }

    /// The rest of a chain, which no other request uses.
    fn add(&mut self, slot: usize, rest: &[BlockHash]) {
        let stretch = Stretch {
            blocks: rest.to_vec(),
            users: vec![User { slot, requests: 1 }],
        };
        self.stretches.insert(rest[0], stretch);
        self.used[slot] += rest.len();
    }

    /// Makes one stretch of two that follow each other, if nobody parts or ends between
    /// them: if the same requests pass both. Returns whether it joined them.
    fn rejoin(&mut self, before: BlockHash, after: BlockHash) -> bool {
        let users = |first| self.stretches.get(&first).map(|stretch| &stretch.users);
        if users(before) != users(after) {
            return false;
        }
        let after = self.stretches.remove(&after);
        let before = self.stretches.get_mut(&before);
        if let (Some(before), Some(after)) = (before, after) {
            before.blocks.extend(after.blocks);
        }
        true
    }
}
