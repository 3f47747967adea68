//! Byte-pair merges inside one word.
//!
//! A word starts as its smallest parts, and the pair of neighbours with the lowest rank is
//! joined, the leftmost first among equals, until no two neighbours have a rank. In a short word
//! the ranks are compared anew each time, which is the quickest. In a long one candidates wait in
//! a heap, so that n parts cost n log n: a megabyte without a space is a word too.
//!
//! What two parts become is the caller's knowledge: a table of pairs, or the vocabulary itself.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use contract::TokenId;

/// A run of a word's bytes that is a token.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub token: TokenId,
    pub start: u32,
    pub end: u32,
}

/// What two neighbours become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// Lower ones are applied first. Never [`Merge::NO_RANK`].
    pub rank: u32,
    pub token: TokenId,
}

impl Merge {
    /// Stands for no merge where an `Option` would take twice the room.
    pub const NO_RANK: u32 = u32::MAX;
}

/// Words of more parts take the heap.
const SHORT: usize = 48;

const NONE: u32 = u32::MAX;
const JOINED: u32 = u32::MAX - 1;

/// The neighbours of a part of a long word.
#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    /// [`NONE`] at the end of the word, [`JOINED`] when this part has become one with the part
    /// before it.
    next: u32,
}

/// Two neighbours that may be joined. Ordered as they are taken: by rank, then from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    /// Where the right one ended: another end means that either has grown since.
    end: u32,
    token: TokenId,
}

/// Joins the parts of one word after another, in memory that is kept.
#[derive(Debug, Default)]
pub struct Merger {
    parts: Vec<Part>,
    /// The rank of each part of a short word with the next one, and what they become.
    ranks: Vec<u32>,
    tokens: Vec<TokenId>,
    links: Vec<Link>,
    candidates: BinaryHeap<Reverse<Candidate>>,
}

impl Merger {
    /// Appends the tokens of a word that consists of `parts`: tokens, and how many bytes each
    /// stands for. A word is shorter than 4 GiB.
    pub fn encode(
        &mut self,
        parts: impl Iterator<Item = (TokenId, u32)>,
        merge: impl Fn(Part, Part) -> Option<Merge>,
        out: &mut Vec<TokenId>,
    ) {
        self.parts.clear();
        let mut start = 0;
        self.parts.extend(parts.map(|(token, bytes)| {
            let end = start + bytes;
            let part = Part { token, start, end };
            start = end;
            part
        }));
        if self.parts.len() <= SHORT {
            self.merge_short(merge);
            out.extend(self.parts.iter().map(|part| part.token));
        } else {
            self.merge_long(merge);
            let kept = self.parts.iter().zip(&self.links);
            let kept = kept.filter(|(_, link)| link.next != JOINED);
            out.extend(kept.map(|(part, _)| part.token));
        }
    }

    fn merge_short(&mut self, merge: impl Fn(Part, Part) -> Option<Merge>) {
        let Self {
            parts,
            ranks,
            tokens,
            ..
        } = self;
        let merge = |left, right| match merge(left, right) {
            Some(Merge { rank, token }) => (rank, token),
            None => (Merge::NO_RANK, 0),
        };
        ranks.clear();
        tokens.clear();
        for pair in parts.windows(2) {
            let (rank, token) = merge(pair[0], pair[1]);
            ranks.push(rank);
            tokens.push(token);
        }
        // The first of the lowest, which `min` alone finds without a branch per rank.
        while let Some(&lowest) = ranks.iter().min().filter(|rank| **rank != Merge::NO_RANK) {
            let at = ranks.iter().position(|rank| *rank == lowest);
            let at = at.expect("the minimum is one of them");
            let right = parts.remove(at + 1);
            (parts[at].token, parts[at].end) = (tokens[at], right.end);
            ranks.remove(at);
            tokens.remove(at);
            if let Some(before) = at.checked_sub(1) {
                (ranks[before], tokens[before]) = merge(parts[before], parts[at]);
            }
            if at < ranks.len() {
                (ranks[at], tokens[at]) = merge(parts[at], parts[at + 1]);
            }
        }
    }

    fn merge_long(&mut self, merge: impl Fn(Part, Part) -> Option<Merge>) {
        let count = u32::try_from(self.parts.len()).expect("a word is shorter than 4 GiB");
        self.links.clear();
        self.links.extend((0..count).map(|at| Link {
            previous: at.wrapping_sub(1),
            next: if at + 1 == count { NONE } else { at + 1 },
        }));
        // Filled as a list and ordered once, which is linear.
        let mut first = std::mem::take(&mut self.candidates).into_vec();
        first.extend((1..count).filter_map(|right| self.candidate(right - 1, right, &merge)));
        self.candidates = BinaryHeap::from(first);
        while let Some(Reverse(candidate)) = self.candidates.pop() {
            self.join(candidate, &merge);
        }
    }

    fn candidate(
        &self,
        left: u32,
        right: u32,
        merge: impl Fn(Part, Part) -> Option<Merge>,
    ) -> Option<Reverse<Candidate>> {
        let behind = self.parts[right as usize];
        let Merge { rank, token } = merge(self.parts[left as usize], behind)?;
        Some(Reverse(Candidate {
            rank,
            left,
            end: behind.end,
            token,
        }))
    }

    fn join(&mut self, candidate: Candidate, merge: impl Fn(Part, Part) -> Option<Merge>) {
        let Candidate {
            left, end, token, ..
        } = candidate;
        let Link { previous, next } = self.links[left as usize];
        // Joins only remove borders: with the same end, and a border between, both are as they
        // were. A part that was joined is not the left one of anything.
        if next == JOINED || next == NONE || self.parts[next as usize].end != end {
            return;
        }
        let behind = std::mem::replace(&mut self.links[next as usize].next, JOINED);
        self.links[left as usize].next = behind;
        let part = &mut self.parts[left as usize];
        (part.token, part.end) = (token, end);
        if behind != NONE {
            self.links[behind as usize].previous = left;
            let found = self.candidate(left, behind, &merge);
            self.candidates.extend(found);
        }
        if previous != NONE {
            let found = self.candidate(previous, left, &merge);
            self.candidates.extend(found);
        }
    }
}
