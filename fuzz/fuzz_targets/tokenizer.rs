//! A text and a vocabulary, encoded by our tokenizer and by the `tokenizers` library.
//!
//! Asserts that both give the same tokens, with special tokens parsed and not. The input chooses
//! the family, the merges, and the text: pieces of which vocabularies are made, or any text.

#![no_main]

use bpe::Encoder;
use bpe::fixture::{Family, PIECES};
use homing_fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tokenizers::Tokenizer;

static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(Family::all);

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let family = &FAMILIES[usize::from(input.byte()) % FAMILIES.len()];
    let count = input.byte() % 64;
    let mut merge = || (u16::from(input.byte()), u16::from(input.byte()));
    let merges: Vec<_> = (0..count).map(|_| merge()).collect();
    let mut text = String::new();
    while !input.is_empty() {
        match input.byte() {
            // What follows is text as it is, up to what is not.
            255 => {
                let rest = std::mem::take(&mut input.0);
                text.push_str(&String::from_utf8_lossy(rest));
            }
            piece @ 128.. => {
                let piece = PIECES[usize::from(piece) % PIECES.len()];
                text.push_str(&piece.repeat(usize::from(input.byte())));
            }
            piece => text.push_str(PIECES[usize::from(piece) % PIECES.len()]),
        }
    }
    let file = family.file(&merges).to_string();
    let ours = Encoder::read(file.as_bytes()).expect("the family is understood");
    let mut library = Tokenizer::from_bytes(file.as_bytes()).expect("the file is valid");
    for parse_special in [true, false] {
        library.set_encode_special_tokens(!parse_special);
        let expected = library
            .encode_fast(text.as_str(), false)
            .expect("it has tokens");
        let mut tokens = Vec::new();
        ours.encode(&text, parse_special, &mut tokens);
        assert_eq!(tokens, expected.get_ids(), "{} {text:?}", family.name);
    }
});
