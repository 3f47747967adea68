//! What an engine holds, in our block hashes, as far as its events report it.
//!
//! An event names blocks by the engine's own hashes and carries their tokens. Which events
//! count is decided here: those of full blocks in the router's format, of layers that see the
//! whole text, and of blocks that depend on nothing but their tokens and a salt of ours. The
//! translation into our hashes is [`block_mirror::Mirror`]'s.
//!
//! # Guarantees
//!
//! - **Never more than was reported.** A block whose parent is unknown has no hash of ours and
//!   is left out; so is one that depends on more than its tokens.
//! - **A wrong block format is an error.** An engine with blocks of another size, or with names
//!   that cover more tokens than ours, is of no use to the router.
//! - **Pessimistic about copies.** An engine that holds a block under two names and removes one
//!   is assumed to have removed the block: its events can be lost for good, and a name whose
//!   removal was lost must not keep the block forever.

use std::collections::HashSet;

use block_mirror::{EngineBlock, Mirror, SharedBlock, TooManyNames};
use contract::{BlockFormat, BlockHash, HashSeed, KvEvent, LocalHash, StoredBlock};

use crate::wire::{Block, EngineEvent, EngineHash, Ignored, Key, Stored};

pub use block_mirror::MOST_NAMES;

/// So many short blocks before the first full one mean another block size.
const MOST_SHORT: u32 = 16;
/// The most groups of layers that are remembered as irrelevant.
const MOST_GROUPS: usize = 64;

/// Why the router cannot use the engine's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatMismatch {
    #[error(
        "its blocks have {engine} tokens and the router's {router}: start it with the router's block size, or the frontend with --kv-cache-block-size {engine}"
    )]
    BlockSize { engine: usize, router: usize },
    #[error(
        "its block hashes cover {engine} token(s) after a block and the router's {router}: start the frontend with --kv-hash-lookahead {engine}"
    )]
    Lookahead { engine: usize, router: usize },
}

/// How events were handled, since the last call of [`EngineCache::take_tally`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub stored_blocks: u64,
    pub removed_blocks: u64,
    pub cleared: u64,
    pub unknown_parent: u64,
    pub other_medium: u64,
    pub other_group: u64,
    pub other_key: u64,
    pub partial: u64,
    /// Removed without having been stored.
    pub unknown_block: u64,
    /// The cache was cleared because there were too many names.
    pub overflows: u64,
}

/// One engine's cache.
#[derive(Debug)]
pub struct EngineCache {
    format: BlockFormat,
    /// Children inherit the seed, because an engine reports a salt only with the first block.
    mirror: Mirror<HashSeed>,
    /// Groups of layers that see only a part of the text.
    other_groups: HashSet<u64>,
    tally: Tally,
    short_blocks: u32,
    /// A full block has been stored.
    seen_full: bool,
    /// The engine has reported the size of its blocks, and it is the router's.
    trusted: bool,
}

impl EngineCache {
    pub fn new(format: BlockFormat) -> Self {
        Self {
            format,
            mirror: Mirror::new(SharedBlock::GoneWithFirstName),
            other_groups: HashSet::new(),
            tally: Tally::default(),
            short_blocks: 0,
            seen_full: false,
            trusted: false,
        }
    }

    /// The engine has reported the size of its blocks, and it is the router's: a shorter block
    /// is one that is not full.
    pub fn trust_block_size(&mut self) {
        self.trusted = true;
    }

    pub fn blocks(&self) -> impl Iterator<Item = BlockHash> {
        self.mirror.blocks()
    }

    pub fn len(&self) -> usize {
        self.mirror.len()
    }

    pub fn is_empty(&self) -> bool {
        self.mirror.is_empty()
    }

    /// How many leading blocks of a chain the engine holds.
    pub fn overlap(&self, chain: &[StoredBlock]) -> usize {
        let held = chain
            .iter()
            .take_while(|block| self.mirror.holds(block.hash));
        held.count()
    }

    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Applies an event, and returns the changes for the router.
    pub fn apply(&mut self, event: &EngineEvent) -> Result<Vec<KvEvent>, FormatMismatch> {
        Ok(match event {
            EngineEvent::Stored(stored) => self.store(stored)?,
            EngineEvent::Removed { hashes, group } => {
                self.remove(hashes, *group).into_iter().collect()
            }
            EngineEvent::Moved { hash, on_gpu } => {
                let moved = if *on_gpu {
                    self.mirror.move_in(*hash)
                } else {
                    self.mirror.move_out(*hash)
                };
                moved.into_iter().collect()
            }
            EngineEvent::Cleared => {
                self.tally.cleared += 1;
                vec![self.mirror.clear()]
            }
            EngineEvent::Ignored(Ignored::OtherMedium) => {
                self.tally.other_medium += 1;
                Vec::new()
            }
            EngineEvent::Ignored(Ignored::NoChange) => Vec::new(),
        })
    }

