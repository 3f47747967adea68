//! Ways to split a text before bytes are merged, by the names that GGUF gives them.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use crate::error::Unsupported;

/// How texts of a byte-level vocabulary are split.
pub(super) struct Split {
    /// The steps of the pre-tokenizer.
    steps: Vec<Json>,
    /// A piece that is a token needs no merges.
    ignore_merges: bool,
    /// The model was taught on composed characters.
    composes: bool,
    /// Texts begin with a token of their own unless the file says otherwise.
    pub(super) adds_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

fn at(pattern: &str) -> Json {
    json!({
        "type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false,
    })
}

fn byte_level(use_regex: bool) -> Json {
    json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": use_regex,
    })
}

pub(super) fn named(name: &str) -> Result<Split, Unsupported> {
    let plain = |steps: Vec<Json>| Split {
        steps,
        ignore_merges: false,
        composes: false,
        adds_bos: false,
    };
    Ok(match name {
        "gpt-2" => plain(vec![byte_level(true)]),
        "smollm" => plain(vec![
            json!({"type": "Digits", "individual_digits": true}),
            byte_level(true),
        ]),
        // What llama.cpp does with files that name nothing.
        "default" => plain(vec![
            at(r"[\p{P}\$\+<=>\^~\|]+"),
            at(GPT2),
            at(r"\p{N}+"),
            at("[0-9][0-9][0-9]"),
            byte_level(false),
        ]),
        "qwen2" => Split {
            composes: true,
            ..plain(vec![at(QWEN2), byte_level(false)])
        },
        "llama-bpe" | "llama3" | "llama-v3" => Split {
            ignore_merges: true,
            adds_bos: true,
            ..plain(vec![at(LLAMA3), byte_level(false)])
        },
        other => return Err(Unsupported::Split(other.to_owned())),
    })
}

impl Split {
    pub(super) fn tokenizer(&self, ids: &HashMap<&str, usize>, merges: &[(&str, &str)]) -> Json {
        let pre_tokenizer = match &self.steps[..] {
            [only] => only.clone(),
            steps => json!({"type": "Sequence", "pretokenizers": steps}),
        };
        json!({
            "normalizer": self.composes.then(|| json!({"type": "NFC"})),
            "pre_tokenizer": pre_tokenizer,
            "decoder": {
                "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
                "use_regex": true,
            },
            "model": {
                "type": "BPE", "ignore_merges": self.ignore_merges, "byte_fallback": false,
                "fuse_unk": false, "vocab": ids, "merges": merges,
            },
        })
    }
}
