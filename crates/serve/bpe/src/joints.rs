//! Between which characters a merge can happen at all.
//!
//! A vocabulary of characters comes without a pattern to split text by: all of a text is one
//! word. But a place between two characters at which no merge has its border is a border in the
//! end, and what is left and right of it does not depend on each other. In practice that is every
//! space before a word, and most places in Chinese text. So a text falls into words all the same,
//! exactly.

/// A set of pairs of characters. May contain too many, never too few.
#[derive(Debug)]
pub(crate) struct Joints {
    /// Pairs of ASCII, a bit each.
    ascii: Box<[u128; 128]>,
    /// Other pairs, by hash.
    others: Box<[u64]>,
}

/// 128 kB. Gemma's half a million merges set an eighth of the bits.
const BITS: u32 = 20;

impl Joints {
    pub(crate) fn new() -> Self {
        Self {
            ascii: Box::new([0; 128]),
            others: vec![0; 1 << (BITS - 6)].into(),
        }
    }

    pub(crate) fn insert(&mut self, left: char, right: char) {
        if left.is_ascii() && right.is_ascii() {
            self.ascii[left as usize] |= 1 << right as u32;
        } else {
            let (word, bit) = place(left, right);
            self.others[word] |= bit;
        }
    }

    #[inline]
    pub(crate) fn contains(&self, left: char, right: char) -> bool {
        if left.is_ascii() && right.is_ascii() {
            return self.ascii[left as usize] >> right as u32 & 1 != 0;
        }
        let (word, bit) = place(left, right);
        self.others[word] & bit != 0
    }

    /// Hands out the parts of `text` between which there is no merge.
    #[inline]
    pub(crate) fn words<'a>(&self, text: &'a str, mut word: impl FnMut(&'a str)) {
        let mut characters = text.char_indices();
        let Some((_, mut left)) = characters.next() else {
            return;
        };
        let mut from = 0;
        for (at, right) in characters {
            if !self.contains(left, right) {
                word(&text[from..at]);
                from = at;
            }
            left = right;
        }
        word(&text[from..]);
    }
}

fn place(left: char, right: char) -> (usize, u64) {
    let pair = u64::from(left as u32) << 32 | u64::from(right as u32);
    let hash =
        pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ pair.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 29;
    let hash = (hash.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - BITS)) as usize;
    (hash / 64, 1 << (hash % 64))
}
