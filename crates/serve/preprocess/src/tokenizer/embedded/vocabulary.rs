//! The tokens of o200k, by id and by bytes.

use bpe::{Word, Words};
use contract::TokenId;

use super::FIRST_UNUSED;

/// Every token's length, one byte each, then the bytes of all: the build script packs it.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.bin"));

pub(super) struct Vocabulary {
    /// Where each token's bytes start, and where the last one's end.
    starts: Vec<u32>,
    bytes: &'static [u8],
    by_bytes: Words,
    /// The token of every single byte: each has one.
    by_byte: [TokenId; 256],
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
            by_bytes: Words::with_capacity(FIRST_UNUSED as usize),
            by_byte: [FIRST_UNUSED; 256],
        };
        for token in 0..FIRST_UNUSED {
            let bytes = vocabulary.token_bytes(token);
            let is_whole = true;
            vocabulary.by_bytes.insert(bytes, Word { token, is_whole });
            if let [byte] = *bytes {
                vocabulary.by_byte[usize::from(byte)] = token;
            }
        }
        vocabulary
    }

    /// The bytes of an ordinary token.
    pub(super) fn token_bytes(&self, id: TokenId) -> &'static [u8] {
        let [start, end] = [id, id + 1].map(|at| self.starts[at as usize] as usize);
        &self.bytes[start..end]
    }

    /// The token that stands for exactly these bytes.
    pub(super) fn token(&self, bytes: &[u8]) -> Option<TokenId> {
        self.by_bytes.get(bytes).map(|word| word.token)
    }

    pub(super) fn byte(&self, byte: u8) -> TokenId {
        self.by_byte[usize::from(byte)]
    }
}
