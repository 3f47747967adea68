//! DeepSeek's steps.

use super::{has, space};
use crate::characters::{Characters, LETTER, MARK, PUNCTUATION, SPACE, SYMBOL};

/// `[一-龥぀-ゟ゠-ヿ]+`: where such a run ends; `None` where none starts.
pub(super) fn run(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let other = rest.find(|character| !matches!(character, '一'..='龥' | '\u{3040}'..='\u{30ff}'));
    match other {
        Some(0) => None,
        Some(length) => Some(at + length),
        None => (!rest.is_empty()).then_some(text.len()),
    }
}

/// ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``
pub(super) fn deep_seek_word(characters: &Characters, text: &str, at: usize) -> Option<usize> {
    let (first, after) = characters.at(text, at)?;
    let bytes = text.as_bytes();
    let byte = bytes[at];
    if byte.is_ascii_punctuation() {
        let letters = bytes[after..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic());
        let letters = letters.count();
        if letters > 0 {
            return Some(after + letters);
        }
    }
    let second = characters.at(text, after);
    if has(first, LETTER | MARK) {
        return Some(characters.run(text, after, LETTER | MARK));
    }
    let leads = !matches!(byte, b'\r' | b'\n') && !has(first, PUNCTUATION | SYMBOL);
    if leads && second.is_some_and(|(second, _)| has(second, LETTER | MARK)) {
        return Some(characters.run(text, after, LETTER | MARK));
    }
    let led = byte == b' ' && second.is_some_and(|(second, _)| has(second, PUNCTUATION | SYMBOL));
    if led || has(first, PUNCTUATION | SYMBOL) {
        let end = characters.run(text, after, PUNCTUATION | SYMBOL);
        let rest = &bytes[end..];
        let breaks = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        return Some(end + breaks.count());
    }
    has(first, SPACE).then(|| space::run_or_lines(characters, text, at))
}
