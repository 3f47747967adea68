//! The whole way from a text to its tokens.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use contract::TokenId;

use crate::added::{Added, Finder, Part};
use crate::file::File;
use crate::joints::Joints;
use crate::merge::Merger;
use crate::nfc;
use crate::rules::{Lead, Rules, SPACE_MARK};
use crate::split::{Splitter, Step};
use crate::vocabulary::Vocabulary;

/// A `tokenizer.json` that is not understood, and what of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {which}")]
pub struct Unsupported {
    what: &'static str,
    which: String,
}

impl Unsupported {
    pub(crate) fn new(what: &'static str, which: &str) -> Self {
        Self {
            what,
            which: which.to_owned(),
        }
    }
}

/// A loaded `tokenizer.json`.
#[derive(Debug)]
pub struct Encoder {
    /// Added tokens that are looked for in the text as it came, and after normalisation.
    raw: Finder,
    normalized: Finder,
    vocabulary: Vocabulary,
    words: WordsOf,
}

/// How a text falls into words.
#[derive(Debug)]
enum WordsOf {
    Bytes {
        nfc: bool,
        splitter: Splitter,
    },
    Characters {
        lead: Lead,
        marks_early: bool,
        joints: Joints,
        /// Whether a text that is a token is that token.
        ignore_merges: bool,
    },
}

impl Encoder {
    /// `json` is the content of the file.
    pub fn read(json: &[u8]) -> Result<Self, Unsupported> {
        let file: File<'_> = serde_json::from_slice(json)
            .map_err(|error| Unsupported::new("file", &error.to_string()))?;
        let (vocabulary, words) = match Rules::of(&file)? {
            Rules::Bytes { nfc, steps } => {
                let splitter = Splitter::new(steps);
                let vocabulary = Vocabulary::of_bytes(&file.model)?;
                (vocabulary, WordsOf::Bytes { nfc, splitter })
            }
            Rules::Characters { lead, marks_early } => {
                let (vocabulary, joints) = Vocabulary::of_characters(&file.model)?;
                let words = WordsOf::Characters {
                    lead,
                    marks_early,
                    joints,
                    ignore_merges: file.model.ignore_merges == Some(true),
                };
                (vocabulary, words)
            }
        };
        let (mut raw, mut normalized) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        for token in &file.added_tokens {
            // The library overlooks them.
            if token.content.is_empty() {
                continue;
            }
            let (list, text) = match token.normalized {
                true => (
                    &mut normalized,
                    words.normalize(&token.content).into_owned(),
                ),
                false => (&mut raw, token.content.clone()),
            };
            if !known.insert(text.clone()) {
                return Err(Unsupported::new("added token that comes twice", &text));
            }
            let added = Added {
                token: token.id,
                special: token.special,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
            };
            list.push((text, added));
        }
        let finder = |tokens| {
            Finder::new(tokens)
                .map_err(|error| Unsupported::new("added tokens", &error.to_string()))
        };
        Ok(Self {
            raw: finder(raw)?,
            normalized: finder(normalized)?,
            vocabulary,
            words,
        })
    }

    /// How text is split into words that merges never cross; nothing where it is not split.
    pub fn steps(&self) -> &[Step] {
        match &self.words {
            WordsOf::Bytes { splitter, .. } => splitter.steps(),
            WordsOf::Characters { .. } => &[],
        }
    }

    /// Appends the tokens of `text`. The names of special tokens in it become these tokens, or
    /// are text like any other.
    pub fn encode(&self, text: &str, parse_special: bool, out: &mut Vec<TokenId>) {
        let mut merger = Merger::default();
        self.raw.parts(text, parse_special, |part| match part {
            Part::Token(token) => out.push(token),
            Part::Text(text, at) => {
                let normalized = self.words.normalize(text);
                let parts = |part: Part<'_>| match part {
                    Part::Token(token) => out.push(token),
                    Part::Text(text, within) => {
                        self.encode_text(text, at + within == 0, &mut merger, out);
                    }
                };
                self.normalized.parts(&normalized, parse_special, parts);
            }
        });
    }

    /// Appends the tokens of a normalised text without added ones.
    fn encode_text(&self, text: &str, starts: bool, merger: &mut Merger, out: &mut Vec<TokenId>) {
        match &self.words {
            WordsOf::Bytes { splitter, .. } => {
                splitter.words(text, |word| self.vocabulary.encode(word, merger, out));
            }
            WordsOf::Characters {
                lead,
                marks_early,
                joints,
                ignore_merges,
            } => {
                let text = match marks_early {
                    true => Cow::Borrowed(text),
                    false => lead.apply(text, starts),
                };
                if *ignore_merges && let Some(token) = self.vocabulary.token(&text) {
                    out.push(token);
                    return;
                }
                joints.words(&text, |word| self.vocabulary.encode(word, merger, out));
            }
        }
    }
}

impl WordsOf {
    /// What the file's normalizer makes of a part of a text, with spaces for marks.
    fn normalize<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Bytes { nfc: true, .. } => nfc::compose(text),
            Self::Bytes { nfc: false, .. } => Cow::Borrowed(text),
            Self::Characters {
                lead,
                marks_early: true,
                ..
            } => lead.apply(text, false),
            Self::Characters { .. } => Cow::Borrowed(text),
        }
    }
}

impl Lead {
    /// Marks the spaces of a part of a text, with spaces for marks.
    fn apply(self, text: &str, starts: bool) -> Cow<'_, str> {
        let is_bare = || !text.starts_with([' ', SPACE_MARK]);
        let leads = match self {
            Self::Never => false,
            Self::EveryPart => true,
            Self::EveryBarePart => is_bare(),
            Self::BareStart => starts && is_bare(),
        };
        match leads {
            true => Cow::Owned(format!(" {}", unmark(text))),
            false => unmark(text),
        }
    }
}

/// A text with spaces for marks: where words are looked up they are the same.
fn unmark(text: &str) -> Cow<'_, str> {
    match text.contains(SPACE_MARK) {
        true => Cow::Owned(text.replace(SPACE_MARK, " ")),
        false => Cow::Borrowed(text),
    }
}
