//! What an engine has processed for one frontend, for others that use the same engine.

use std::sync::Arc;

use crate::block::{BlockHash, LocalHash, StoredBlock};
use crate::worker::{ModelName, WorkerId};

/// A prompt and its answer, by the hashes of their full blocks.
///
/// An engine that publishes no cache events is known only by what was sent to it, and each frontend
/// knows what it sent itself. The same hashes mean the same tokens only where blocks have the same size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processed {
    pub model: ModelName,
    pub worker: WorkerId,
    pub block_size: u32,
    /// From the beginning of the prompt.
    pub blocks: Arc<[LocalHash]>,
}

impl Processed {
    /// The first `most` blocks as they are found again.
    pub fn chain(&self, most: usize) -> Vec<StoredBlock> {
        let mut parent = None;
        let chained = self.blocks.iter().take(most).map(|local| {
            let hash = BlockHash::after(parent, *local);
            parent = Some(hash);
            StoredBlock {
                hash,
                local: *local,
            }
        });
        chained.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{HashSeed, block_chain};

    #[test]
    fn the_chain_follows_from_the_local_hashes() {
        let tokens: Vec<u32> = (1..=12).collect();
        let local = tokens.chunks(4);
        let processed = Processed {
            model: ModelName::new("m"),
            worker: WorkerId(1),
            block_size: 4,
            blocks: local
                .map(|block| LocalHash::of(block, HashSeed::BASE))
                .collect(),
        };
        let chain = |most| -> Vec<BlockHash> {
            let chain = processed.chain(most);
            chain.iter().map(|block| block.hash).collect()
        };
        let whole = block_chain(&tokens, 4, HashSeed::BASE);
        assert_eq!(chain(3), whole);
        assert_eq!(chain(2), whole[..2]);
    }
}
