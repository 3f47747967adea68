//! Vocabularies of SentencePiece: pieces with scores, as merges.
//!
//! SentencePiece joins the two neighbours whose whole has the best score. A list of all pairs
//! by that score does the same.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::super::gguf::Value;
use super::{Kind, NUMBER_PER_TOKEN, Reader, Token};
use crate::error::{Fault, GgufError, TokenizerError};

/// Pieces in use have at most 64 bytes; each is tried at every place.
const LONGEST_PIECE: usize = 256;
const SPACE: &str = "\u{2581}";

pub(super) fn tokenizer(
    file: &Reader<'_>,
    tokens: &[Token<'_>],
    ids: &HashMap<&str, usize>,
) -> Result<Json, Fault> {
    let key = "tokenizer.ggml.scores";
    let scores = file.optional(key, NUMBER_PER_TOKEN, |value| {
        let Value::Floats(scores) = value else {
            return None;
        };
        (scores.len() == tokens.len()).then_some(scores)
    })?;
    let scores = scores.ok_or_else(|| GgufError::Missing(key.to_owned()))?;
    let unknown = tokens.iter().find(|token| token.kind == Kind::Unknown);
    let unknown = unknown.map(|token| token.text);
    let bytes = tokens
        .iter()
        .filter(|token| token.kind == Kind::Byte)
        .count();
    let prefix = file
        .bool("tokenizer.ggml.add_space_prefix")?
        .unwrap_or(true);
    let mut normalizers = Vec::new();
    if prefix {
        normalizers.push(json!({"type": "Prepend", "prepend": SPACE}));
    }
    normalizers.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE}));
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "unk_token": unknown, "fuse_unk": true,
            "byte_fallback": bytes == 256, "ignore_merges": false,
            "vocab": ids, "merges": merges(tokens, scores, ids)?,
        },
    }))
}

/// Every way to make a piece of two others, best pieces first.
fn merges<'a>(
    tokens: &[Token<'a>],
    scores: &[f32],
    ids: &HashMap<&str, usize>,
) -> Result<Vec<(&'a str, &'a str)>, TokenizerError> {
    let mut merges = Vec::new();
    let part = |text: &str| {
        let id = *ids.get(text)?;
        (tokens[id].kind == Kind::Normal).then_some(id)
    };
    for (token, score) in tokens.iter().zip(scores) {
        if token.kind != Kind::Normal {
            continue;
        }
        if token.text.len() > LONGEST_PIECE {
            return Err(TokenizerError::LongToken(token.text.len()));
        }
        for (at, _) in token.text.char_indices().skip(1) {
            let (one, two) = token.text.split_at(at);
            if let Some((first, second)) = part(one).zip(part(two)) {
                merges.push((*score, first, second, (one, two)));
            }
        }
    }
    // Among equals, the parts that were learnt first.
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    Ok(merges.into_iter().map(|(_, _, _, pair)| pair).collect())
}
