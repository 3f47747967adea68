//! Canonical composition, NFC, as models' tokenizers apply it.
//!
//! Nearly every text is composed already, and seeing that costs a look at each character beyond
//! Latin. What is not sure to be composed goes through the crate that the `tokenizers` library
//! uses: its tables are of an old Unicode, and newer ones would compose characters that a model's
//! own tokenizer leaves alone.

use std::borrow::Cow;
use std::sync::LazyLock;

use unicode_normalization_alignments::char::canonical_combining_class;
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// No character before it changes or combines with one before it.
const FIRST_COMBINING: char = '\u{300}';
/// The first byte of [`FIRST_COMBINING`] in UTF-8.
const FIRST_BYTE: u8 = 0xcc;
/// None from here on does either.
const END: u32 = 0x2_fa1e;

pub(crate) fn compose(text: &str) -> Cow<'_, str> {
    if is_inert(text) || matches!(is_nfc_quick(text.chars()), IsNormalized::Yes) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().map(|(character, _)| character).collect())
}

/// Whether every character is composed whatever stands beside it.
fn is_inert(text: &str) -> bool {
    let Some(at) = text.bytes().position(|byte| byte >= FIRST_BYTE) else {
        return true;
    };
    let inert = Inert::get();
    text[at..]
        .chars()
        .all(|character| inert.contains(character))
}

/// The characters that are composed whatever stands beside them.
struct Inert(Box<[u64]>);

impl Inert {
    fn get() -> &'static Self {
        static INERT: LazyLock<Inert> = LazyLock::new(|| {
            let mut bits = vec![0; (END / 64 + 1) as usize];
            for character in '\0'..char::from_u32(END).expect("it is a character") {
                let alone = matches!(is_nfc_quick(std::iter::once(character)), IsNormalized::Yes);
                if alone && canonical_combining_class(character) == 0 {
                    let code = character as usize;
                    bits[code / 64] |= 1 << (code % 64);
                }
            }
            Inert(bits.into())
        });
        &INERT
    }

    #[inline]
    fn contains(&self, character: char) -> bool {
        let code = character as usize;
        character < FIRST_COMBINING || character as u32 >= END || {
            self.0[code / 64] & 1 << (code % 64) != 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortcut_knows_every_character() {
        for character in '\0'..=char::MAX {
            let alone = matches!(is_nfc_quick(std::iter::once(character)), IsNormalized::Yes);
            let inert = alone && canonical_combining_class(character) == 0;
            assert_eq!(Inert::get().contains(character), inert, "{character:?}");
        }
    }

    #[test]
    fn what_is_decomposed_is_composed() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("e\u{301}te\u{301}", "été"),
            ("\u{212b}", "Å"),
            ("\u{1100}\u{1161}\u{11a8}", "각"),
            ("q\u{307}\u{323}", "q\u{323}\u{307}"),
            ("日本\u{3099}", "日本\u{3099}"),
            ("か\u{3099}", "が"),
        ] {
            assert_eq!(compose(text), expected, "{text:?}");
        }
    }
}
