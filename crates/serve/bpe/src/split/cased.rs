//! Words that end where upper case begins: o200k, and Mistral's Tekken.
//!
//! A word is an optional character that is neither letter, number nor line break, then characters
//! that may be upper case, then those that may be lower case. Characters without a case and marks
//! may be either, and the first group takes all it can. So where no lower-case letter follows the
//! first group, the second takes the last character without a case out of it, and if there is
//! none, the word is the first group alone.

use std::ops::Range;

use super::{contraction, has, number, space};
use crate::characters::{
    CASELESS, Characters, LETTER, LOWER, MARK, NUMBER, Properties, SPACE, UPPER,
};

/// With `(?i:'s|'t|'re|'ve|'m|'ll|'d)?` after the words, where they may have contractions:
/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
#[inline]
pub(super) fn words<'a>(
    characters: &Characters,
    text: &'a str,
    digits: usize,
    contractions: bool,
    word: &mut impl FnMut(&'a str),
) {
    let mut at = 0;
    while let Some((properties, after)) = characters.at(text, at) {
        let end = match letters(characters, text, at..after, properties) {
            _ if has(properties, NUMBER) => number(characters, text, at, digits).unwrap_or(after),
            Some(end) if contractions => contraction(text, end, true).unwrap_or(end),
            Some(end) => end,
            None => other(characters, text, at..after, properties),
        };
        word(&text[at..end]);
        at = end;
    }
}

/// Where a word with letters or marks ends that starts with a character between these places.
#[inline]
fn letters(
    characters: &Characters,
    text: &str,
    Range {
        start: at,
        end: after,
    }: Range<usize>,
    first: Properties,
) -> Option<usize> {
    if has(first, NUMBER) {
        return None;
    }
    let alone = || Groups::measure(characters, text, at);
    if has(first, LETTER) {
        let groups = alone();
        return groups.both.or(groups.upper);
    }
    if matches!(text.as_bytes()[at], b'\r' | b'\n') {
        return None;
    }
    // Both groups behind the optional character, both without it, then the first group likewise.
    let led = Groups::measure(characters, text, after);
    // A character that is neither mark nor letter is no group's.
    let alone = if has(first, MARK) {
        alone()
    } else {
        Groups::default()
    };
    led.both.or(alone.both).or(led.upper).or(alone.upper)
}

/// Where the two groups of a word end, if they match.
#[derive(Default)]
struct Groups {
    /// The first, of any length, and the second.
    both: Option<usize>,
    /// The first alone.
    upper: Option<usize>,
}

impl Groups {
    #[inline]
    fn measure(characters: &Characters, text: &str, start: usize) -> Self {
        // The end of the first group, and of the last character in it that the second may take.
        let (mut upper, mut either) = (start, None);
        while let Some((properties, after)) = characters.at(text, upper)
            && has(properties, UPPER | CASELESS | MARK)
        {
            upper = after;
            if has(properties, CASELESS | MARK) {
                either = Some(after);
            }
        }
        let lower = characters.run(text, upper, LOWER | CASELESS | MARK);
        Self {
            both: if lower > upper { Some(lower) } else { either },
            upper: (upper > start).then_some(upper),
        }
    }
}

/// Where a word without letters and numbers ends.
fn other(
    characters: &Characters,
    text: &str,
    Range {
        start: at,
        end: after,
    }: Range<usize>,
    first: Properties,
) -> usize {
    let follows = || characters.at(text, after);
    let visible = |properties| !has(properties, SPACE | LETTER | NUMBER);
    let led = text.as_bytes()[at] == b' ' && follows().is_some_and(|(second, _)| visible(second));
    if led || visible(first) {
        let end = characters.run_without(text, after, SPACE | LETTER | NUMBER);
        let rest = &text.as_bytes()[end..];
        let ends = rest
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/'));
        return end + ends.count();
    }
    space::run_or_lines(characters, text, at)
}
