//! Tokens by their bytes.
//!
//! Nine words in ten are a token, so this table is asked for every word of a text. A token of up
//! to 15 bytes, and that is nearly all of them, lies in its slot with its length: one cache line
//! says whether a word is a token and which. Longer ones are compared with bytes elsewhere. A
//! text never adds to the table.

use contract::TokenId;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// A vocabulary, by bytes.
#[derive(Debug)]
pub struct Words {
    slots: Box<[Slot]>,
    long: HashTable<Long>,
    /// The bytes of long tokens, end to end.
    long_bytes: Vec<u8>,
}

/// A token, and whether the merges of its bytes lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub token: TokenId,
    /// A word of a text that has these bytes is this token. Otherwise its merges tell.
    pub is_whole: bool,
}

/// A token's bytes in 16, the last of which is the length; 0 in an empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    low: u64,
    high: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    word: Word,
}

#[derive(Clone, Copy, Debug)]
struct Long {
    start: u32,
    end: u32,
    word: Word,
}

const LONGEST_IN_SLOT: usize = 15;
const EMPTY: Slot = Slot {
    key: Key { low: 0, high: 0 },
    word: Word {
        token: 0,
        is_whole: false,
    },
};

impl Words {
    pub fn with_capacity(tokens: usize) -> Self {
        let slots = (tokens * 3 / 2 + 1).next_power_of_two();
        Self {
            slots: vec![EMPTY; slots].into(),
            long: HashTable::new(),
            long_bytes: Vec::new(),
        }
    }

    /// The last token of these bytes counts; there are some. No more than the capacity may be
    /// inserted.
    pub fn insert(&mut self, bytes: &[u8], word: Word) {
        if let Some(known) = self.get_mut(bytes) {
            *known = word;
            return;
        }
        if let Some(key) = Key::new(bytes) {
            let mut at = self.first_slot(key);
            while self.slots[at].key != EMPTY.key {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = Slot { key, word };
            return;
        }
        let start = self.long_bytes.len();
        self.long_bytes.extend_from_slice(bytes);
        let place = |at| u32::try_from(at).expect("vocabularies are small");
        let long = Long {
            start: place(start),
            end: place(self.long_bytes.len()),
            word,
        };
        let all = &self.long_bytes;
        self.long
            .insert_unique(xxh3_64(bytes), long, |long| xxh3_64(long.bytes(all)));
    }

    #[inline]
    pub fn get(&self, bytes: &[u8]) -> Option<Word> {
        match Key::new(bytes) {
            Some(key) => self.find(key).map(|at| self.slots[at].word),
            None => {
                let same = |long: &Long| long.bytes(&self.long_bytes) == bytes;
                let found = self.long.find(xxh3_64(bytes), same);
                found.map(|long| long.word)
            }
        }
    }

    fn get_mut(&mut self, bytes: &[u8]) -> Option<&mut Word> {
        match Key::new(bytes) {
            Some(key) => self.find(key).map(|at| &mut self.slots[at].word),
            None => {
                let same = |long: &Long| long.bytes(&self.long_bytes) == bytes;
                let found = self.long.find_mut(xxh3_64(bytes), same);
                found.map(|long| &mut long.word)
            }
        }
    }

    /// Asks for every token whether a word of its bytes is the token.
    pub(crate) fn mark_whole(&mut self, mut is_whole: impl FnMut(&Self, &[u8], TokenId) -> bool) {
        for at in 0..self.slots.len() {
            let Slot { key, word } = self.slots[at];
            if key == EMPTY.key {
                continue;
            }
            let (bytes, length) = key.bytes();
            let answer = is_whole(self, &bytes[..length], word.token);
            self.slots[at].word.is_whole = answer;
        }
        let mut long = std::mem::take(&mut self.long);
        for long in long.iter_mut() {
            let bytes = long.bytes(&self.long_bytes);
            long.word.is_whole = is_whole(self, bytes, long.word.token);
        }
        self.long = long;
    }

    #[inline]
    fn find(&self, key: Key) -> Option<usize> {
        let mut at = self.first_slot(key);
        loop {
            let slot = self.slots[at].key;
            if slot == key {
                return Some(at);
            }
            if slot == EMPTY.key {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[inline]
    fn first_slot(&self, key: Key) -> usize {
        let Key { low, high } = key;
        let product =
            u128::from(low ^ 0xa076_1d64_78bd_642f) * u128::from(high ^ 0xe703_7ed1_a0b4_28db);
        (product as u64 ^ (product >> 64) as u64) as usize & (self.slots.len() - 1)
    }
}

impl Long {
    fn bytes<'a>(&self, all: &'a [u8]) -> &'a [u8] {
        &all[self.start as usize..self.end as usize]
    }
}

impl Key {
    /// `None` for no bytes and for too many.
    #[inline]
    fn new(bytes: &[u8]) -> Option<Self> {
        // Whole words are read where a loop over bytes would take most of a lookup's time: from
        // both ends, overlapping in the middle.
        let length = bytes.len();
        let (low, high) = match *bytes {
            [] => return None,
            [a] => (u64::from(a), 0),
            [a, b] => (u64::from(u16::from_le_bytes([a, b])), 0),
            [a, b, c] => (u64::from(u32::from_le_bytes([a, b, c, 0])), 0),
            _ if length <= 8 => {
                let (first, _) = bytes.split_first_chunk()?;
                let (_, last) = bytes.split_last_chunk()?;
                let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
                let shift = 8 * (length - 4);
                (u64::from(first) | u64::from(last) << shift, 0)
            }
            _ if length <= LONGEST_IN_SLOT => {
                let (first, _) = bytes.split_first_chunk()?;
                let (_, last) = bytes.split_last_chunk()?;
                let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
                (first, last >> (8 * (16 - length)))
            }
            _ => return None,
        };
        let high = high | (length as u64) << 56;
        Some(Self { low, high })
    }

    fn bytes(self) -> ([u8; 16], usize) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        (bytes, usize::from(bytes[LONGEST_IN_SLOT]))
    }
}
