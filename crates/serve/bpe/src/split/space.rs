//! White space, as all the patterns treat it.

use crate::characters::{Characters, SPACE};

/// Where a run of white space is split that starts at byte `at`, by `\s+(?!\S)|\s+`: space before
/// a word leaves its last character to the word.
#[inline]
pub(super) fn run(characters: &Characters, text: &str, at: usize) -> usize {
    let (_, last, end) = measure(characters, text, at);
    leave_last(text, at, last, end)
}

/// The same after `\s*[\r\n]+`: what ends in line breaks is one word.
#[inline]
pub(super) fn run_or_lines(characters: &Characters, text: &str, at: usize) -> usize {
    let (lines, last, end) = measure(characters, text, at);
    match lines {
        Some(lines) => lines,
        None => leave_last(text, at, last, end),
    }
}

fn leave_last(text: &str, at: usize, last: usize, end: usize) -> usize {
    match end == text.len() || last == at {
        true => end,
        false => last,
    }
}

/// Where the last line break of a run ends, where its last character starts, and its end.
#[inline]
fn measure(characters: &Characters, text: &str, at: usize) -> (Option<usize>, usize, usize) {
    let (mut lines, mut last, mut end) = (None, at, at);
    while let Some((properties, after)) = characters.at(text, end)
        && properties & SPACE != 0
    {
        if matches!(text.as_bytes()[end], b'\r' | b'\n') {
            lines = Some(after);
        }
        (last, end) = (end, after);
    }
    (lines, last, end)
}
