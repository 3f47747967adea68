//! An engine's KV cache in our block hashes.
//!
//! An engine names a block by a hash of its own ([`EngineHash`]), which need not be understood:
//! its events say which block follows which, and which one is removed. Our index needs the hash
//! of the whole prefix ([`contract::block`]). It is computed from the block's own tokens and the
//! hash of the block before it, and remembered under the engine's name for the block's children
//! and for its removal. Two facts are kept apart: which block a name stands for, which stays
//! true, and whether the engine holds it, which does not.
//!
//! # Guarantees
//!
//! - **Events and mirror agree.** A receiver that applies every returned [`KvEvent`] holds what
//!   [`Mirror::blocks`] returns.
//! - **Never more than was reported.** A block counts as held from the event that stored it to
//!   the one that removes it, or until events were lost ([`Mirror::forget`]).
//! - **Bounded.** At most [`MOST_NAMES`] names.
//!
//! # Two names for one block
//!
//! An engine's name may depend on more than the tokens, so that two names can stand for one
//! block of ours. What happens when one of them is removed is the caller's choice:
//! [`SharedBlock`].
//!
//! # Elsewhere
//!
//! Formats, sequence numbers, block sizes and everything else that makes an event acceptable is
//! for the caller, who knows the engine: `adapters` and `dynamo`.

use std::collections::HashMap;

use contract::{BlockHash, KvEvent, LocalHash, StoredBlock};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// More blocks than any engine holds.
pub const MOST_NAMES: usize = 1 << 22;

/// An engine's own name of a block. Names that are strings of bytes are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EngineHash(pub u64);

impl EngineHash {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }
}

/// When a block that has several names is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBlock {
    /// With the first name that is removed.
    ///
    /// For an engine whose lost events cannot be recovered by a dump of its cache. A name whose
    /// removal was lost must not keep a block forever; the price is a block that is computed
    /// again although a second copy was there.
    GoneWithFirstName,
    /// With the last name.
    ///
    /// For an engine that can be asked for a dump. The mirror is then a function of the names
    /// that the engine has, so that a dump and the events that led to it give the same blocks.
    GoneWithLastName,
}

/// A block as an engine reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineBlock {
    pub name: EngineHash,
    /// The hash of its own tokens.
    pub local: LocalHash,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<T> {
    pub block: StoredBlock,
    /// What children inherit.
    pub inherited: T,
}

/// There are more than [`MOST_NAMES`] names. The mirror is empty now, and its receiver has to
/// be told [`KvEvent::Cleared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine has named more than {MOST_NAMES} blocks")]
pub struct TooManyNames;

/// What a removal changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Blocks that are no longer held.
    pub blocks: Vec<BlockHash>,
    /// Names that were not known.
    pub unknown: u64,
}

impl Removal {
    pub fn into_event(self) -> Option<KvEvent> {
        let blocks = self.blocks;
        (!blocks.is_empty()).then_some(KvEvent::Removed { blocks })
    }
}

/// The names by which a block is held. Empty if it is held by a name that is not known.
type Holders = SmallVec<[EngineHash; 1]>;

/// One engine's blocks. `T` is what a block's children inherit from it.
#[derive(Debug)]
pub struct Mirror<T> {
    shared_block: SharedBlock,
    names: HashMap<EngineHash, Named<T>>,
    /// How many names a block has.
    name_counts: HashMap<BlockHash, u32>,
    held: HashMap<BlockHash, Holders>,
}

impl<T: Copy> Mirror<T> {
    pub fn new(shared_block: SharedBlock) -> Self {
        Self {
            shared_block,
            names: HashMap::new(),
            name_counts: HashMap::new(),
            held: HashMap::new(),
        }
    }

    /// What a name stands for, whether the engine holds it or not.
    pub fn named(&self, name: EngineHash) -> Option<Named<T>> {
        self.names.get(&name).copied()
    }

    /// The blocks that the engine holds, in any order.
    pub fn blocks(&self) -> impl Iterator<Item = BlockHash> {
        self.held.keys().copied()
    }

