//! The map behind the prefix index: from block to the workers holding it.
//!
//! One array, sorted by key, with gaps. A key's *home* is where it would stand if keys were
//! spread perfectly evenly; as they are hashes they nearly are, so an entry stands at its
//! home or a few places after it, and looking one up reads one cache line as a rule. There
//! are no control bytes and no marks of deleted entries: an entry is 16 bytes, a set without
//! members is a gap, and removing closes the row again. At most three of four places are
//! taken and at least half when the array was last rewritten, so a block takes 21 to 32
//! bytes. Being sorted, an array is rewritten in one pass over the memory.
//!
//! # Guarantees
//!
//! - Keys ascend, gaps aside, and between a key's home and its place there is no gap.
//! - Any keys are right; only keys that are no hashes may be slow, and even those are
//!   spread by one multiplication.

use contract::BlockHash;

use crate::worker_set::WorkerSet;

#[cfg(test)]
mod tests;

/// Below it, an array is not worth rewriting.
const FEWEST_HOMES: usize = 32;
/// Places after the last home, so that keys at the end find room.
const TAIL: usize = 16;
/// Places that are looked at in any case, from a key's home on. Fewer than [`TAIL`].
const NEAR: usize = 3;

/// Blocks and their holders among 64 workers. No block is without one.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    places: Vec<Place>,
    homes: usize,
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    /// The workers that hold the block; empty in an unused entry.
    holders: WorkerSet,
}

/// Its key stops every search.
const GAP: Place = Place {
    key: u64::MAX,
    holders: WorkerSet::EMPTY,
};

impl BlockTable {
    /// Number of blocks that at least one worker holds.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    pub(crate) fn holders(&self, block: BlockHash) -> WorkerSet {
        let key = spread(block);
        match self.places.get(self.seek(key)) {
            Some(place) if place.key == key => place.holders,
            _ => WorkerSet::EMPTY,
        }
    }

    /// The holders of several blocks. The places near their homes are read before any is
    /// looked at more closely, so that the memory fetches them side by side, and compared
    /// without branches, which nobody could predict.
    pub(crate) fn holders_of<const N: usize>(&self, blocks: [BlockHash; N]) -> [WorkerSet; N] {
        let keys = blocks.map(spread);
        let near_home = keys.map(|key| self.near_home(key));
        let mut holders = [WorkerSet::EMPTY; N];
        for (number, near) in near_home.into_iter().enumerate() {
            let key = keys[number];
            for place in near {
                let matching = if place.key == key {
                    place.holders
                } else {
                    WorkerSet::EMPTY
                };
                holders[number] = holders[number].union(matching);
            }
            if near[NEAR - 1].key < key {
                holders[number] = self.holders(blocks[number]);
            }
        }
        holders
    }

    /// Where a key most probably stands, if at all.
    fn near_home(&self, key: u64) -> [Place; NEAR] {
        let home = self.home(key);
        let near = self.places.get(home..home + NEAR);
        near.and_then(|near| near.try_into().ok())
            .unwrap_or([GAP; NEAR])
    }

    /// Whether the worker did not hold the block before.
    pub(crate) fn insert(&mut self, block: BlockHash, worker: WorkerSet) -> bool {
        let key = spread(block);
        let mut at = self.seek(key);
        if let Some(place) = self.places.get_mut(at)
            && place.key == key
            && !place.holders.is_empty()
        {
            let new = !place.holders.contains(worker);
            place.holders = place.holders.union(worker);
            return new;
        }
        if 4 * (self.taken + 1) > 3 * self.homes {
            self.write_anew();
            at = self.seek(key);
        }
        self.put(
            at,
            Place {
                key,
                holders: worker,
            },
        );
        self.taken += 1;
        true
    }

    /// Whether the worker held the block.
    pub(crate) fn remove(&mut self, block: BlockHash, worker: WorkerSet) -> bool {
        let key = spread(block);
        let at = self.seek(key);
        let Some(place) = self.places.get_mut(at) else {
            return false;
        };
        if place.key != key || !place.holders.contains(worker) {
            return false;
        }
        place.holders = place.holders.without(worker);
        if place.holders.is_empty() {
            self.close_up(at);
            self.taken -= 1;
        }
        true
    }

    /// Takes the worker off every block.
    pub(crate) fn forget(&mut self, worker: WorkerSet) {
        for place in &mut self.places {
            place.holders = place.holders.without(worker);
        }
        self.write_anew();
    }

    fn home(&self, key: u64) -> usize {
        ((u128::from(key) * self.homes as u128) >> 64) as usize
    }

    /// Where the key stands, or would have to stand if it is absent.
    fn seek(&self, key: u64) -> usize {
        let home = self.home(key);
        let from_home = self.places.get(home..).unwrap_or_default();
        home + from_home.iter().take_while(|place| place.key < key).count()
    }

    /// Puts an entry at `at`; what stands there moves one place on, up to the next gap.
    fn put(&mut self, at: usize, mut carried: Place) {
        for place in self.places.get_mut(at..).unwrap_or_default() {
            std::mem::swap(place, &mut carried);
            if carried.holders.is_empty() {
                return;
            }
        }
        self.places.push(carried);
    }

    /// Fills the gap that has come up at `at` from behind, as far as that brings keys
    /// nearer to their homes.
    fn close_up(&mut self, mut at: usize) {
        while let Some(&next) = self.places.get(at + 1)
            && !next.holders.is_empty()
            && self.home(next.key) <= at
        {
            self.places[at] = next;
            at += 1;
        }
        self.places[at] = GAP;
    }

    /// Writes what is not a gap into an array of twice as many homes.
    fn write_anew(&mut self) {
        let old = std::mem::take(&mut self.places);
        let taken = || old.iter().filter(|place| !place.holders.is_empty());
        self.taken = taken().count();
        self.homes = (2 * self.taken).max(FEWEST_HOMES);
        self.places = vec![GAP; self.homes + TAIL];
        let mut free = 0;
        for place in taken() {
            let at = free.max(self.home(place.key));
            if at == self.places.len() {
                self.places.push(GAP);
            }
            self.places[at] = *place;
            free = at + 1;
        }
    }
}

/// Reversible, so that equal keys are equal blocks.
fn spread(block: BlockHash) -> u64 {
    block.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