    /// Events were lost: no block is known to be held.
    pub fn forget(&mut self) -> KvEvent {
        self.mirror.forget()
    }

    /// The engine has restarted, or its cache has been cleared.
    pub fn reset(&mut self) {
        self.mirror.clear();
    }

    /// An answer has shown that the engine held these blocks.
    pub fn confirm(&mut self, chain: &[StoredBlock]) -> Option<KvEvent> {
        self.mirror.confirm(chain)
    }

    fn store(&mut self, stored: &Stored) -> Result<Vec<KvEvent>, FormatMismatch> {
        if stored.group.windowed {
            if let Some(group) = stored.group.index
                && self.other_groups.len() < MOST_GROUPS
            {
                self.other_groups.insert(group);
            }
            self.tally.other_group += 1;
            return Ok(Vec::new());
        }
        let full = self.full_blocks(&stored.blocks)?;
        let parent = match stored.parent {
            None => None,
            Some(parent) => match self.mirror.named(parent) {
                Some(named) => Some(named),
                None => {
                    self.tally.unknown_parent += full.len() as u64;
                    return Ok(Vec::new());
                }
            },
        };
        let seed = match (stored.key, parent) {
            (Key::Foreign, _) => {
                self.tally.other_key += full.len() as u64;
                return Ok(Vec::new());
            }
            (Key::Ours(seed), _) => seed,
            (Key::Plain, Some(parent)) => parent.inherited,
            (Key::Plain, None) => HashSeed::BASE,
        };
        let parent = parent.map(|named| named.block.hash);
        let blocks = full.iter().map(|block| EngineBlock {
            name: block.hash,
            local: LocalHash::of(&block.window, seed),
        });
        match self.mirror.store(parent, blocks, seed) {
            Ok(events) => {
                self.tally.stored_blocks += events.iter().map(stored_blocks).sum::<u64>();
                Ok(events)
            }
            Err(TooManyNames) => {
                self.tally.overflows += 1;
                Ok(vec![KvEvent::Cleared])
            }
        }
    }

    /// The blocks up to the first that is not full. Only the last one of a chain can be short.
    fn full_blocks<'a>(&mut self, blocks: &'a [Block]) -> Result<&'a [Block], FormatMismatch> {
        let block_size = self.format.size as usize;
        let lookahead = self.format.hashing.lookahead as usize;
        let wanted = block_size + lookahead;
        let full = blocks
            .iter()
            .take_while(|block| block.window.len() == wanted)
            .count();
        let (full, rest) = blocks.split_at(full);
        self.seen_full |= !full.is_empty();
        let Some(odd) = rest.first() else {
            return Ok(full);
        };
        let length = odd.window.len();
        let ahead = lookahead == 0 && length == block_size + 1;
        let behind = lookahead == 1 && length == block_size && !self.seen_full;
        if ahead || behind {
            return Err(FormatMismatch::Lookahead {
                engine: length - block_size,
                router: lookahead,
            });
        }
        self.short_blocks += 1;
        let usual =
            rest.len() > 1 || (!self.seen_full && !self.trusted && self.short_blocks >= MOST_SHORT);
        if length > wanted || usual {
            return Err(FormatMismatch::BlockSize {
                engine: length,
                router: block_size,
            });
        }
        self.tally.partial += rest.len() as u64;
        Ok(full)
    }

    fn remove(&mut self, hashes: &[EngineHash], group: Option<u64>) -> Option<KvEvent> {
        if group.is_some_and(|group| self.other_groups.contains(&group)) {
            self.tally.other_group += 1;
            return None;
        }
        let removal = self.mirror.remove(hashes.iter().copied());
        self.tally.unknown_block += removal.unknown;
        self.tally.removed_blocks += removal.blocks.len() as u64;
        removal.into_event()
    }
}

fn stored_blocks(event: &KvEvent) -> u64 {
    match event {
        KvEvent::Stored { blocks, .. } => blocks.len() as u64,
        KvEvent::Removed { .. } | KvEvent::Cleared => 0,
    }
}

#[cfg(test)]
mod tests;
