//! Where a text may be cut without changing its tokens.
//!
//! Byte-pair merges never cross the pieces that a tokenizer's split pattern makes, so two
//! halves of a text tokenise like the whole exactly if the pattern splits at the cut, and
//! splits the left half alone as it does with the right half behind it. The patterns of
//! o200k, Tekken, cl100k, Llama 3, Qwen 2 and GPT-2 all tile the text from left to right, look
//! at most one character ahead (`\s+(?!\S)`) and never behind. Two kinds of places are safe:
//!
//! 1. **Between `\n` and an ASCII letter.** No alternative matches a line break followed by a
//!    letter: the optional character before letters excludes `\r` and `\n` (GPT-2: is a
//!    space). So a match ends at the cut. On the left, the only alternative that looks
//!    ahead is `\s+(?!\S)`, which matters only for a run of white space that reaches the cut,
//!    and `\s*[\r\n]+`, tried earlier, takes such a run whole because it ends in `\n`.
//!    GPT-2's pattern lacks `\s*[\r\n]+`; there the character before `\n` must be visible,
//!    so that the run is that one character, which the last two alternatives treat alike.
//! 2. **Before a space with an ASCII letter on both sides.** What matches the letter on the
//!    left ends with it: after letters there can only come more letters, marks or an
//!    apostrophe. Nothing looks ahead from there, since the left half ends in a letter. The
//!    right half starts a match of its own, and none looks behind.
//!
//! DeepSeek and SmolLM split in steps. The first ones isolate numbers and Chinese characters,
//! none of which are at a cut: the parts on both sides of it are the same, but for the one that
//! is cut. What splits that one is GPT-2's pattern, or DeepSeek's, of which the same holds: its
//! first alternative is a punctuation mark and ASCII letters, the second has an optional
//! character that excludes line breaks before letters and marks, and the others are as above.
//! A part that a number ends may start with the line break; GPT-2's last two alternatives treat
//! that one character alike.
//!
//! NFC, which Qwen applies first, composes characters only with following marks, so it
//! never changes anything across an ASCII character that follows the cut.
//!
//! A cut depends on the text before it and the two characters behind it, never on where
//! the text ends: a conversation that grows keeps all of its pieces but the last.

/// Which split pattern the tokenizer has, as far as cuts are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitPattern {
    /// White space that ends in line breaks is one piece: o200k, Tekken, cl100k, Llama 3, Qwen 2,
    /// DeepSeek.
    GroupsLineBreaks,
    /// GPT-2, SmolLM: white space before a word loses its last character to it.
    Gpt2,
}

impl SplitPattern {
    /// Whether `text` may be cut before byte `at`.
    pub(crate) fn may_cut(self, text: &[u8], at: usize) -> bool {
        if at == 0 || at >= text.len() {
            return false;
        }
        match (text[at - 1], text[at]) {
            (b'\n', right) if right.is_ascii_alphabetic() => match self {
                Self::GroupsLineBreaks => true,
                Self::Gpt2 => at >= 2 && text[at - 2].is_ascii_graphic(),
            },
            (left, b' ') if left.is_ascii_alphabetic() => {
                text.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
            }
            _ => false,
        }
    }

    /// Cuts `text` into pieces of at least `min_bytes`, except the last.
    pub fn pieces(self, text: &str, min_bytes: usize) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let bytes = rest.as_bytes();
            let cut = (min_bytes.max(1)..bytes.len()).find(|&at| self.may_cut(bytes, at));
            // Both sides of a cut are ASCII, so it is never inside a character.
            let (piece, after) = rest.split_at(cut.unwrap_or(rest.len()));
            rest = after;
            Some(piece)
        })
    }
}
