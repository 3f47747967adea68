//! Which two tokens become which: the merges of a vocabulary.
//!
//! Most neighbours in a text do not merge, so a small filter answers first: a bit per hash, in
//! memory that stays in the processor's second cache. Only then is the table asked, in which a
//! pair is one to two cache lines away. A text never adds to the table, so the longest probe is
//! known when it is built.

use contract::TokenId;

use crate::merge::Merge;

/// Merges by pair, in open addressing.
#[derive(Debug)]
pub(crate) struct Pairs {
    slots: Box<[Slot]>,
    filter: Box<[u64]>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    pair: u64,
    merge: Merge,
}

const EMPTY: Slot = Slot {
    pair: 0,
    merge: Merge {
        rank: Merge::NO_RANK,
        token: 0,
    },
};

/// Bits of the filter per merge: about an eighth of all bits are set.
const FILTER_BITS: usize = 8;

impl Pairs {
    pub(crate) fn with_capacity(merges: usize) -> Self {
        let slots = (merges * 3 / 2 + 1).next_power_of_two();
        let bits = (merges * FILTER_BITS + 64).next_power_of_two();
        Self {
            slots: vec![EMPTY; slots].into(),
            filter: vec![0; bits / 64].into(),
        }
    }

    /// The last merge of a pair counts. No more than the capacity may be inserted.
    pub(crate) fn insert(&mut self, left: TokenId, right: TokenId, merge: Merge) {
        let pair = pack(left, right);
        let hash = hash(pair);
        let (word, bit) = self.filter_place(hash);
        self.filter[word] |= bit;
        let mut at = self.first_slot(hash);
        while !self.slots[at].is_empty() && self.slots[at].pair != pair {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Slot { pair, merge };
    }

    #[inline]
    pub(crate) fn get(&self, left: TokenId, right: TokenId) -> Option<Merge> {
        let pair = pack(left, right);
        let hash = hash(pair);
        let (word, bit) = self.filter_place(hash);
        if self.filter[word] & bit == 0 {
            return None;
        }
        let mut at = self.first_slot(hash);
        loop {
            let slot = self.slots[at];
            if slot.is_empty() {
                return None;
            }
            if slot.pair == pair {
                return Some(slot.merge);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn first_slot(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    fn filter_place(&self, hash: u64) -> (usize, u64) {
        // Other bits than those that choose the slot.
        let word = (hash >> 6) as usize & (self.filter.len() - 1);
        (word, 1 << (hash & 63))
    }
}

impl Slot {
    fn is_empty(&self) -> bool {
        self.merge.rank == Merge::NO_RANK
    }
}

fn pack(left: TokenId, right: TokenId) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

fn hash(pair: u64) -> u64 {
    // Both factors are odd numbers of random bits; the product's middle depends on all of the
    // pair.
    let product = u128::from(pair ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    product as u64 ^ (product >> 64) as u64
}
