//! Words as runs of letters: GPT-2, and cl100k with its descendants.

use std::ops::Range;

use super::{contraction, has, number, space};
use crate::characters::{Characters, LETTER, NUMBER, Properties, SPACE};

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
/// where `letters` is `\p{L}`, or `[\p{L}\p{M}]` in both places.
#[inline]
pub(super) fn words<'a>(
    characters: &Characters,
    text: &'a str,
    digits: usize,
    letters: Properties,
    word: &mut impl FnMut(&'a str),
) {
    let mut at = 0;
    while let Some((first, after)) = characters.at(text, at) {
        let end = match has(first, NUMBER) {
            true => number(characters, text, at, digits).unwrap_or(after),
            false => word_end(characters, text, at..after, first, letters),
        };
        word(&text[at..end]);
        at = end;
    }
}

/// Where a word ends that starts with a character between these places, which is no number.
#[inline]
fn word_end(
    characters: &Characters,
    text: &str,
    Range {
        start: at,
        end: after,
    }: Range<usize>,
    first: Properties,
    letters: Properties,
) -> usize {
    if has(first, letters) {
        return characters.run(text, after, letters);
    }
    let byte = text.as_bytes()[at];
    if byte == b'\''
        && let Some(end) = contraction(text, at, true)
    {
        return end;
    }
    let (second, after_second) = characters.at(text, after).unwrap_or((0, after));
    if has(second, letters) && !matches!(byte, b'\r' | b'\n') {
        return characters.run(text, after_second, letters);
    }
    let hidden = SPACE | letters | NUMBER;
    let leads = byte == b' ' && after_second > after && !has(second, hidden);
    if leads || !has(first, SPACE) {
        let end = characters.run_without(text, after, hidden);
        return line_breaks(text, end);
    }
    space::run_or_lines(characters, text, at)
}

fn line_breaks(text: &str, at: usize) -> usize {
    let rest = &text.as_bytes()[at..];
    let breaks = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    at + breaks.count()
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub(super) fn gpt2_words<'a>(
    characters: &Characters,
    text: &'a str,
    word: &mut impl FnMut(&'a str),
) {
    let mut at = 0;
    while let Some((properties, after)) = characters.at(text, at) {
        let end = gpt2_word_end(characters, text, at, properties, after);
        word(&text[at..end]);
        at = end;
    }
}

#[inline]
fn gpt2_word_end(
    characters: &Characters,
    text: &str,
    at: usize,
    first: Properties,
    after: usize,
) -> usize {
    let byte = text.as_bytes()[at];
    if byte == b'\''
        && let Some(end) = contraction(text, at, false)
    {
        return end;
    }
    // What the optional space is before.
    let led = (byte == b' ').then(|| characters.at(text, after)).flatten();
    let (kind, from) = led.unwrap_or((first, after));
    if has(kind, LETTER) {
        return characters.run(text, from, LETTER);
    }
    if has(kind, NUMBER) {
        return characters.run(text, from, NUMBER);
    }
    if !has(kind, SPACE) {
        return characters.run_without(text, from, SPACE | LETTER | NUMBER);
    }
    space::run(characters, text, at)
}
