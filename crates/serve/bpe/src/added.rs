//! Tokens that a model's files add to the vocabulary, such as `<|im_start|>`.
//!
//! They are found before the text is split: the leftmost match first, and of those the longest.
//! Some are looked for in the text as it came, some after normalisation; each kind has a finder of
//! its own. A special token that is to be taken for text is skipped whole, and hides shorter ones
//! inside it: so does the library.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use contract::TokenId;

/// A token of the list, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) token: TokenId,
    pub(crate) special: bool,
    /// Whether it takes the space before it, and that after it.
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
}

/// Finds the tokens of one kind.
#[derive(Debug)]
pub(crate) struct Finder {
    /// `None` if there are no tokens to find.
    automaton: Option<AhoCorasick>,
    tokens: Vec<Added>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Token(TokenId),
    /// Not empty, and where it starts.
    Text(&'a str, usize),
}

impl Finder {
    /// Tokens by what they look like; no text may be empty or come twice.
    pub(crate) fn new(tokens: Vec<(String, Added)>) -> Result<Self, BuildError> {
        let (texts, tokens): (Vec<_>, Vec<_>) = tokens.into_iter().unzip();
        let build = || {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&texts)
        };
        let automaton = (!texts.is_empty()).then(build).transpose()?;
        Ok(Self { automaton, tokens })
    }

    /// Hands the parts of `text` out, in order.
    pub(crate) fn parts<'a>(
        &self,
        text: &'a str,
        parse_special: bool,
        mut part: impl FnMut(Part<'a>),
    ) {
        let mut from = 0;
        for found in self.automaton.iter().flat_map(|all| all.find_iter(text)) {
            let added = &self.tokens[found.pattern().as_usize()];
            if added.special && !parse_special {
                continue;
            }
            let (mut start, mut end) = (found.start(), found.end());
            if added.lstrip {
                // The token before may have taken the space, and more.
                start = text[..start].trim_end().len().max(from);
            }
            if added.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if from < start {
                part(Part::Text(&text[from..start], from));
            }
            part(Part::Token(added.token));
            from = end;
        }
        if from < text.len() {
            part(Part::Text(&text[from..], from));
        }
    }
}
