//! The tokens of o200k, by id and by bytes.

use contract::TokenId;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::FIRST_UNUSED;

/// Every token's length, one byte each, then the bytes of all: the build script packs it.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.bin"));

pub(super) struct Vocabulary {
    /// Where each token's bytes start, and where the last one's end.
    starts: Vec<u32>,
    bytes: &'static [u8],
    /// Ids by the hash of their bytes.
    by_bytes: HashTable<TokenId>,
    /// The token of every single byte: each has one.
    by_byte: [TokenId; 256],
    /// The tokens of two bytes, which every merge begins with; [`FIRST_UNUSED`] where there is
    /// none.
    by_pair: Box<[TokenId]>,
}

impl Vocabulary {
    pub(super) fn unpack() -> Self {
        let (lengths, bytes) = PACKED.split_at(FIRST_UNUSED as usize);
        let mut end = 0;
        let ends = lengths.iter().map(|&length| {
            end += u32::from(length);
            end
        });
        let mut vocabulary = Self {
            starts: std::iter::once(0).chain(ends).collect(),
            bytes,
            by_bytes: HashTable::with_capacity(FIRST_UNUSED as usize),
            by_byte: [FIRST_UNUSED; 256],
            by_pair: vec![FIRST_UNUSED; 1 << 16].into(),
        };
        let mut by_bytes = std::mem::take(&mut vocabulary.by_bytes);
        for id in 0..FIRST_UNUSED {
            let bytes = vocabulary.token_bytes(id);
            by_bytes.insert_unique(xxh3_64(bytes), id, |&id| {
                xxh3_64(vocabulary.token_bytes(id))
            });
            match *bytes {
                [byte] => vocabulary.by_byte[usize::from(byte)] = id,
                [first, second] => vocabulary.by_pair[pair(first, second)] = id,
                _ => {}
            }
        }
        vocabulary.by_bytes = by_bytes;
        vocabulary
    }

    /// The bytes of an ordinary token.
    pub(super) fn token_bytes(&self, id: TokenId) -> &'static [u8] {
        let [start, end] = [id, id + 1].map(|at| self.starts[at as usize] as usize);
        &self.bytes[start..end]
    }

    /// The token that stands for exactly these bytes.
    pub(super) fn token(&self, bytes: &[u8]) -> Option<TokenId> {
        if let &[first, second] = bytes {
            let id = self.by_pair[pair(first, second)];
            return (id != FIRST_UNUSED).then_some(id);
        }
        let same = |&id: &TokenId| self.token_bytes(id) == bytes;
        self.by_bytes.find(xxh3_64(bytes), same).copied()
    }

    pub(super) fn byte(&self, byte: u8) -> TokenId {
        self.by_byte[usize::from(byte)]
    }
}

fn pair(first: u8, second: u8) -> usize {
    usize::from(u16::from_be_bytes([first, second]))
}
