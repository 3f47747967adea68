//! The vocabulary that comes with the program.
//!
//! o200k has 199,998 tokens of its own, ids 0 to 199,997, and OpenAI's special tokens go up
//! to 200,018. Ours are 200,019 to 200,023: Llama 3's names, so that a template in its style
//! works. The ids between stand for nothing.
//!
//! Words are split and merged by [`bpe`], as a model's own are. Nine words in ten are a token.
//! Such a word is looked up: every token's bytes encode to that token alone, which a test checks
//! for each. Property tests compare with `tiktoken`.

mod vocabulary;

use std::fmt;
use std::sync::LazyLock;

use bpe::{Merge, Merger, Splitter, Step};
use contract::TokenId;

use self::vocabulary::Vocabulary;

pub const BEGIN_OF_TEXT: TokenId = 200_019;
pub const END_OF_TEXT: TokenId = 200_020;
pub const START_OF_HEADER: TokenId = 200_021;
pub const END_OF_HEADER: TokenId = 200_022;
/// Ends an answer.
pub const END_OF_TURN: TokenId = 200_023;

pub(super) const SPECIAL_TOKENS: [(TokenId, &str); 5] = [
    (BEGIN_OF_TEXT, "<|begin_of_text|>"),
    (END_OF_TEXT, "<|end_of_text|>"),
    (START_OF_HEADER, "<|start_header_id|>"),
    (END_OF_HEADER, "<|end_header_id|>"),
    (END_OF_TURN, "<|eot_id|>"),
];
pub(super) const VOCAB_SIZE: u32 = 200_024;
/// Ids from here on are no text.
pub(super) const FIRST_UNUSED: TokenId = 199_998;

/// o200k's.
const PATTERN: Step = Step::Cased {
    digits: 3,
    contractions: true,
};

pub(super) struct Embedded {
    vocabulary: Vocabulary,
    splitter: Splitter,
}

impl Embedded {
    /// Unpacks the vocabulary on the first call in the process.
    pub(super) fn get() -> &'static Self {
        static EMBEDDED: LazyLock<Embedded> = LazyLock::new(|| Embedded {
            vocabulary: Vocabulary::unpack(),
            splitter: Splitter::new(vec![PATTERN]),
        });
        &EMBEDDED
    }

    pub(super) fn encode(&self, text: &str, out: &mut Vec<TokenId>) {
        let mut merger = Merger::default();
        self.splitter
            .words(text, |word| match self.vocabulary.token(word.as_bytes()) {
                Some(token) => out.push(token),
                None => self.merge(word.as_bytes(), &mut merger, out),
            });
    }

    fn merge(&self, word: &[u8], merger: &mut Merger, out: &mut Vec<TokenId>) {
        let bytes = word.iter().map(|&byte| (self.vocabulary.byte(byte), 1));
        // The rank of a token of o200k is its id.
        let merge = |start: u32, end: u32| {
            let token = self.vocabulary.token(&word[start as usize..end as usize])?;
            Some(Merge { rank: token, token })
        };
        merger.encode(bytes, |left, right| merge(left.start, right.end), out);
    }

    pub(super) fn token_bytes(&self, id: TokenId) -> &[u8] {
        if id < FIRST_UNUSED {
            return self.vocabulary.token_bytes(id);
        }
        let special = SPECIAL_TOKENS.iter().find(|(special, _)| *special == id);
        special.map_or(&[], |(_, text)| text.as_bytes())
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded(o200k)")
    }
}

#[cfg(test)]
mod tests {
    use tiktoken_rs::o200k_base_singleton;

    use super::*;

    /// What allows a word to be looked up before it is merged.
    #[test]
    fn every_token_merges_to_itself() {
        let embedded = Embedded::get();
        let mut merger = Merger::default();
        let mut tokens = Vec::new();
        for id in 0..FIRST_UNUSED {
            tokens.clear();
            embedded.merge(embedded.token_bytes(id), &mut merger, &mut tokens);
            assert_eq!(tokens, [id]);
        }
    }

    #[test]
    fn a_long_word_merges_as_tiktoken_merges_it() {
        for word in ["a", "ab", "世", "=", "\u{0}", "'s", "аб"] {
            // Around the length from which on words are merged in another way, and far beyond.
            for times in (10..60).chain([3_000]) {
                let text = word.repeat(times);
                let mut tokens = Vec::new();
                Embedded::get().encode(&text, &mut tokens);
                assert_eq!(tokens, o200k_base_singleton().encode_ordinary(&text));
            }
        }
    }
}
