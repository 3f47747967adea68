//! Whole files against the library.

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::*;
use crate::fixture::{Family, PIECES};

/// Ours, and the library's with and without special tokens parsed.
struct Pair {
    ours: Encoder,
    parsing: Tokenizer,
    plain: Tokenizer,
}

fn load(file: &Value) -> Pair {
    let json = serde_json::to_vec(file).unwrap();
    let parsing = Tokenizer::from_bytes(&json).unwrap();
    let mut plain = parsing.clone();
    plain.set_encode_special_tokens(true);
    Pair {
        ours: Encoder::read(&json).unwrap(),
        parsing,
        plain,
    }
}

impl Pair {
    #[track_caller]
    fn check(&self, text: &str, name: &str) {
        for (library, parse_special) in [(&self.parsing, true), (&self.plain, false)] {
            let mut tokens = Vec::new();
            self.ours.encode(text, parse_special, &mut tokens);
            let expected = library.encode_fast(text, false).unwrap();
            assert_eq!(
                tokens,
                expected.get_ids(),
                "{name} {text:?} {parse_special}"
            );
        }
    }
}

/// Two by two the roots, then what came of them.
fn some_merges() -> Vec<(u16, u16)> {
    (0..60).map(|at| (at * 7 % 31, at * 5 % 23)).collect()
}

#[test]
fn texts_become_the_tokens_of_the_library() {
    for family in Family::all() {
        let pair = load(&family.file(&some_merges()));
        for text in [
            "",
            " ",
            "a",
            "abes ab's  'S\n\n a\r\nb",
            "<s>abe<end>  \n a <mask> b<tool><s><tool>",
            "<think>ab <think> e\u{301}e\u{301} éé",
            "▁a▁ a<0x0A>\n",
            "日本é😀\u{0}\u{378}",
            "<s>",
            " <mask><end> ",
            "<tool<tool><tool",
        ] {
            pair.check(text, &family.name);
        }
        for piece in PIECES {
            pair.check(&piece.repeat(70), &family.name);
        }
    }
}

#[test]
fn a_long_word_is_the_librarys_too() {
    for family in Family::all() {
        let pair = load(&family.file(&some_merges()));
        pair.check(&"abe".repeat(10_000), &family.name);
        pair.check(&"日".repeat(10_000), &family.name);
    }
}

#[test]
fn a_byte_without_a_token_is_left_out() {
    let mut file = Family::all()[2].file(&[]);
    let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.remove("b");
    let last = vocabulary.remove("ÿ").unwrap();
    vocabulary.insert("aa".to_owned(), 98.into());
    vocabulary.insert("Ġa".to_owned(), last);
    file["model"]["merges"] = json!([["a", "a"], ["Ġ", "a"]]);
    let pair = load(&file);
    for text in ["b", "abab", " ba b", "aab<tool>b"] {
        pair.check(text, "without b");
    }
}

/// What the general tokenizer has to do, and why.
#[test]
fn what_is_not_understood_is_refused_by_name() {
    let family = &Family::all()[2];
    let characters = Family::all().pop().unwrap();
    let with = |path: &str, value: Value| {
        let mut file = family.file(&[]);
        *file.pointer_mut(path).unwrap() = value;
        file
    };
    let mut no_fallback = characters.file(&[]);
    no_fallback["model"]["byte_fallback"] = false.into();
    let mut byte_lost = family.file(&[]);
    let vocabulary = byte_lost["model"]["vocab"].as_object_mut().unwrap();
    vocabulary.remove("Ġ");
    byte_lost["model"]["unk_token"] = "a".into();
    for (file, expected) in [
        (
            with("/normalizer", json!({ "type": "NFKC" })),
            "normalizer: NFKC",
        ),
        (
            with("/pre_tokenizer", json!({ "type": "Whitespace" })),
            "pre-tokenizer: Whitespace",
        ),
        (with("/pre_tokenizer", Value::Null), "pre-tokenizer: none"),
        (
            with(
                "/pre_tokenizer/pretokenizers/0/pattern/Regex",
                json!(r"\w+"),
            ),
            r"split pattern: \w+",
        ),
        (
            with("/pre_tokenizer/pretokenizers/0/behavior", json!("Removed")),
            "split: Removed",
        ),
        (
            with(
                "/pre_tokenizer/pretokenizers/1/add_prefix_space",
                json!(true),
            ),
            "option: add_prefix_space",
        ),
        (with("/model/dropout", json!(0.5)), "option: dropout"),
        (
            with("/model/end_of_word_suffix", json!("</w>")),
            "option: end_of_word_suffix",
        ),
        (
            with("/model/continuing_subword_prefix", json!("##")),
            "option: continuing_subword_prefix",
        ),
        (with("/model/type", json!("WordPiece")), "model: WordPiece"),
        (
            with("/added_tokens/0/single_word", json!(true)),
            "added token of single words: <s>",
        ),
        (
            with("/added_tokens/5/lstrip", json!(true)),
            "normalized and stripping token: <think>",
        ),
        (
            with("/added_tokens/1/content", json!("<s>")),
            "added token that comes twice: <s>",
        ),
        (no_fallback, "option: no byte_fallback"),
        (byte_lost, "byte without a token: 32"),
    ] {
        let refused = Encoder::read(&serde_json::to_vec(&file).unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
    assert!(Encoder::read(b"{}").is_err());
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        9 => prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_merges_and_any_text(
        merges in prop::collection::vec(any::<(u8, u8)>(), 0..80),
        texts in prop::collection::vec(texts(), 1..4),
        family in 0_usize..64,
    ) {
        let families = Family::all();
        let family = &families[family % families.len()];
        let merges: Vec<_> = merges.iter().map(|(left, right)| (u16::from(*left), u16::from(*right))).collect();
        let pair = load(&family.file(&merges));
        for text in texts {
            pair.check(&text, &family.name);
        }
    }
}
