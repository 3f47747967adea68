//! The worker's KV memory, in blocks.
//!
//! A block is in one of three states: *active* (referenced by at least one sequence),
//! *cached* (referenced by nobody, but its contents can be reused), or *free* (nothing of
//! value in it). Only a full, computed block can be reused; until then it is private to the
//! sequence that fills it.
//!
//! # Guarantees
//!
//! - **A hash never decides alone.** A lookup compares the block's own tokens and the
//!   identity of the block before it. By induction the whole prefix is equal, so a hash
//!   collision costs a cache miss and never shows one prompt another's cache.
//! - **One reusable copy.** When two sequences compute the same block side by side, the
//!   second to publish it is handed the first one's block and its own is freed. So a sequence
//!   that references a reusable block also references the reusable blocks before it.
//! - **Leaf first.** A sequence gives its blocks back last to first, and with the point
//!   above a block is therefore always evicted before the one it follows. Nothing reusable
//!   ever hangs in the air.
//! - **Events are complete.** Replaying them gives exactly the set of reusable
//!   blocks at that time.
//!
//! # Elsewhere
//!
//! Who gets blocks, and who has to give them back, is decided in [`crate::scheduler`].

mod lru;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasherDefault, Hasher};

use contract::{BlockHash, KvEvent, StoredBlock, TokenId};
use hashbrown::HashMap;

use self::lru::LruList;

/// A place in KV memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// How many blocks are in which state. The three add up to the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    pub active: u32,
    pub cached: u32,
    pub free: u32,
}

/// All blocks of one worker.
#[derive(Debug)]
pub struct BlockPool {
    block_size: usize,
    blocks: Vec<Block>,
    /// Tokens of reusable blocks, `block_size` places for each block of the pool.
    tokens: Vec<TokenId>,
    reusable: HashMap<BlockHash, BlockId, BuildHasherDefault<AlreadyHashed>>,
    /// Reusable and referenced by no sequence.
    cached: LruList,
    /// Neither reusable nor referenced.
    free: Vec<BlockId>,
    events: Vec<KvEvent>,
    evictions: u64,
}

#[derive(Clone, Debug, Default)]
struct Block {
    references: u32,
    published: Option<Published>,
}

/// What makes a block findable.
#[derive(Clone, Copy, Debug)]
struct Published {
    hash: BlockHash,
    parent: Option<BlockId>,
}

impl BlockPool {
    pub fn new(total_blocks: u32, block_size: u32) -> Self {
        let block_size = block_size as usize;
        Self {
            block_size,
            blocks: vec![Block::default(); total_blocks as usize],
            tokens: vec![0; total_blocks as usize * block_size],
            reusable: HashMap::default(),
            cached: LruList::new(total_blocks),
            free: (0..total_blocks).rev().map(BlockId).collect(),
            events: Vec::new(),
            evictions: 0,
        }
    }

    /// The reusable block with these tokens that follows `parent`, if there is one.
    pub fn lookup(
        &self,
        parent: Option<BlockId>,
        hash: BlockHash,
        tokens: &[TokenId],
    ) -> Option<BlockId> {
        let block = *self.reusable.get(&hash)?;
        self.holds(block, parent, tokens).then_some(block)
    }

    /// Whether no sequence references the block: taking it would use up an available one.
    pub fn is_unreferenced(&self, block: BlockId) -> bool {
        self.blocks[block.index()].references == 0
    }

