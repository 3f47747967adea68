//! How a prompt becomes a chain of block hashes.
//!
//! A block is `block_size` consecutive tokens. Its *local* hash covers its own tokens; its
//! *sequence* hash also covers every block before it, so one 64-bit number names a whole
//! prefix and the router's index can be a flat map. The scheme is NVIDIA Dynamo's, bit for
//! bit, so that genuine Dynamo workers and ours speak of the same blocks:
//!
//! ```text
//! local[i] = xxh3_64(tokens of block i as little-endian u32, seed)
//! seq[0]   = local[0]
//! seq[i]   = xxh3_64(seq[i-1] as LE u64 ‖ local[i] as LE u64, 1337)
//! ```
//!
//! Only full blocks have a hash. Where a draft head looks one token ahead, a block's local
//! hash covers the token after it too, and a block is full once that token is there. The hash is advisory: it routes. A worker compares the
//! tokens themselves before it reuses a block, so a collision can misroute a request but
//! never show it another prompt's cache.

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Version of the block hash. It changes whenever equal tokens would get a different hash.
pub const HASH_VERSION: u32 = 1;

/// Dynamo's seed. Fixed by its wire format.
const CHAIN_SEED: u64 = 1337;

/// Hash of one block's own tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalHash(pub u64);

/// Sequence hash: names a block together with everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct BlockHash(pub u64);

/// What separates caches that must not be shared although their tokens are equal.
///
/// The model is deliberately absent: Dynamo leaves it out too, and a router pool holds
/// workers of one model only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashSeed(u64);

impl HashSeed {
    /// The plain model: no adapter, no salt.
    pub const BASE: Self = Self(CHAIN_SEED);

    /// The seed for an adapter and a cache salt; empty strings count as absent.
    pub fn new(adapter: &str, salt: &str) -> Self {
        let mut seed = CHAIN_SEED;
        if !adapter.is_empty() {
            seed = seed.wrapping_add(xxh3_64_with_seed(adapter.as_bytes(), 0));
        }
        if !salt.is_empty() {
            seed = seed.wrapping_add(xxh3_64_with_seed(salt.as_bytes(), 1));
        }
        Self(seed)
    }

    /// Further apart: by a salt that is not the request's to choose. Not the same as any salt
    /// that a request may send.
    #[must_use]
    pub fn within(self, salt: &str) -> Self {
        Self(self.0.wrapping_add(xxh3_64_with_seed(salt.as_bytes(), 2)))
    }

    /// The hash as it is sent over the wire.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl LocalHash {
    /// Hashes the tokens of one full block.
    pub fn of(tokens: &[u32], seed: HashSeed) -> Self {
        // 64 tokens cover every block size in use; longer blocks take the slow path.
        let mut bytes = [0_u8; 256];
        if tokens.len() * 4 <= bytes.len() {
            for (slot, token) in bytes.chunks_exact_mut(4).zip(tokens) {
                slot.copy_from_slice(&token.to_le_bytes());
            }
            return Self(xxh3_64_with_seed(&bytes[..tokens.len() * 4], seed.0));
        }
        let bytes: Vec<u8> = tokens
            .iter()
            .flat_map(|token| token.to_le_bytes())
            .collect();
        Self(xxh3_64_with_seed(&bytes, seed.0))
    }
}

impl BlockHash {
    /// The hash of a block with local hash `local` that follows `parent`.
    pub fn after(parent: Option<BlockHash>, local: LocalHash) -> Self {
        let Some(parent) = parent else {
            return Self(local.0);
        };
        let mut bytes = [0_u8; 16];
        bytes[..8].copy_from_slice(&parent.0.to_le_bytes());
        bytes[8..].copy_from_slice(&local.0.to_le_bytes());
        Self(xxh3_64_with_seed(&bytes, CHAIN_SEED))
    }
}

/// A reusable block: both hashes, so that either end can check the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    pub hash: BlockHash,
    pub local: LocalHash,
}

