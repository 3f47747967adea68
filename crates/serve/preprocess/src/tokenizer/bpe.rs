//! Byte-pair merges inside one word.
//!
//! A word starts as its smallest parts, and the pair of neighbours with the lowest rank is
//! joined, the leftmost first among equals, until no two neighbours have a rank. In a short word
//! they are compared anew each time, which is the quickest. In a long one candidates wait in a
//! heap, so that n bytes cost n log n: a megabyte without a space is a word too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use contract::TokenId;

/// A run of a word's bytes that is a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) token: TokenId,
    pub(super) start: u32,
    pub(super) end: u32,
    /// Where the part behind it is in the list; [`NONE`] at the end of the word, [`JOINED`] when
    /// this part has become one with the part before it.
    next: u32,
    previous: u32,
}

const NONE: u32 = u32::MAX;
const JOINED: u32 = u32::MAX - 1;

/// Longer words take the heap.
const SHORT: usize = 48;

/// What two neighbours become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge {
    pub(super) rank: u32,
    pub(super) token: TokenId,
}

/// Two neighbours that may be joined. Ordered as they are taken: by rank, then from the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: u32,
    right: u32,
    /// Where the right one ended: another end means that it has grown since.
    end: u32,
    token: TokenId,
}

/// Joins the parts of one word after another, in memory that is kept.
#[derive(Debug, Default)]
pub(super) struct Merger {
    parts: Vec<Part>,
    /// What each part of a short word and the next one become.
    merges: Vec<Option<Merge>>,
    candidates: BinaryHeap<Reverse<Candidate>>,
}

impl Merger {
    /// Appends the tokens of a word that consists of `parts`: tokens, and how many bytes each
    /// stands for. `merge` tells what two neighbours become.
    pub(super) fn encode(
        &mut self,
        parts: impl Iterator<Item = (TokenId, u32)>,
        merge: impl Fn(Part, Part) -> Option<Merge>,
        out: &mut Vec<TokenId>,
    ) {
        self.start(parts);
        if self.parts.len() <= SHORT {
            return self.encode_short(merge, out);
        }
        for left in 1..self.parts.len() as u32 {
            self.consider(left - 1, left, &merge);
        }
        while let Some(Reverse(candidate)) = self.candidates.pop() {
            self.join(candidate, &merge);
        }
        let tokens = self.parts.iter().filter(|part| part.next != JOINED);
        out.extend(tokens.map(|part| part.token));
    }

    fn encode_short(
        &mut self,
        merge: impl Fn(Part, Part) -> Option<Merge>,
        out: &mut Vec<TokenId>,
    ) {
        let Self { parts, merges, .. } = self;
        merges.clear();
        merges.extend(parts.windows(2).map(|pair| merge(pair[0], pair[1])));
        loop {
            let found = merges.iter().enumerate();
            let found = found.filter_map(|(at, merge)| Some((at, (*merge)?)));
            let Some((at, Merge { token, .. })) = found.min_by_key(|(_, merge)| merge.rank) else {
                break;
            };
            let right = parts.remove(at + 1);
            merges.remove(at);
            (parts[at].token, parts[at].end) = (token, right.end);
            if let Some(before) = at.checked_sub(1) {
                merges[before] = merge(parts[before], parts[at]);
            }
            if at < merges.len() {
                merges[at] = merge(parts[at], parts[at + 1]);
            }
        }
        out.extend(parts.iter().map(|part| part.token));
    }

    fn start(&mut self, parts: impl Iterator<Item = (TokenId, u32)>) {
        self.parts.clear();
        let mut start = 0;
        for (at, (token, bytes)) in (0..).zip(parts) {
            self.parts.push(Part {
                token,
                start,
                end: start + bytes,
                next: at + 1,
                previous: at.wrapping_sub(1),
            });
            start += bytes;
        }
        if let Some(last) = self.parts.last_mut() {
            last.next = NONE;
        }
    }

    fn consider(&mut self, left: u32, right: u32, merge: impl Fn(Part, Part) -> Option<Merge>) {
        let behind = self.parts[right as usize];
        if let Some(Merge { rank, token }) = merge(self.parts[left as usize], behind) {
            self.candidates.push(Reverse(Candidate {
                rank,
                left,
                right,
                end: behind.end,
                token,
            }));
        }
    }

    fn join(&mut self, candidate: Candidate, merge: impl Fn(Part, Part) -> Option<Merge>) {
        let Candidate {
            left,
            right,
            end,
            token,
            ..
        } = candidate;
        // A left part that has grown or is gone has another neighbour.
        if self.parts[left as usize].next != right || self.parts[right as usize].end != end {
            return;
        }
        let next = std::mem::replace(&mut self.parts[right as usize].next, JOINED);
        let part = &mut self.parts[left as usize];
        (part.token, part.end, part.next) = (token, end, next);
        let previous = part.previous;
        if next != NONE {
            self.parts[next as usize].previous = left;
            self.consider(left, next, &merge);
        }
        if previous != NONE {
            self.consider(previous, left, &merge);
        }
    }
}
