//! Tokenizers from metadata: what is written, what is refused.

use serde_json::{Value as Json, json};

use super::*;
use crate::Gguf;
use crate::tests::build;

const TOKENS: [&str; 7] = ["<|end|>", "a", "b", "Ġ", "ab", "Ġab", "<tool>"];
const KINDS: [i32; 7] = [3, 1, 1, 1, 1, 1, 4];

fn byte_level(pre: Option<&str>) -> build::Gguf {
    let mut file = build::Gguf::empty();
    file.text("tokenizer.ggml.model", "gpt2");
    if let Some(pre) = pre {
        file.text("tokenizer.ggml.pre", pre);
    }
    file.texts("tokenizer.ggml.tokens", &TOKENS);
    file.integers("tokenizer.ggml.token_type", &KINDS);
    file.texts("tokenizer.ggml.merges", &["a b", "Ġ ab"]);
    file.number("tokenizer.ggml.bos_token_id", 0);
    file.number("tokenizer.ggml.eos_token_id", 0);
    file
}

fn built(file: &build::Gguf) -> Result<Option<GgufTokenizer>, String> {
    let file = Gguf::parse("t.gguf", file.bytes()).unwrap();
    super::build(&file.metadata, 7).map_err(|fault| fault.to_string())
}

fn json(tokenizer: &GgufTokenizer) -> Json {
    serde_json::from_str(&tokenizer.tokenizer_json).unwrap()
}

#[test]
fn a_byte_level_vocabulary() {
    let mut file = byte_level(Some("smollm"));
    file.text("tokenizer.chat_template", "{{ messages }}");
    let tokenizer = built(&file).unwrap().unwrap();
    assert_eq!(tokenizer.chat_template.as_deref(), Some("{{ messages }}"));
    assert_eq!(tokenizer.bos.as_deref(), Some("<|end|>"));
    assert_eq!(tokenizer.eos, ["<|end|>"]);
    assert!(!tokenizer.add_bos);
    let json = json(&tokenizer);
    assert_eq!(json["model"]["vocab"]["Ġab"], 5);
    assert_eq!(json["model"]["merges"], json!([["a", "b"], ["Ġ", "ab"]]));
    assert_eq!(json["decoder"]["type"], "ByteLevel");
    let added = json["added_tokens"].as_array().unwrap();
    let added: Vec<_> = added
        .iter()
        .map(|token| (&token["id"], &token["special"]))
        .collect();
    assert_eq!(
        added,
        [(&json!(0), &json!(true)), (&json!(6), &json!(false))]
    );
    let steps = json["pre_tokenizer"]["pretokenizers"].as_array().unwrap();
    assert_eq!(
        (&steps[0]["type"], &steps[1]["type"]),
        (&"Digits".into(), &"ByteLevel".into())
    );
    assert!(json.get("post_processor").is_none());
}

#[test]
fn every_name_of_a_split_is_its_own() {
    let mut known = Vec::new();
    for pre in [
        None,
        Some("gpt-2"),
        Some("smollm"),
        Some("qwen2"),
        Some("llama-bpe"),
    ] {
        let tokenizer = built(&byte_level(pre)).unwrap().unwrap();
        let is_llama = pre == Some("llama-bpe");
        assert_eq!(tokenizer.add_bos, is_llama);
        let json = json(&tokenizer);
        assert_eq!(json["model"]["ignore_merges"], is_llama);
        assert_eq!(json.get("post_processor").is_some(), is_llama);
        assert_eq!(json["normalizer"].is_null(), pre != Some("qwen2"));
        assert!(!known.contains(&json["pre_tokenizer"]));
        known.push(json["pre_tokenizer"].clone());
    }
    let said = built(&byte_level(Some("tekken"))).unwrap_err();
    assert_eq!(said, "tokenizer.ggml.pre tekken is not supported");
}

#[test]
fn the_file_decides_about_its_first_token() {
    let mut file = byte_level(Some("llama-bpe"));
    file.raw("tokenizer.ggml.add_bos_token", 7, &[0]);
    assert!(!built(&file).unwrap().unwrap().add_bos);
    let mut file = byte_level(Some("smollm"));
    file.raw("tokenizer.ggml.add_bos_token", 7, &[1]);
    let tokenizer = built(&file).unwrap().unwrap();
    assert!(tokenizer.add_bos);
    assert_eq!(
        json(&tokenizer)["post_processor"]["special_tokens"]["<|end|>"]["ids"],
        json!([0])
    );
}