    pub fn holds(&self, block: BlockHash) -> bool {
        self.held.contains_key(&block)
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Stores blocks that follow each other, the first after `parent`. Returns the changes:
    /// blocks that lost their name to another, then those that were stored.
    pub fn store(
        &mut self,
        parent: Option<BlockHash>,
        blocks: impl ExactSizeIterator<Item = EngineBlock>,
        inherited: T,
    ) -> Result<Vec<KvEvent>, TooManyNames> {
        if self.names.len() + blocks.len() > MOST_NAMES {
            self.clear();
            return Err(TooManyNames);
        }
        let mut stored = Vec::with_capacity(blocks.len());
        let mut renamed = Vec::new();
        let mut before = parent;
        for EngineBlock { name, local } in blocks {
            let hash = BlockHash::after(before, local);
            before = Some(hash);
            let block = StoredBlock { hash, local };
            renamed.extend(self.name(name, Named { block, inherited }));
            self.hold(hash, name);
            stored.push(block);
        }
        // A name that occurs twice among the blocks belongs to the last of them.
        stored.retain(|block| self.holds(block.hash));
        let renamed = Removal {
            blocks: renamed,
            unknown: 0,
        };
        let mut events: Vec<KvEvent> = renamed.into_event().into_iter().collect();
        if !stored.is_empty() {
            let blocks = stored;
            events.push(KvEvent::Stored { parent, blocks });
        }
        Ok(events)
    }

    /// Removes names, and with them the blocks that they stood for.
    pub fn remove(&mut self, names: impl IntoIterator<Item = EngineHash>) -> Removal {
        let mut removal = Removal::default();
        for name in names {
            match self.names.remove(&name) {
                Some(named) => removal.blocks.extend(self.unname(name, named.block.hash)),
                None => removal.unknown += 1,
            }
        }
        removal
    }

    /// The engine has moved a block out of its fast memory. The name stays.
    pub fn move_out(&mut self, name: EngineHash) -> Option<KvEvent> {
        let block = self.named(name)?.block.hash;
        let gone = self.release(block, name)?;
        let blocks = vec![gone];
        Some(KvEvent::Removed { blocks })
    }

    /// The engine has moved a block back into its fast memory.
    pub fn move_in(&mut self, name: EngineHash) -> Option<KvEvent> {
        let block = self.named(name)?.block;
        let is_new = !self.holds(block.hash);
        self.hold(block.hash, name);
        let (parent, blocks) = (None, vec![block]);
        is_new.then_some(KvEvent::Stored { parent, blocks })
    }

    /// The engine was seen to hold these blocks. Up to the first without a name, whose removal
    /// would not be noticed, they count as held again.
    pub fn confirm(&mut self, chain: &[StoredBlock]) -> Option<KvEvent> {
        let named = chain
            .iter()
            .take_while(|block| self.name_counts.contains_key(&block.hash));
        let missing = named.filter(|block| !self.held.contains_key(&block.hash));
        let blocks: Vec<StoredBlock> = missing.copied().collect();
        for block in &blocks {
            self.held.insert(block.hash, Holders::new());
        }
        let parent = None;
        (!blocks.is_empty()).then_some(KvEvent::Stored { parent, blocks })
    }

    /// Events were lost: no block is known to be held. What names stand for stays true.
    pub fn forget(&mut self) -> KvEvent {
        self.held.clear();
        KvEvent::Cleared
    }

    /// The engine has cleared its cache or has restarted.
    pub fn clear(&mut self) -> KvEvent {
        self.names.clear();
        self.name_counts.clear();
        self.forget()
    }

    /// Gives a name to a block. Returns the block that had it, if that is gone now.
    fn name(&mut self, name: EngineHash, named: Named<T>) -> Option<BlockHash> {
        let hash = named.block.hash;
        let previous = self.names.insert(name, named);
        let previous = previous.map(|previous| previous.block.hash);
        if previous == Some(hash) {
            return None;
        }
        *self.name_counts.entry(hash).or_default() += 1;
        previous.and_then(|previous| self.unname(name, previous))
    }

    /// A block has lost a name. Returns the block if it is gone now.
    fn unname(&mut self, name: EngineHash, block: BlockHash) -> Option<BlockHash> {
        if let Some(count) = self.name_counts.get_mut(&block) {
            *count -= 1;
            if *count == 0 {
                self.name_counts.remove(&block);
            }
        }
        self.release(block, name)
    }

    fn hold(&mut self, block: BlockHash, name: EngineHash) {
        let holders = self.held.entry(block).or_default();
        if !holders.contains(&name) {
            holders.push(name);
        }
    }

    /// A block is no longer held by a name. Returns the block if it is gone now.
    fn release(&mut self, block: BlockHash, name: EngineHash) -> Option<BlockHash> {
        let holders = self.held.get_mut(&block)?;
        holders.retain(|holder| *holder != name);
        let gone = match self.shared_block {
            SharedBlock::GoneWithFirstName => true,
            SharedBlock::GoneWithLastName => holders.is_empty(),
        };
        gone.then(|| {
            self.held.remove(&block);
            block
        })
    }
}

#[cfg(test)]
mod tests;
