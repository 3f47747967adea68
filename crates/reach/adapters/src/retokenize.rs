//! Streamed text into tokens, for engines that return only text.
//!
//! Everything behind the link counts in tokens. Text is held back up to the end of a word,
//! because a tokenizer never joins a word with the space before the next one, so the pieces are
//! those of the whole text. Even for a tokenizer that does, no character is lost or added: the
//! pieces together are the text.

use std::fmt;
use std::sync::Arc;

use contract::TokenId;

/// Text that has no spaces is not held back for longer than this many bytes.
const LONGEST_PIECE: usize = 256;

type Function = dyn Fn(&str) -> Vec<TokenId> + Send + Sync;

/// Turns text into tokens.
#[derive(Clone)]
pub struct Tokenize(Arc<Function>);

impl Tokenize {
    pub fn new(tokenize: impl Fn(&str) -> Vec<TokenId> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tokenize))
    }

    pub fn tokens(&self, text: &str) -> Vec<TokenId> {
        (self.0)(text)
    }
}

impl fmt::Debug for Tokenize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokenize")
    }
}

/// The text of one answer.
#[derive(Debug)]
pub struct Retokenizer {
    tokenize: Tokenize,
    held_back: String,
}

impl Retokenizer {
    pub fn new(tokenize: Tokenize) -> Self {
        Self {
            tokenize,
            held_back: String::new(),
        }
    }

    /// Adds text and returns the tokens that are final by now.
    pub fn push(&mut self, text: &str) -> Vec<TokenId> {
        self.held_back.push_str(text);
        let end = safe_end(&self.held_back);
        let rest = self.held_back.split_off(end);
        let piece = std::mem::replace(&mut self.held_back, rest);
        self.tokens(&piece)
    }

    /// Returns the rest, at the end of the text.
    pub fn finish(&mut self) -> Vec<TokenId> {
        let piece = std::mem::take(&mut self.held_back);
        self.tokens(&piece)
    }

    fn tokens(&self, piece: &str) -> Vec<TokenId> {
        if piece.is_empty() {
            return Vec::new();
        }
        self.tokenize.tokens(piece)
    }
}

/// Where the text can be split without a change of its tokens, whatever follows: before the
/// last space that begins a word.
fn safe_end(text: &str) -> usize {
    let mut end = 0;
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let begins_word = character == ' '
            && before.is_some_and(|before: char| !before.is_whitespace())
            && characters
                .peek()
                .is_some_and(|(_, next)| next.is_alphanumeric());
        if begins_word {
            end = at;
        }
        before = Some(character);
    }
    if text.len() - end > LONGEST_PIECE {
        text.len()
    } else {
        end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A token is a word with the space before it, or a single character: the number is an
    /// index into what has been seen.
    #[derive(Clone, Default)]
    struct Toy(Arc<parking_lot::Mutex<Vec<String>>>);

    impl Toy {
        fn tokenize(&self) -> Tokenize {
            let toy = self.clone();
            Tokenize::new(move |text| toy.tokens(text))
        }

        fn tokens(&self, text: &str) -> Vec<TokenId> {
            let mut tokens = Vec::new();
            let mut rest = text;
            while let Some(first) = rest.chars().next() {
                let word = rest[first.len_utf8()..].find(|c: char| !c.is_alphanumeric());
                let word = word.map_or(rest.len(), |end| end + first.len_utf8());
                let starts = first == ' ' || first.is_alphanumeric();
                let end = if starts { word } else { first.len_utf8() };
                let (token, after) = rest.split_at(end);
                tokens.push(self.id(token));
                rest = after;
            }
            tokens
        }

        fn id(&self, token: &str) -> TokenId {
            let mut known = self.0.lock();
            let at = known
                .iter()
                .position(|other| other == token)
                .unwrap_or_else(|| {
                    known.push(token.to_owned());
                    known.len() - 1
                });
            at as TokenId
        }

        fn text(&self, tokens: &[TokenId]) -> String {
            let known = self.0.lock();
            tokens
                .iter()
                .map(|token| known[*token as usize].as_str())
                .collect()
        }
    }

    #[test]
    fn a_word_waits_for_its_end() {
        let toy = Toy::default();
        let mut retokenizer = Retokenizer::new(toy.tokenize());
        assert_eq!(toy.text(&retokenizer.push("un")), "");
        assert_eq!(toy.text(&retokenizer.push("til the")), "until");
        assert_eq!(toy.text(&retokenizer.push("n")), "");
        assert_eq!(toy.text(&retokenizer.push("  \n")), "");
        assert_eq!(toy.text(&retokenizer.finish()), " then  \n");
        assert!(retokenizer.finish().is_empty());
    }

    #[test]
    fn text_without_spaces_is_not_held_back_for_ever() {
        let toy = Toy::default();
        let mut retokenizer = Retokenizer::new(toy.tokenize());
        let text = "字".repeat(100);
        assert_eq!(toy.text(&retokenizer.push(&text)), text);
    }

    proptest! {
        #[test]
        fn the_text_comes_out_as_it_went_in_and_the_tokens_are_those_of_the_whole(
            pieces in prop::collection::vec("[a-d \n.é字]{0,12}", 0..30),
        ) {
            let toy = Toy::default();
            let mut retokenizer = Retokenizer::new(toy.tokenize());
            let mut tokens: Vec<TokenId> = Vec::new();
            for piece in &pieces {
                tokens.extend(retokenizer.push(piece));
            }
            tokens.extend(retokenizer.finish());
            let whole = pieces.concat();
            prop_assert_eq!(toy.text(&tokens), whole.clone());
            if whole.len() <= LONGEST_PIECE {
                prop_assert_eq!(tokens, toy.tokens(&whole));
            }
        }
    }
}
