//! A model's tokenizer with our cuts and cache against the library alone.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::*;
use crate::detokenize::Detokenizer;
use crate::encode::Encoder;
use crate::piece_cache::PieceCache;
use crate::tokenizer::Tokenizer;

fn load(file: &serde_json::Value) -> Tokenizer {
    let vocabulary = HuggingFace::parse(&serde_json::to_vec(file).unwrap()).unwrap();
    Tokenizer::hugging_face(vocabulary, None, String::new(), [].into())
}

/// Name, ours, and the library's.
type Pair = (&'static str, Arc<Tokenizer>, Tokenizers);

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let pair = |(name, mut file): (&'static str, serde_json::Value)| {
        let ours = Arc::new(load(&file));
        file["truncation"] = serde_json::Value::Null;
        (
            name,
            ours,
            Tokenizers::from_bytes(serde_json::to_vec(&file).unwrap()).unwrap(),
        )
    };
    fixture::variants().into_iter().map(pair).collect()
});

#[test]
fn only_known_rules_are_cut() {
    for (name, ours, _) in &*PAIRS {
        let expected = match *name {
            "llama" | "qwen" | "o200k" | "tekken" | "deepseek" => {
                Some(SplitPattern::GroupsLineBreaks)
            }
            "gpt2" | "gpt2 split" | "smollm" => Some(SplitPattern::Gpt2),
            _ => None,
        };
        assert_eq!(ours.split_pattern(), expected, "{name}");
    }
}

#[test]
fn an_added_token_that_a_cut_would_part_forbids_cutting() {
    for content in ["a b", "x\ny"] {
        let mut file = fixture::llama();
        file["added_tokens"][2]["content"] = content.into();
        assert_eq!(load(&file).split_pattern(), None, "{content:?}");
    }
}

#[test]
fn a_special_token_is_matched_before_normalisation_or_not_by_us() {
    let mut file = fixture::llama();
    file["added_tokens"][1]["normalized"] = true.into();
    assert_eq!(load(&file).split_pattern(), None);
}

#[test]
fn tokens_have_bytes_and_special_ones_are_known() {
    let tokenizer = load(&fixture::llama());
    assert_eq!(tokenizer.vocab_size(), 274);
    assert_eq!(
        tokenizer.token_bytes(fixture::END_OF_TURN),
        Some(&b"<|eot_id|>"[..])
    );
    assert_eq!(tokenizer.token_bytes(9_999), Some(&b""[..]));
    assert!(tokenizer.is_special(fixture::BEGIN) && tokenizer.is_special(9_999));
    assert!(!tokenizer.is_special(fixture::TOOL) && !tokenizer.is_special(0));
    let tokens = tokenizer
        .encode("the cafés\n\n<tool>", Specials::Parse)
        .unwrap();
    assert_eq!(tokens.last(), Some(&fixture::TOOL));
    let bytes: Vec<u8> = tokens
        .iter()
        .flat_map(|&id| tokenizer.token_bytes(id).unwrap())
        .copied()
        .collect();
    assert_eq!(bytes, "the cafés\n\n<tool>".as_bytes());
}

#[test]
fn a_prompt_is_never_truncated() {
    // The fixture's file asks for 4 tokens.
    let tokens = load(&fixture::llama())
        .encode("abcdefgh", Specials::Parse)
        .unwrap();
    assert_eq!(tokens.len(), 8);
}

#[test]
fn a_vocabulary_that_is_not_byte_level_is_decoded_in_context() {
    let file = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{
            "id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }],
        "normalizer": null,
        "pre_tokenizer": { "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true },
        "post_processor": null,
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "ByteFallback" },
            { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
        ] },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true,
            "vocab": { "<s>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "<0xC3>": 5, "<0xA9>": 6 },
            "merges": [["▁", "a"]],
        }
    });
    let tokenizer = Arc::new(load(&file));
    assert_eq!(tokenizer.split_pattern(), None);
    assert_eq!(tokenizer.token_bytes(4), None);
    let mut detokenizer = Detokenizer::new(Arc::clone(&tokenizer));
    let mut steps = Vec::new();
    for token in [0, 4, 4, 3, 5, 6, 1, 2, 5] {
        let mut step = String::new();
        detokenizer.push(token, &mut step);
        steps.push(step);
    }
    let mut rest = String::new();
    detokenizer.finish(&mut rest);
    steps.push(rest);
    assert_eq!(
        steps,
        ["", "a", " a", "b", "", "é", " ", "a", "", "\u{fffd}"]
    );
    assert_eq!(tokenizer.encode("a a", Specials::Parse).unwrap(), [4, 4]);
}

#[test]
fn nonsense_is_refused() {
    for json in ["", "{}", "[]", r#"{"model": 5}"#] {
        assert!(HuggingFace::parse(json.as_bytes()).is_err(), "{json:?}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "the",
        "a",
        "b",
        "X",
        " ",
        " ",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        " the",
        " a",
        "'s",
        "'",
        "123",
        "4",
        ".",
        ".\n",
        "é",
        "e\u{301}",
        "\u{301}",
        "\u{338}",
        "世",
        "🦀",
        "<|eot_id|>",
        "<|begin_of_text|>",
        "<|eot",
        "<tool>",
        "<think>",
        "<",
        "\u{a0}",
    ]);
    prop::collection::vec(pieces, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_model_encodes_as_the_library_does(text in texts(), min_piece_bytes in 1_usize..8) {
        for (name, ours, library) in &*PAIRS {
            let expected = library.encode(text.as_str(), false).unwrap();
            let encoder =
                Encoder::new(Arc::clone(ours), PieceCache::new(1 << 20), min_piece_bytes);
            for round in ["cold", "warm"] {
                let mut tokens = Vec::new();
                encoder.encode(&text, Specials::Parse, &mut tokens).unwrap();
                prop_assert_eq!(&tokens, expected.get_ids(), "{} {}", name, round);
            }
            let whole = ours.encode(&text, Specials::Parse).unwrap();
            prop_assert_eq!(whole, expected.get_ids(), "{} from scratch", name);
        }
    }

    #[test]
    fn plain_text_holds_no_special_token(text in texts(), min_piece_bytes in 1_usize..8) {
        for (name, ours, library) in &*PAIRS {
            let mut library = library.clone();
            library.set_encode_special_tokens(true);
            let expected = library.encode(text.as_str(), false).unwrap();
            let encoder =
                Encoder::new(Arc::clone(ours), PieceCache::new(1 << 20), min_piece_bytes);
            let mut tokens = Vec::new();
            encoder.encode(&text, Specials::Plain, &mut tokens).unwrap();
            prop_assert_eq!(&tokens, expected.get_ids(), "{}", name);
        }
    }
}
