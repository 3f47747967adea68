//! Where a simple word ends, by o200k's pattern.
//!
//! The pattern's first two alternatives match a word: an optional character that is neither
//! letter, digit nor line break, then upper-case letters, then lower-case ones, at least one
//! in all, and an English contraction. Among ASCII that can be seen byte by byte, as long as
//! what follows is ASCII too: beyond it, a letter or mark may belong to the word. An
//! apostrophe may start a contraction. Those cases, and all that is not a word, are left to
//! the regular expression.

/// The length of the word that `text` starts with, if it is a simple one.
pub(super) fn simple_word(text: &[u8]) -> Option<usize> {
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