/// Sequence hashes of all full blocks of `tokens`.
pub fn block_chain(tokens: &[u32], block_size: usize, seed: HashSeed) -> Vec<BlockHash> {
    block_chain_ahead(tokens, block_size, 0, seed)
}

/// Sequence hashes where each block's hash covers `lookahead` tokens after it as well.
pub fn block_chain_ahead(
    tokens: &[u32],
    block_size: usize,
    lookahead: usize,
    seed: HashSeed,
) -> Vec<BlockHash> {
    let mut chain = Vec::with_capacity(tokens.len() / block_size);
    let mut parent = None;
    let mut begin = 0;
    while let Some(window) = tokens.get(begin..begin + block_size + lookahead) {
        let hash = BlockHash::after(parent, LocalHash::of(window, seed));
        chain.push(hash);
        parent = Some(hash);
        begin += block_size;
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_looks_ahead_needs_the_token_after_the_block() {
        let tokens: Vec<u32> = (1..=9).collect();
        let chain = |tokens: &[u32]| block_chain_ahead(tokens, 4, 1, HashSeed::BASE);
        let first = LocalHash::of(&tokens[0..5], HashSeed::BASE);
        let second = LocalHash::of(&tokens[4..9], HashSeed::BASE);
        let expected = [
            BlockHash(first.0),
            BlockHash::after(Some(BlockHash(first.0)), second),
        ];
        assert_eq!(chain(&tokens), expected);
        assert_eq!(chain(&tokens[..8]), expected[..1]);
        assert_eq!(chain(&tokens[..4]), []);
    }

    /// Golden vectors of Dynamo's own test suite (block size 4).
    #[test]
    fn hashes_equal_dynamos() {
        let tokens: Vec<u32> = (1..=12).collect();
        let local: Vec<u64> = tokens
            .chunks(4)
            .map(|block| LocalHash::of(block, HashSeed::BASE).0)
            .collect();
        assert_eq!(
            local,
            [
                14_643_705_804_678_351_452,
                16_777_012_769_546_811_212,
                483_935_686_894_639_516
            ]
        );
        let chain: Vec<u64> = block_chain(&tokens, 4, HashSeed::BASE)
            .into_iter()
            .map(|hash| hash.0)
            .collect();
        assert_eq!(
            chain,
            [
                14_643_705_804_678_351_452,
                4_945_711_292_740_353_085,
                12_583_592_247_330_656_132
            ]
        );
    }

    #[test]
    fn a_sixteen_token_block_equals_dynamos() {
        let tokens: Vec<u32> = (1..=16).collect();
        assert_eq!(
            LocalHash::of(&tokens, HashSeed::BASE).0,
            0xea06_fc71_a5ee_6e88
        );
    }

    #[test]
    fn only_full_blocks_are_hashed() {
        let tokens: Vec<u32> = (0..11).collect();
        assert_eq!(block_chain(&tokens, 4, HashSeed::BASE).len(), 2);
        assert_eq!(block_chain(&tokens[..3], 4, HashSeed::BASE), []);
    }

    #[test]
    fn long_blocks_hash_like_short_ones() {
        let tokens: Vec<u32> = (0..100).collect();
        let bytes: Vec<u8> = tokens
            .iter()
            .flat_map(|token| token.to_le_bytes())
            .collect();
        assert_eq!(
            LocalHash::of(&tokens, HashSeed::BASE).0,
            xxh3_64_with_seed(&bytes, CHAIN_SEED)
        );
    }

    #[test]
    fn adapter_and_salt_separate_caches() {
        let plain = HashSeed::new("", "");
        assert_eq!(plain, HashSeed::BASE);
        let seeds = [
            plain,
            HashSeed::new("a", ""),
            HashSeed::new("", "a"),
            HashSeed::new("a", "a"),
        ];
        for (i, left) in seeds.iter().enumerate() {
            for right in &seeds[i + 1..] {
                assert_ne!(left, right);
            }
        }
    }
}
