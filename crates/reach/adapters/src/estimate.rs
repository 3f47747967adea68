//! Estimates what an engine without cache events holds, from what was sent to it.
//!
//! An engine that has answered holds the blocks of the prompt and the answer until it needs
//! their memory. The estimate keeps a given number of blocks and evicts the least recently used,
//! the end of a chain before its beginning. If an answer reports fewer cached tokens than
//! expected, the engine has evicted the first block that was missing, and so everything that
//! was used before that block.

use std::collections::{BTreeMap, HashMap, HashSet};

use contract::{BlockHash, KvEvent, StoredBlock};

/// Blocks of an engine that does not report how many it has.
pub const USUAL_BLOCKS: usize = 50_000;

#[derive(Debug)]
pub struct Estimate {
    most: usize,
    /// When a block was last used. No two at once.
    used: HashMap<BlockHash, u64>,
    by_use: BTreeMap<u64, BlockHash>,
    now: u64,
}

impl Estimate {
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            used: HashMap::new(),
            by_use: BTreeMap::new(),
            now: 0,
        }
    }

    pub fn blocks(&self) -> impl Iterator<Item = BlockHash> {
        self.used.keys().copied()
    }

    pub fn len(&self) -> usize {
        self.used.len()
    }

    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// How many leading blocks of a chain the engine is estimated to hold.
    pub fn overlap(&self, chain: &[StoredBlock]) -> usize {
        let held = chain
            .iter()
            .take_while(|block| self.used.contains_key(&block.hash));
        held.count()
    }

    /// The engine had only `cached` blocks of this chain. Returns what it has evicted.
    pub fn correct(&mut self, chain: &[StoredBlock], cached: usize) -> Option<KvEvent> {
        let missing = chain.get(cached)?;
        let last_use = *self.used.get(&missing.hash)?;
        let older = self.by_use.range(..=last_use);
        // The blocks that were found are there, however long ago they were used.
        let found: HashSet<BlockHash> = chain[..cached].iter().map(|block| block.hash).collect();
        let gone = older
            .map(|(_, hash)| *hash)
            .filter(|hash| !found.contains(hash));
        let gone: Vec<BlockHash> = gone.collect();
        self.drop_all(&gone);
        (!gone.is_empty()).then_some(KvEvent::Removed { blocks: gone })
    }

    /// The engine has processed this chain. Returns what is new and what was evicted for it.
    pub fn answered(&mut self, chain: &[StoredBlock]) -> Vec<KvEvent> {
        // The engine cannot hold the whole of a chain that is longer than its memory.
        let chain = &chain[..chain.len().min(self.most)];
        let mut new = Vec::new();
        for block in chain.iter().rev() {
            self.now += 1;
            match self.used.insert(block.hash, self.now) {
                Some(before) => {
                    self.by_use.remove(&before);
                }
                None => new.push(*block),
            }
            self.by_use.insert(self.now, block.hash);
        }
        new.reverse();
        let mut gone = Vec::new();
        while self.used.len() > self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
            gone.push(oldest);
        }
        let mut events = Vec::new();
        if !gone.is_empty() {
            events.push(KvEvent::Removed { blocks: gone });
        }
        if !new.is_empty() {
            let blocks = new;
            events.push(KvEvent::Stored {
                parent: None,
                blocks,
            });
        }
        events
    }

    pub fn clear(&mut self) {
        self.used.clear();
        self.by_use.clear();
    }

    fn drop_all(&mut self, blocks: &[BlockHash]) {
        for hash in blocks {
            if let Some(used) = self.used.remove(hash) {
                self.by_use.remove(&used);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::LocalHash;
    use proptest::prelude::*;

    use super::*;

    fn chain(hashes: &[u64]) -> Vec<StoredBlock> {
        let block = |hash: &u64| StoredBlock {
            hash: BlockHash(*hash),
            local: LocalHash(*hash),
        };
        hashes.iter().map(block).collect()
    }

    fn names(hashes: &[u64]) -> Vec<BlockHash> {
        hashes.iter().copied().map(BlockHash).collect()
    }

    #[test]
    fn what_was_answered_is_there_and_the_oldest_ends_go_first() {
        let mut estimate = Estimate::new(4);
        estimate.answered(&chain(&[1, 2, 3]));
        assert_eq!(estimate.overlap(&chain(&[1, 2, 3, 4])), 3);
        let events = estimate.answered(&chain(&[1, 5, 6]));
        let blocks = names(&[3]);
        assert_eq!(events[0], KvEvent::Removed { blocks });
        assert_eq!(estimate.overlap(&chain(&[1, 2, 3])), 2);
        assert_eq!(estimate.len(), 4);
    }

    #[test]
    fn a_missing_block_takes_everything_older_with_it() {
        let mut estimate = Estimate::new(100);
        estimate.answered(&chain(&[1, 2]));
        estimate.answered(&chain(&[1, 3, 4]));
        estimate.answered(&chain(&[1, 5]));
        // 3 is gone, so 2 and 4, which were used before it, are too.
        let gone = estimate.correct(&chain(&[1, 3, 4]), 1);
        let Some(KvEvent::Removed { mut blocks }) = gone else {
            panic!("nothing went");
        };
        blocks.sort();
        assert_eq!(blocks, names(&[2, 3, 4]));
        assert_eq!(estimate.overlap(&chain(&[1, 5])), 2);
        assert_eq!(estimate.correct(&chain(&[9]), 0), None);
        assert_eq!(estimate.correct(&chain(&[1]), 1), None);
    }

    proptest! {
        #[test]
        fn a_follower_of_the_events_has_the_same_blocks(
            most in 1_usize..20,
            steps in prop::collection::vec((prop::collection::vec(0_u64..30, 1..8), 0_usize..8), 0..40),
        ) {
            let mut estimate = Estimate::new(most);
            let mut follower: HashSet<BlockHash> = HashSet::new();
            for (hashes, cached) in steps {
                let mut seen = HashSet::new();
                let hashes: Vec<u64> = hashes.into_iter().filter(|hash| seen.insert(*hash)).collect();
                let chain = chain(&hashes);
                let mut events: Vec<KvEvent> = estimate.correct(&chain, cached).into_iter().collect();
                events.extend(estimate.answered(&chain));
                for event in events {
                    match event {
                        KvEvent::Stored { blocks, .. } => follower.extend(blocks.iter().map(|block| block.hash)),
                        KvEvent::Removed { blocks } => for block in blocks { follower.remove(&block); },
                        KvEvent::Cleared => follower.clear(),
                    }
                }
                prop_assert!(estimate.len() <= most);
                prop_assert_eq!(&follower, &estimate.blocks().collect::<HashSet<_>>());
                prop_assert_eq!(estimate.used.len(), estimate.by_use.len());
            }
        }
    }
}
