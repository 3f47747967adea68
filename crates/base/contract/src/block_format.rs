//! How texts are divided into blocks, and how blocks are hashed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::block::{BlockHash, HashSeed, LocalHash, StoredBlock, block_chain_ahead};

/// How a text is divided into blocks and how they are hashed. A router and its workers must
/// agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockFormat {
    /// Tokens per block; not 0.
    #[serde(rename = "block_size")]
    pub size: u32,
    pub hashing: Hashing,
}

impl BlockFormat {
    /// Blocks of so many tokens, hashed as usual.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            hashing: Hashing::default(),
        }
    }

    /// Hashes of the full blocks of a text.
    pub fn chain(self, tokens: &[u32], seed: HashSeed) -> Vec<BlockHash> {
        let Self { size, hashing } = self;
        block_chain_ahead(tokens, size as usize, hashing.lookahead as usize, seed)
    }

    /// The full blocks of a text, as events report them.
    pub fn stored_chain(self, tokens: &[u32], seed: HashSeed) -> Vec<StoredBlock> {
        let (size, lookahead) = (self.size as usize, self.hashing.lookahead as usize);
        let mut chain = Vec::with_capacity(tokens.len() / size);
        let mut parent = None;
        let mut begin = 0;
        while let Some(window) = tokens.get(begin..begin + size + lookahead) {
            let local = LocalHash::of(window, seed);
            let hash = BlockHash::after(parent, local);
            chain.push(StoredBlock { hash, local });
            parent = Some(hash);
            begin += size;
        }
        chain
    }

    /// How many blocks of a prompt an engine can reuse at most: the last token is always
    /// computed, because the first of the answer follows from it.
    pub fn reusable(self, prompt_tokens: usize) -> usize {
        prompt_tokens.saturating_sub(1) / self.size as usize
    }
}

/// How tokens become the hashes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashing {
    /// Of the scheme in [`crate::block`].
    pub version: u32,
    /// Tokens after a block that its name covers too: 1 where a draft head computes a token
    /// from the one that follows it, otherwise 0.
    pub lookahead: u32,
}

impl Default for Hashing {
    fn default() -> Self {
        Self {
            version: crate::block::HASH_VERSION,
            lookahead: 0,
        }
    }
}

impl fmt::Display for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}, lookahead {}", self.version, self.lookahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_blocks_have_the_hashes_of_the_chain() {
        let tokens: Vec<u32> = (0..50).collect();
        for lookahead in [0, 1] {
            let hashing = Hashing {
                lookahead,
                ..Hashing::default()
            };
            let format = BlockFormat { size: 8, hashing };
            let seed = HashSeed::new("", "salt");
            let stored = format.stored_chain(&tokens, seed);
            let stored: Vec<BlockHash> = stored.iter().map(|block| block.hash).collect();
            assert_eq!(stored, format.chain(&tokens, seed));
            assert_eq!(stored.len(), 6);
        }
    }

    #[test]
    fn the_last_token_is_always_computed() {
        let format = BlockFormat::new(4);
        let reusable = [0, 1, 4, 5, 8, 9].map(|tokens| format.reusable(tokens));
        assert_eq!(reusable, [0, 0, 0, 1, 1, 2]);
    }
}
