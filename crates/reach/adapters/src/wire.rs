//! The engines' cache events, in one form for all of them.
//!
//! An engine names a block by a hash of its own ([`EngineHash`]). A stored block carries its
//! tokens too, from which ours is computed. The decoders never panic, whatever the bytes are, and
//! never hold more than a few times the size of their input.

pub mod msgpack;
pub mod trtllm;

pub use block_mirror::EngineHash;
use contract::{HashSeed, TokenId};

/// One change of an engine's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    Stored(Stored),
    Removed {
        hashes: Vec<EngineHash>,
        group: Option<u64>,
    },
    /// The block has moved to the GPU, or away from it.
    Moved {
        hash: EngineHash,
        on_gpu: bool,
    },
    Cleared,
    /// Valid and irrelevant for routing.
    Ignored(Ignored),
}

/// Blocks that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub parent: Option<EngineHash>,
    pub blocks: Vec<Block>,
    pub key: Key,
    /// Layers that see only a part of the text have blocks of their own.
    pub group: Group,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub hash: EngineHash,
    /// Its tokens, and the one after it if the engine's hashes cover that too.
    pub window: Vec<TokenId>,
}

/// What a block depends on besides its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing, or what its parent depends on.
    Plain,
    /// A salt that we gave the engine.
    Ours(HashSeed),
    /// A LoRA adapter, an image, or a salt that is not ours.
    Foreign,
}

/// Which layers a block belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub index: Option<u64>,
    /// The layers see only a window of the text, so the block does not make a prefix reusable.
    pub windowed: bool,
}

/// Why an event is irrelevant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Host memory, disk, another machine.
    OtherMedium,
    /// Nothing has changed that routing depends on.
    NoChange,
}

/// The bytes are not cache events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a batch of cache events: {0}")]
pub struct Malformed(pub &'static str);

/// The prefix of our salts. The rest is the seed, so that an engine that repeats a salt in its
/// events shows which requests a block serves.
const SALT: &str = "homing-";

/// The salt that keeps a request's blocks apart from others in an engine; `None` if they may be
/// shared.
pub fn salt(seed: HashSeed) -> Option<String> {
    (seed != HashSeed::BASE).then(|| format!("{SALT}{:016x}", seed.to_bits()))
}

/// The seed behind a salt, if the salt is one of ours.
fn seed_of(salt: &str) -> Option<HashSeed> {
    let digits = salt.strip_prefix(SALT)?;
    (digits.len() == 16).then_some(())?;
    u64::from_str_radix(digits, 16)
        .ok()
        .map(HashSeed::from_bits)
}

/// Divides an event's tokens into blocks. One token more than the blocks need means that a hash
/// covers the token after its block, and that neighbouring windows share that token.
fn divide(hashes: &[EngineHash], tokens: &[TokenId], block_size: usize) -> Option<Vec<Block>> {
    let ahead = match tokens
        .len()
        .checked_sub(hashes.len().checked_mul(block_size)?)?
    {
        0 => 0,
        1 if !hashes.is_empty() => 1,
        _ => return None,
    };
    let blocks = hashes.iter().enumerate().map(|(index, hash)| {
        let begin = index * block_size;
        let window = tokens.get(begin..begin + block_size + ahead)?.to_vec();
        Some(Block {
            hash: *hash,
            window,
        })
    });
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_salt_leads_back_to_its_seed() {
        let seed = HashSeed::new("", "tenant");
        assert_eq!(seed_of(&salt(seed).unwrap()), Some(seed));
        assert_eq!(salt(HashSeed::BASE), None);
        for foreign in [
            "",
            "homing-",
            "homing-12",
            "tenant",
            "homing-zzzzzzzzzzzzzzzz",
        ] {
            assert_eq!(seed_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn tokens_are_divided_into_blocks_or_windows() {
        let hashes = [EngineHash(1), EngineHash(2)];
        let windows = |tokens: &[TokenId]| -> Option<Vec<Vec<TokenId>>> {
            let blocks = divide(&hashes, tokens, 2)?;
            Some(blocks.into_iter().map(|block| block.window).collect())
        };
        assert_eq!(windows(&[1, 2, 3, 4]), Some(vec![vec![1, 2], vec![3, 4]]));
        let ahead = Some(vec![vec![1, 2, 3], vec![3, 4, 5]]);
        assert_eq!(windows(&[1, 2, 3, 4, 5]), ahead);
        assert_eq!(windows(&[1, 2, 3]), None);
        assert_eq!(windows(&[1, 2, 3, 4, 5, 6]), None);
        assert_eq!(divide(&hashes, &[1], usize::MAX), None);
    }
}
