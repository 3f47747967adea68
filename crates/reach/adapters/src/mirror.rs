//! What an engine holds, by our names, as far as its events tell.
//!
//! An event names a block by the engine's own hash and carries the block's tokens; we compute
//! our hash from the tokens and the parent's and remember which is which, for the children and
//! for the removal. Two things are kept apart: how a block is called, which stays true, and
//! whether the engine holds it, which does not.
//!
//! # Guarantees
//!
//! - **Never more than was told.** A block counts as held after an event stored it and until
//!   one removes it, or until something was missed. A block whose parent is not known has no
//!   name and is left out; so is one that depends on more than its tokens.
//! - **Bounded.** At most [`MOST_NAMES`] names; an engine that exceeds it is forgotten and
//!   learned anew.
//! - **Once.** An engine that holds two copies of a block and loses one is taken at its word:
//!   the block is gone. That errs on the side of computing again.

use std::collections::{HashMap, HashSet};

use contract::{BlockHash, HashSeed, KvEvent, LocalHash, StoredBlock};

use crate::chain::Cut;
use crate::wire::{Block, EngineEvent, EngineHash, Ignored, Key, Stored};

/// More blocks than any engine holds.
pub const MOST_NAMES: usize = 1 << 22;
/// So many short blocks before the first full one are no coincidence.
const MOST_SHORT: u32 = 16;
/// Kinds of layers that a model may have.
const MOST_GROUPS: usize = 64;

/// Why the engine's blocks are of no use to the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    #[error(
        "its blocks have {engine} tokens and the router's {router}: start it with the same size of block, or the frontend with --kv-cache-block-size {engine}"
    )]
    BlockSize { engine: usize, router: usize },
    #[error(
        "its names of blocks cover {engine} token(s) after a block and the router's {router}: start the frontend with --kv-hash-lookahead {engine}"
    )]
    Lookahead { engine: usize, router: usize },
}

/// What became of events, since the last look.
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
    /// Removed, and never heard of.
    pub unknown_block: u64,
    /// Everything was forgotten because there were too many names.
    pub overflows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    block: StoredBlock,
    seed: HashSeed,
}

#[derive(Debug)]
pub struct Mirror {
    cut: Cut,
    names: HashMap<EngineHash, Named>,
    /// The other way round, for what an answer confirms.
    engine_names: HashMap<BlockHash, EngineHash>,
    held: HashSet<BlockHash>,
    /// Groups of layers that do not count.
    other_groups: HashSet<u64>,
    tally: Tally,
    short_blocks: u32,
    /// A full block has come.
    seen_full: bool,
    /// The engine has said how long its blocks are, and they fit.
    trusted: bool,
}

impl Mirror {
    pub fn new(cut: Cut) -> Self {
        Self {
            cut,
            names: HashMap::new(),
            engine_names: HashMap::new(),
            held: HashSet::new(),
            other_groups: HashSet::new(),
            tally: Tally::default(),
            short_blocks: 0,
            seen_full: false,
            trusted: false,
        }
    }

    /// The engine said at start how long its blocks are, and they fit: a shorter one is a
    /// block that is not full.
    pub fn trust_block_size(&mut self) {
        self.trusted = true;
    }

