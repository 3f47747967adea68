//! However tokens cut characters, the text is that of all bytes at once.

use proptest::prelude::*;

use super::*;
use crate::tokenizer::{Specials, embedded};

fn detokenize(tokens: &[TokenId]) -> (String, Vec<String>) {
    let mut detokenizer = Detokenizer::new(Arc::new(Tokenizer::embedded()));
    let mut steps = Vec::new();
    for &token in tokens {
        let mut step = String::new();
        detokenizer.push(token, &mut step);
        steps.push(step);
    }
    let mut rest = String::new();
    detokenizer.finish(&mut rest);
    steps.push(rest);
    (steps.concat(), steps)
}

/// The token of one byte.
fn byte_token(byte: u8) -> TokenId {
    (0..256)
        .find(|&id| Tokenizer::embedded().token_bytes(id) == Some(&[byte]))
        .expect("o200k starts with the bytes")
}

#[test]
fn a_character_waits_for_its_last_byte() {
    let tokens: Vec<TokenId> = "a🦀b".bytes().map(byte_token).collect();
    let (_, steps) = detokenize(&tokens);
    assert_eq!(steps, ["a", "", "", "", "🦀", "b", ""]);
}

#[test]
fn bytes_that_cannot_become_a_character_are_replaced_at_once() {
    let tokens: Vec<TokenId> = [0xff, b'a', 0xe4, 0xb8, b'b', 0xe4].map(byte_token).into();
    let (_, steps) = detokenize(&tokens);
    assert_eq!(
        steps,
        ["\u{fffd}", "a", "", "", "\u{fffd}b", "", "\u{fffd}"]
    );
}

#[test]
fn special_tokens_are_skipped() {
    let (text, _) = detokenize(&[24912, embedded::END_OF_TURN, 2375, u32::MAX]);
    assert_eq!(text, "hello world");
}

proptest! {
    #[test]
    fn any_tokens_give_the_text_of_their_bytes(
        tokens in prop::collection::vec(prop_oneof![0_u32..256, 0_u32..200_030], 0..60),
    ) {
        let tokenizer = Tokenizer::embedded();
        let bytes: Vec<u8> = tokens
            .iter()
            .filter(|&&id| !tokenizer.is_special(id))
            .flat_map(|&id| tokenizer.token_bytes(id).unwrap())
            .copied()
            .collect();
        let (text, _) = detokenize(&tokens);
        prop_assert_eq!(&text, &String::from_utf8_lossy(&bytes));
        prop_assert_eq!(text, tokenizer.decode(&tokens));
    }

    #[test]
    fn text_survives_the_round_trip(text in any::<String>()) {
        let tokens = Tokenizer::embedded().encode(&text, Specials::Plain).unwrap();
        prop_assert_eq!(detokenize(&tokens).0, text);
    }
}
