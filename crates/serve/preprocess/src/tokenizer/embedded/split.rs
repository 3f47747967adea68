//! Where a word ends, by o200k's pattern.
//!
//! The pattern's first two alternatives match a word: an optional character that is neither
//! letter, digit nor line break, then upper-case letters, then lower-case ones, at least one
//! in all, and an English contraction. Among ASCII that can be seen byte by byte, as long as
//! what follows is ASCII too: beyond it, a letter or mark may belong to the word. An
//! apostrophe may start a contraction. Those cases, and all that is not a word, are left to
//! the regular expression.

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, PatternID};

/// The pattern, except that white space before a word leaves its last character to the word:
/// that looks ahead, which a search in linear time cannot do.
const WORDS: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
    r"|\s+$",
);
const SPACE_BEFORE_A_WORD: (PatternID, &str) = (PatternID::new_unchecked(1), r"\s+\s");
const ONE_SPACE: &str = r"\s";

pub(super) struct Pattern(Regex);

impl Pattern {
    pub(super) fn compile() -> Self {
        let patterns = [WORDS, SPACE_BEFORE_A_WORD.1, ONE_SPACE];
        Self(Regex::new_many(&patterns).expect("the pattern is valid"))
    }

    /// How long the first word of `text` is, which is not empty. The pattern looks only ahead,
    /// so the words of the rest are those of the whole.
    pub(super) fn word_end(&self, text: &str) -> usize {
        simple_word(text.as_bytes()).unwrap_or_else(|| {
            let found = self.0.search(&Input::new(text).anchored(Anchored::Yes));
            let found = found.expect("the pattern matches every character");
            let word = &text[..found.end()];
            match found.pattern() == SPACE_BEFORE_A_WORD.0 {
                true => word.char_indices().next_back().map_or(0, |(at, _)| at),
                false => word.len(),
            }
        })
    }
}

/// The length of the word that `text` starts with, if it is a simple one.
fn simple_word(text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let start = match first {
        b'\r' | b'\n' => return None,
        _ if first.is_ascii_alphabetic() => 0,
        _ if first.is_ascii_digit() || !first.is_ascii() => return None,
        _ => 1,
    };
    let upper = run(&text[start..], u8::is_ascii_uppercase);
    let lower = run(&text[start + upper..], u8::is_ascii_lowercase);
    let end = start + upper + lower;
    if end == start {
        return lone_mark(text);
    }
    match text.get(end) {
        Some(b'\'' | 0x80..) => None,
        Some(_) | None => Some(end),
    }
}

/// A punctuation mark with a space behind it is a word: no letter for it to lead, no other
/// mark and no line break to join it.
fn lone_mark(text: &[u8]) -> Option<usize> {
    (text[0].is_ascii_punctuation() && text.get(1) == Some(&b' ')).then_some(1)
}

fn run(text: &[u8], belongs: fn(&u8) -> bool) -> usize {
    text.iter()
        .position(|byte| !belongs(byte))
        .unwrap_or(text.len())
}
