//! An engine's events, valid or not, applied to the cache that follows them.
//!
//! Asserts after each event that a follower of the returned changes holds what the cache
//! holds; that nothing is held which no event stored; and at the end that an engine which
//! removes everything it ever named leaves nothing.

use std::collections::HashSet;

use adapters::engine_cache::{EngineCache, MOST_NAMES};
use adapters::wire::{EngineEvent, EngineHash};
use contract::{BlockFormat, BlockHash, HashSeed, Hashing, KvEvent};

/// A cache, and a router that follows its changes.
#[derive(Debug)]
struct Cache {
    cache: EngineCache,
    follower: HashSet<BlockHash>,
    /// Every name that the engine gave, and every block that was ever stored.
    names: HashSet<EngineHash>,
    stored: HashSet<BlockHash>,
}

/// Applies events to a cache. `plan` chooses the size of blocks and when something is missed
/// in between.
pub fn check<'a>(plan: u8, events: impl Iterator<Item = &'a EngineEvent>) {
    let format = BlockFormat {
        size: [4, 2, 1, 16][usize::from(plan & 3)],
        hashing: Hashing {
            lookahead: u32::from(plan >> 2 & 1),
            ..Hashing::default()
        },
    };
    let mut cache = Cache {
        cache: EngineCache::new(format),
        follower: HashSet::new(),
        names: HashSet::new(),
        stored: HashSet::new(),
    };
    if plan & 8 != 0 {
        cache.cache.trust_block_size();
    }
    let miss_every = usize::from(plan >> 4);
    for (number, event) in events.enumerate() {
        cache.take(event);
        if miss_every > 0 && number % miss_every == miss_every - 1 {
            cache.miss_and_confirm(format, event);
        }
    }
    cache.remove_everything();
}

impl Cache {
    fn take(&mut self, event: &EngineEvent) {
        if let EngineEvent::Stored(stored) = event {
            self.names
                .extend(stored.blocks.iter().map(|block| block.hash));
        }
        // What does not fit changes nothing, and the next event may come all the same.
        if let Ok(changes) = self.cache.apply(event) {
            changes.iter().for_each(|change| self.follow(change));
        }
        self.compare();
        let tally = self.cache.take_tally();
        assert!(tally.removed_blocks <= MOST_NAMES as u64);
    }

    /// Something was missed; then an answer shows that the engine has a prompt after all.
    fn miss_and_confirm(&mut self, format: BlockFormat, event: &EngineEvent) {
        let forgotten = self.cache.forget();
        self.follow(&forgotten);
        self.compare();
        let EngineEvent::Stored(stored) = event else {
            return;
        };
        let tokens = stored.blocks.iter().flat_map(|block| &block.window);
        let tokens: Vec<_> = tokens.copied().collect();
        let chain = format.stored_chain(&tokens, HashSeed::BASE);
        if let Some(confirmed) = self.cache.confirm(&chain) {
            self.follow(&confirmed);
        }
        self.compare();
        assert!(self.cache.overlap(&chain) <= chain.len());
    }

    fn follow(&mut self, change: &KvEvent) {
        match change {
            KvEvent::Stored { blocks, .. } => {
                self.follower.extend(blocks.iter().map(|block| block.hash));
                self.stored.extend(blocks.iter().map(|block| block.hash));
            }
            KvEvent::Removed { blocks } => {
                for block in blocks {
                    self.follower.remove(block);
                }
            }
            KvEvent::Cleared => self.follower.clear(),
        }
    }

    fn compare(&self) {
        let held: HashSet<BlockHash> = self.cache.blocks().collect();
        assert_eq!(self.cache.len(), held.len());
        assert_eq!(
            self.follower, held,
            "a follower of the events, and the cache"
        );
        assert!(held.is_subset(&self.stored));
        assert!(held.len() <= self.names.len().min(MOST_NAMES));
    }

    fn remove_everything(mut self) {
        let hashes = self.names.iter().copied().collect();
        let group = None;
        self.take(&EngineEvent::Removed { hashes, group });
        assert!(self.cache.is_empty(), "still held: {:?}", self.follower);
    }
}
