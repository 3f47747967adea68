//! How prompts are divided into blocks, and the blocks' hashes as events need them.

use contract::{BlockHash, HashSeed, LocalHash, StoredBlock, TokenId};

/// How the router divides prompts into blocks. The engine has to do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFormat {
    pub block_size: usize,
    /// Tokens after a block that its hash covers.
    pub lookahead: usize,
}

impl BlockFormat {
    /// The full blocks of a text.
    pub fn chain(self, tokens: &[TokenId], seed: HashSeed) -> Vec<StoredBlock> {
        let mut chain = Vec::with_capacity(tokens.len() / self.block_size.max(1));
        let mut parent = None;
        let mut begin = 0;
        while let Some(window) = tokens.get(begin..begin + self.block_size + self.lookahead) {
            let local = LocalHash::of(window, seed);
            let hash = BlockHash::after(parent, local);
            chain.push(StoredBlock { hash, local });
            parent = Some(hash);
            begin += self.block_size;
        }
        chain
    }

    /// How many blocks of a prompt an engine can reuse at most: the last token is always
    /// computed, because the first of the answer follows from it.
    pub fn reusable(self, prompt_tokens: usize) -> usize {
        prompt_tokens.saturating_sub(1) / self.block_size.max(1)
    }
}

#[cfg(test)]
mod tests {
    use contract::block_chain_ahead;

    use super::*;

    #[test]
    fn the_chain_is_that_of_the_router() {
        let tokens: Vec<TokenId> = (0..50).collect();
        for lookahead in [0, 1] {
            let format = BlockFormat {
                block_size: 8,
                lookahead,
            };
            let seed = HashSeed::new("", "salt");
            let ours = format.chain(&tokens, seed);
            let ours: Vec<BlockHash> = ours.iter().map(|block| block.hash).collect();
            assert_eq!(ours, block_chain_ahead(&tokens, 8, lookahead, seed));
        }
    }

    #[test]
    fn the_last_token_is_always_computed() {
        let format = BlockFormat {
            block_size: 4,
            lookahead: 0,
        };
        let reusable = [0, 1, 4, 5, 8, 9].map(|tokens| format.reusable(tokens));
        assert_eq!(reusable, [0, 0, 0, 1, 1, 2]);
    }
}