    /// Takes another reference to a block that [`lookup`](Self::lookup) found.
    pub fn acquire(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.index()];
        debug_assert!(state.published.is_some(), "only reusable blocks are shared");
        if state.references == 0 {
            self.cached.remove(block);
        }
        state.references += 1;
    }

    /// Hands out a block with nothing in it, evicting the least recently used one if no
    /// other is left. `None` when every block is referenced.
    pub fn allocate(&mut self) -> Option<BlockId> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => self.evict()?,
        };
        self.blocks[block.index()].references = 1;
        Some(block)
    }

    /// Gives back a sequence's blocks, last to first, and empties the table.
    pub fn release(&mut self, table: &mut Vec<BlockId>) {
        while let Some(block) = table.pop() {
            self.release_one(block);
        }
    }

    /// Gives back a sequence's blocks like [`release`](Self::release), and forgets what is in those
    /// from place `keep` on, unless somebody else uses them too.
    pub fn discard(&mut self, table: &mut Vec<BlockId>, keep: usize) {
        for block in table.get(keep..).unwrap_or_default() {
            let state = &mut self.blocks[block.index()];
            if state.references > 1 {
                continue;
            }
            if let Some(Published { hash, .. }) = state.published.take() {
                self.reusable.remove(&hash);
                self.record_removed(hash);
            }
        }
        self.release(table);
    }

    /// Makes a full, computed block reusable and returns the block to go on with.
    ///
    /// That is another block when an equal one was already reusable. The block stays
    /// private when the one before it is private (its prefix cannot be found, so neither
    /// could it), or when its hash collides with a different block's.
    pub fn publish(
        &mut self,
        block: BlockId,
        parent: Option<BlockId>,
        stored: StoredBlock,
        tokens: &[TokenId],
    ) -> BlockId {
        debug_assert_eq!(
            tokens.len(),
            self.block_size,
            "only full blocks are reusable"
        );
        debug_assert_eq!(
            self.blocks[block.index()].references,
            1,
            "private until published"
        );
        let parent_hash = match parent {
            None => None,
            Some(parent) => match self.blocks[parent.index()].published {
                Some(published) => Some(published.hash),
                None => return block,
            },
        };
        if let Some(&existing) = self.reusable.get(&stored.hash) {
            if !self.holds(existing, parent, tokens) {
                return block;
            }
            self.acquire(existing);
            self.release_one(block);
            return existing;
        }
        let place = block.index() * self.block_size;
        self.tokens[place..place + self.block_size].copy_from_slice(tokens);
        self.blocks[block.index()].published = Some(Published {
            hash: stored.hash,
            parent,
        });
        self.reusable.insert(stored.hash, block);
        self.record_stored(parent_hash, stored);
        block
    }

    /// Forgets everything that could be reused. Sequences keep the blocks they reference,
    /// but those are private from now on.
    pub fn reset(&mut self) {
        while let Some(block) = self.cached.pop_oldest() {
            self.free.push(block);
        }
        for block in self.reusable.values() {
            self.blocks[block.index()].published = None;
        }
        self.reusable.clear();
        self.events.clear();
        self.events.push(KvEvent::Cleared);
    }

    /// Blocks that [`allocate`](Self::allocate) can still hand out.
    pub fn available(&self) -> usize {
        self.free.len() + self.cached.len() as usize
    }

    pub fn occupancy(&self) -> Occupancy {
        let (free, cached) = (self.free.len() as u32, self.cached.len());
        Occupancy {
            active: self.blocks.len() as u32 - free - cached,
            cached,
            free,
        }
    }

    /// Blocks evicted since the pool began.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Every reusable block, in the order of their places.
    pub fn reusable(&self) -> Vec<BlockHash> {
        let published = self.blocks.iter().filter_map(|block| block.published);
        published.map(|published| published.hash).collect()
    }

    /// What has changed since the last call.
    pub fn take_events(&mut self) -> Vec<KvEvent> {
        std::mem::take(&mut self.events)
    }

    /// Whether a reusable block has these tokens and follows `parent`.
    fn holds(&self, block: BlockId, parent: Option<BlockId>, tokens: &[TokenId]) -> bool {
        let place = block.index() * self.block_size;
        let published = self.blocks[block.index()].published;
        published.is_some_and(|published| published.parent == parent)
            && self.tokens[place..place + self.block_size] == *tokens
    }

    fn release_one(&mut self, block: BlockId) {
        let state = &mut self.blocks[block.index()];
        debug_assert!(
            state.references > 0,
            "a block is given back once per reference"
        );
        state.references -= 1;
        if state.references > 0 {
            return;
        }
        if state.published.is_some() {
            self.cached.push_newest(block);
        } else {
            self.free.push(block);
        }
    }

    fn evict(&mut self) -> Option<BlockId> {
        let block = self.cached.pop_oldest()?;
        let published = self.blocks[block.index()].published.take();
        let hash = published.expect("cached blocks are reusable").hash;
        self.reusable.remove(&hash);
        self.evictions += 1;
        self.record_removed(hash);
        Some(block)
    }

    fn record_removed(&mut self, hash: BlockHash) {
        if let Some(KvEvent::Removed { blocks }) = self.events.last_mut() {
            blocks.push(hash);
        } else {
            self.events.push(KvEvent::Removed { blocks: vec![hash] });
        }
    }

    /// A run of blocks that follow one another becomes a single event.
    fn record_stored(&mut self, parent: Option<BlockHash>, stored: StoredBlock) {
        if let Some(KvEvent::Stored { blocks, .. }) = self.events.last_mut()
            && parent.is_some()
            && blocks.last().map(|block| block.hash) == parent
        {
            blocks.push(stored);
            return;
        }
        self.events.push(KvEvent::Stored {
            parent,
            blocks: vec![stored],
        });
    }
}

/// Block hashes are already well mixed; hashing them again would only cost time.
#[derive(Debug, Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
