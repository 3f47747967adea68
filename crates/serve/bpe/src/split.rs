//! Where a text is split into words, which merges never cross.
//!
//! Models state it as regular expressions. They are few, so each is written out as a scanner
//! here: it looks at a character once or twice whatever the text is, where a backtracking engine
//! can be made to give up. Only a pattern that is equal to the letter counts as known.
//!
//! A splitter is a list of steps. Each splits what the one before it left, and sees no further
//! than that: what looks ahead to the end of a text (`\s+(?!\S)`) looks to the end of its part.

mod cased;
mod chinese;
mod lettered;
mod space;

#[cfg(test)]
mod tests;

use crate::characters::{Characters, LETTER, MARK, NUMBER, Properties};

/// What one step does to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// GPT-2.
    Gpt2,
    /// cl100k, Llama 3, Qwen, GLM 4: runs of letters, behind any character that is none.
    Lettered {
        /// How many digits a word has at most.
        digits: usize,
        /// Whether marks are taken for letters: Qwen 3.5.
        marks: bool,
    },
    /// o200k, Mistral's Tekken: words end where upper case begins.
    Cased {
        digits: usize,
        /// Whether `'s` and its like belong to the word before.
        contractions: bool,
    },
    /// Numbers by so many digits, apart from all else.
    Numbers { digits: usize },
    /// What Rust takes for numeric, each character alone.
    Digits,
    /// Runs of Chinese and Japanese characters, apart from all else.
    Chinese,
    /// DeepSeek's third step.
    DeepSeek,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The regular expressions, and whether they match every character.
pub(crate) const PATTERNS: [(&str, Step, bool); 10] = [
    (GPT2, Step::Gpt2, true),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Step::Lettered {
            digits: 3,
            marks: false,
        },
        true,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Step::Lettered {
            digits: 1,
            marks: false,
        },
        true,
    ),
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Step::Lettered {
            digits: 1,
            marks: true,
        },
        true,
    ),
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Step::Cased {
            digits: 3,
            contractions: true,
        },
        true,
    ),
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        Step::Cased {
            digits: 1,
            contractions: false,
        },
        true,
    ),
    (r"\p{N}{1,3}", Step::Numbers { digits: 3 }, false),
    (r"\p{N}", Step::Numbers { digits: 1 }, false),
    ("[一-龥\u{3040}-ゟ゠-ヿ]+", Step::Chinese, false),
    (
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
        Step::DeepSeek,
        false,
    ),
];

impl Step {
    /// The step that a regular expression stands for, and whether it matches every character.
    pub(crate) fn of_pattern(pattern: &str) -> Option<(Self, bool)> {
        let known = PATTERNS.iter().find(|(known, ..)| *known == pattern)?;
        Some((known.1, known.2))
    }
}

/// How a text is split.
#[derive(Clone, Debug)]
pub struct Splitter {
    steps: Vec<Step>,
    characters: &'static Characters,
}

impl Splitter {
    pub fn new(steps: Vec<Step>) -> Self {
        Self {
            steps,
            characters: Characters::get(),
        }
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Hands the words of `text` out, in order. None is empty, and together they are the text.
    #[inline]
    pub fn words<'a>(&self, text: &'a str, mut word: impl FnMut(&'a str)) {
        // The usual cases are one step, for which the calls below are compiled into the loop.
        match *self.steps {
            [
                Step::Lettered {
                    digits,
                    marks: false,
                },
            ] => {
                lettered::words(self.characters, text, digits, LETTER, &mut word);
            }
            [
                Step::Cased {
                    digits,
                    contractions,
                },
            ] => {
                cased::words(self.characters, text, digits, contractions, &mut word);
            }
            _ => self.take_steps(&self.steps, text, &mut word),
        }
    }

    fn take_steps<'a>(&self, steps: &[Step], text: &'a str, word: &mut dyn FnMut(&'a str)) {
        let Some((step, rest)) = steps.split_first() else {
            if !text.is_empty() {
                word(text);
            }
            return;
        };
        let characters = self.characters;
        let mut next = |part: &'a str| match rest {
            [] => word(part),
            _ => self.take_steps(rest, part, word),
        };
        match *step {
            Step::Gpt2 => lettered::gpt2_words(characters, text, &mut next),
            Step::Lettered { digits, marks } => {
                let letters = if marks { LETTER | MARK } else { LETTER };
                lettered::words(characters, text, digits, letters, &mut next);
            }
            Step::Cased {
                digits,
                contractions,
            } => cased::words(characters, text, digits, contractions, &mut next),
            Step::Numbers { digits } => {
                isolate(text, &mut next, |at| {
                    number(characters, text, at, digits).filter(|end| *end > at)
                });
            }
            Step::Digits => isolate(text, &mut next, |at| {
                let character = text[at..].chars().next()?;
                character.is_numeric().then_some(at + character.len_utf8())
            }),
            Step::Chinese => isolate(text, &mut next, |at| chinese::run(text, at)),
            Step::DeepSeek => isolate(text, &mut next, |at| {
                chinese::deep_seek_word(characters, text, at)
            }),
        }
    }
}

/// Hands out the matches in a text and what is between them. `matches` tells where a match ends
/// that starts at a character, if one does.
fn isolate<'a>(
    text: &'a str,
    word: &mut impl FnMut(&'a str),
    matches: impl Fn(usize) -> Option<usize>,
) {
    let (mut from, mut at) = (0, 0);
    while let Some(character) = text[at..].chars().next() {
        let Some(end) = matches(at) else {
            at += character.len_utf8();
            continue;
        };
        if from < at {
            word(&text[from..at]);
        }
        word(&text[at..end]);
        (from, at) = (end, end);
    }
    if from < text.len() {
        word(&text[from..]);
    }
}

/// Where a number of at most so many digits ends; `None` where none starts.
#[inline]
fn number(characters: &Characters, text: &str, at: usize, digits: usize) -> Option<usize> {
    let mut end = at;
    for _ in 0..digits {
        match characters.at(text, end) {
            Some((properties, after)) if properties & NUMBER != 0 => end = after,
            Some(_) | None => break,
        }
    }
    (end > at).then_some(end)
}

/// Where `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d` ends, with the apostrophe at byte `at`.
#[inline]
fn contraction(text: &str, at: usize, any_case: bool) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    let &[b'\'', first, ..] = rest else {
        return None;
    };
    // The long s is an s of another case.
    if any_case && rest[1..].starts_with("ſ".as_bytes()) {
        return Some(at + 3);
    }
    let fold = |byte: u8| {
        if any_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let second = rest.get(2).copied().map(fold);
    match (fold(first), second) {
        (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(at + 3),
        _ => None,
    }
}

/// Whether a character has any of these properties.
const fn has(properties: Properties, any: Properties) -> bool {
    properties & any != 0
}
