//! Generates tokens from numbers.
//!
//! What a text says does not matter here, only which parts are equal and how long they are.
//! So a text is a number, and its token at a position is a random draw determined by both.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use contract::TokenId;
use contract::random::mix;

/// Ends an answer; never part of a text.
pub(crate) const END_OF_TEXT: TokenId = 0;
/// What a chat template puts before the first user message, before later ones, and after
/// each of them. Their lengths are those of Llama 3's template.
pub(crate) const OPENING: [TokenId; 5] = [1, 2, 3, 4, 5];
pub(crate) const NEXT_TURN: [TokenId; 5] = [6, 2, 3, 4, 5];
pub(crate) const TO_ASSISTANT: [TokenId; 5] = [6, 2, 7, 4, 5];

/// Ids of ordinary words: present in every large vocabulary, and none of the above.
const WORDS: Range<TokenId> = 1_000..101_000;

/// Separates the kinds of texts.
const STARTER: u64 = 0x57;
const FOLLOW_UP: u64 = 0xf0;
const BLOCK: u64 = 0xb1;

/// The texts of one run.
#[derive(Debug)]
pub(crate) struct Content {
    seed: u64,
    words: Range<TokenId>,
    /// Starters that conversations share; they are long and come back.
    shared: HashMap<u64, Arc<[TokenId]>>,
}

impl Content {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            words: WORDS,
            shared: HashMap::new(),
        }
    }

    /// With words of another vocabulary; not none.
    pub(crate) fn of_words(self, words: Range<TokenId>) -> Self {
        Self { words, ..self }
    }

    /// Appends a starter. Those that are shared are remembered.
    pub(crate) fn starter(
        &mut self,
        number: u64,
        length: u32,
        is_shared: bool,
        out: &mut Vec<TokenId>,
    ) {
        if !is_shared {
            out.extend(self.draw(STARTER, number, 0..u64::from(length)));
            return;
        }
        if !self.shared.contains_key(&number) {
            let text = self.draw(STARTER, number, 0..u64::from(length)).collect();
            self.shared.insert(number, text);
        }
        out.extend_from_slice(&self.shared[&number]);
    }

    /// Appends what the user says in a later turn of a conversation.
    pub(crate) fn follow_up(
        &self,
        conversation: u64,
        turn: u32,
        length: u32,
        out: &mut Vec<TokenId>,
    ) {
        let begin = u64::from(turn) << 32;
        out.extend(self.draw(FOLLOW_UP, conversation, begin..begin + u64::from(length)));
    }

    /// Appends the block of a trace that `id` names.
    pub(crate) fn block(&self, id: u64, length: usize, out: &mut Vec<TokenId>) {
        out.extend(self.draw(BLOCK, id, 0..length as u64));
    }

    fn draw(&self, kind: u64, text: u64, positions: Range<u64>) -> impl Iterator<Item = TokenId> {
        let (seed, first) = (self.seed ^ kind, self.words.start);
        let choices = u64::from(self.words.end - first);
        positions.map(move |position| {
            let draw = (u128::from(mix(seed, text, position)) * u128::from(choices)) >> 64;
            first + draw as TokenId
        })
    }
}

/// The token that ends an answer, as a request lists it.
pub(crate) fn end_of_text() -> Arc<[TokenId]> {
    [END_OF_TEXT].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_give_equal_texts_and_others_do_not() {
        let text = |seed, number, is_shared| {
            let mut out = Vec::new();
            Content::new(seed).starter(number, 300, is_shared, &mut out);
            out
        };
        assert_eq!(text(1, 5, true), text(1, 5, false));
        assert_ne!(text(1, 5, true), text(1, 6, true));
        assert_ne!(text(1, 5, true), text(2, 5, true));
        assert!(text(1, 5, true).iter().all(|token| WORDS.contains(token)));
        let mut follow_ups = Vec::new();
        Content::new(1).follow_up(5, 1, 30, &mut follow_ups);
        Content::new(1).follow_up(5, 2, 30, &mut follow_ups);
        assert_ne!(follow_ups[..30], follow_ups[30..]);
    }
}