#[test]
fn control_tokens_that_end_an_answer_are_found() {
    let mut file = build::Gguf::empty();
    file.text("tokenizer.ggml.model", "gpt2");
    file.text("tokenizer.ggml.pre", "qwen2");
    file.texts(
        "tokenizer.ggml.tokens",
        &["<|endoftext|>", "<|im_end|>", "</s>"],
    );
    file.integers("tokenizer.ggml.token_type", &[3, 3, 1]);
    file.texts("tokenizer.ggml.merges", &[]);
    file.number("tokenizer.ggml.eos_token_id", 0);
    let tokenizer = built(&file).unwrap().unwrap();
    assert_eq!(tokenizer.eos, ["<|endoftext|>", "<|im_end|>"]);
    assert_eq!(tokenizer.bos, None);
}

#[test]
fn pieces_with_scores_become_merges() {
    let tokens = [
        "<unk>",
        "<s>",
        "\u{2581}",
        "a",
        "b",
        "ab",
        "\u{2581}a",
        "\u{2581}ab",
    ];
    let mut file = build::Gguf::empty();
    file.text("tokenizer.ggml.model", "llama");
    file.texts("tokenizer.ggml.tokens", &tokens);
    file.integers("tokenizer.ggml.token_type", &[2, 3, 1, 1, 1, 1, 1, 1]);
    let mut scores = build::array(6, tokens.len());
    for score in [0.0_f32, 0.0, -5.0, -6.0, -7.0, -2.0, -1.0, -3.0] {
        scores.extend(score.to_le_bytes());
    }
    file.raw("tokenizer.ggml.scores", 9, &scores);
    file.number("tokenizer.ggml.bos_token_id", 1);
    let file = Gguf::parse("t.gguf", file.bytes()).unwrap();
    let tokenizer = super::build(&file.metadata, 8).unwrap().unwrap();
    assert!(tokenizer.add_bos);
    let json = json(&tokenizer);
    let merges = json!([["▁", "a"], ["a", "b"], ["▁", "ab"], ["▁a", "b"]]);
    assert_eq!(json["model"]["merges"], merges);
    assert_eq!(json["model"]["unk_token"], "<unk>");
    assert_eq!(json["normalizer"]["normalizers"][0]["type"], "Prepend");
    assert_eq!(json["decoder"]["decoders"][3]["type"], "Strip");
}

#[test]
fn a_file_may_have_none() {
    assert_eq!(built(&build::Gguf::empty()).unwrap(), None);
    let mut file = build::Gguf::empty();
    file.text("tokenizer.ggml.model", "no_vocab");
    assert_eq!(built(&file).unwrap(), None);
}

#[test]
fn what_makes_no_tokenizer_is_refused() {
    let refused = |change: &dyn Fn(&mut build::Gguf)| {
        let mut file = build::Gguf::empty();
        file.text("tokenizer.ggml.pre", "gpt-2");
        change(&mut file);
        built(&file).unwrap_err()
    };
    let model = |file: &mut build::Gguf| file.text("tokenizer.ggml.model", "gpt2");
    let said = refused(&|file| {
        file.text("tokenizer.ggml.model", "bert");
        file.texts("tokenizer.ggml.tokens", &["a"]);
    });
    assert_eq!(said, "tokenizers of model bert are not supported");
    assert!(refused(&model).contains("tokenizer.ggml.tokens is missing"));
    let said = refused(&|file| {
        model(file);
        file.texts("tokenizer.ggml.tokens", &["a"; 8]);
    });
    assert!(said.contains("8 tokens, but embeddings of 7"), "{said}");
    let said = refused(&|file| {
        model(file);
        file.texts("tokenizer.ggml.tokens", &["a", "b", "a"]);
    });
    assert!(said.contains("tokens 0 and 2 are both"), "{said}");
    let said = refused(&|file| {
        model(file);
        file.texts("tokenizer.ggml.tokens", &["a", "b"]);
        file.integers("tokenizer.ggml.token_type", &[1]);
    });
    assert!(said.contains("token_type"), "{said}");
    for merge in ["a b", "a", "", " ", "é", "a c"] {
        let said = refused(&|file| {
            model(file);
            file.texts("tokenizer.ggml.tokens", &["a", "b"]);
            file.texts("tokenizer.ggml.merges", &[merge]);
        });
        assert!(said.contains("merges no tokens"), "{said}");
    }
    let said = refused(&|file| {
        model(file);
        file.texts("tokenizer.ggml.tokens", &["a"]);
        file.texts("tokenizer.ggml.merges", &[]);
        file.number("tokenizer.ggml.bos_token_id", 1);
    });
    assert!(said.contains("bos_token_id names no token"), "{said}");
}