    pub fn blocks(&self) -> impl Iterator<Item = BlockHash> {
        self.held.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many blocks at the beginning of a chain it holds.
    pub fn overlap(&self, chain: &[StoredBlock]) -> usize {
        let held = chain
            .iter()
            .take_while(|block| self.held.contains(&block.hash));
        held.count()
    }

    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Takes an event in, and says what changed.
    pub fn apply(&mut self, event: &EngineEvent) -> Result<Vec<KvEvent>, Misfit> {
        Ok(match event {
            EngineEvent::Stored(stored) => self.store(stored)?,
            EngineEvent::Removed { hashes, group } => {
                self.remove(hashes, *group).into_iter().collect()
            }
            EngineEvent::Moved { hash, on_gpu } => self.shift(*hash, *on_gpu).into_iter().collect(),
            EngineEvent::Cleared => {
                self.tally.cleared += 1;
                self.reset();
                vec![KvEvent::Cleared]
            }
            EngineEvent::Ignored(Ignored::OtherMedium) => {
                self.tally.other_medium += 1;
                Vec::new()
            }
            EngineEvent::Ignored(Ignored::NoChange) => Vec::new(),
        })
    }

    /// Something was missed: nothing is known to be held. What blocks are called stays true.
    pub fn forget(&mut self) -> KvEvent {
        self.held.clear();
        KvEvent::Cleared
    }

    /// The engine has begun anew, or has forgotten everything itself.
    pub fn reset(&mut self) {
        self.names.clear();
        self.engine_names.clear();
        self.held.clear();
    }

    /// An answer has shown that the engine held these blocks. Those that have a name, so that
    /// their removal will be understood, count as held again.
    pub fn confirm(&mut self, chain: &[StoredBlock]) -> Option<KvEvent> {
        let named = chain
            .iter()
            .take_while(|block| self.engine_names.contains_key(&block.hash));
        let blocks: Vec<StoredBlock> = named
            .filter(|block| self.held.insert(block.hash))
            .copied()
            .collect();
        (!blocks.is_empty()).then_some(KvEvent::Stored {
            parent: None,
            blocks,
        })
    }

    fn store(&mut self, stored: &Stored) -> Result<Vec<KvEvent>, Misfit> {
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
            Some(parent) => match self.names.get(&parent) {
                Some(named) => Some(*named),
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
            (Key::Plain, Some(parent)) => parent.seed,
            (Key::Plain, None) => HashSeed::BASE,
        };
        if self.names.len() + full.len() > MOST_NAMES {
            self.tally.overflows += 1;
            self.reset();
            return Ok(vec![KvEvent::Cleared]);
        }
        let parent = parent.map(|named| named.block.hash);
        Ok(self.name(full, parent, seed))
    }

    /// Gives the blocks our names.
    fn name(
        &mut self,
        blocks: &[Block],
        parent: Option<BlockHash>,
        seed: HashSeed,
    ) -> Vec<KvEvent> {
        let mut named = Vec::with_capacity(blocks.len());
        let mut renamed = Vec::new();
        let mut before_it = parent;
        for block in blocks {
            let local = LocalHash::of(&block.window, seed);
            let hash = BlockHash::after(before_it, local);
            before_it = Some(hash);
            let stored = StoredBlock { hash, local };
            let before = self.names.insert(
                block.hash,
                Named {
                    block: stored,
                    seed,
                },
            );
            if let Some(Named { block: old, .. }) = before
                && old.hash != hash
            {
                // The engine gave the name to another block without a word.
                self.engine_names.remove(&old.hash);
                if self.held.remove(&old.hash) {
                    renamed.push(old.hash);
                }
            }
            self.engine_names.insert(hash, block.hash);
            self.held.insert(hash);
            named.push(stored);
        }
        // A name that comes twice in one event was given to another block at once.
        named.retain(|block| self.held.contains(&block.hash));
        self.tally.stored_blocks += named.len() as u64;
        let mut events = Vec::new();
        if !renamed.is_empty() {
            events.push(KvEvent::Removed { blocks: renamed });
        }
        if !named.is_empty() {
            let blocks = named;
            events.push(KvEvent::Stored { parent, blocks });
        }
        events
    }

    /// The blocks up to the first that is not full. Only the last of a chain can be short.
    fn full_blocks<'a>(&mut self, blocks: &'a [Block]) -> Result<&'a [Block], Misfit> {
        let Cut {
            block_size,
            lookahead,
        } = self.cut;
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
            return Err(Misfit::Lookahead {
                engine: length - block_size,
                router: lookahead,
            });
        }
        self.short_blocks += 1;
        let usual =
            rest.len() > 1 || (!self.seen_full && !self.trusted && self.short_blocks >= MOST_SHORT);
        if length > wanted || usual {
            return Err(Misfit::BlockSize {
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
        let mut blocks = Vec::with_capacity(hashes.len());
        for hash in hashes {
            let Some(named) = self.names.remove(hash) else {
                self.tally.unknown_block += 1;
                continue;
            };
            self.engine_names.remove(&named.block.hash);
            if self.held.remove(&named.block.hash) {
                blocks.push(named.block.hash);
            }
        }
        self.tally.removed_blocks += blocks.len() as u64;
        (!blocks.is_empty()).then_some(KvEvent::Removed { blocks })
    }

    fn shift(&mut self, hash: EngineHash, on_gpu: bool) -> Option<KvEvent> {
        let block = self.names.get(&hash)?.block;
        if on_gpu {
            let blocks = vec![block];
            let parent = None;
            return self
                .held
                .insert(block.hash)
                .then_some(KvEvent::Stored { parent, blocks });
        }
        let blocks = vec![block.hash];
        self.held
            .remove(&block.hash)
            .then_some(KvEvent::Removed { blocks })
    }
}

#[cfg(test)]
mod tests;
