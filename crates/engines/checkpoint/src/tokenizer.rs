//! The tokenizer inside a GGUF file, as the `tokenizer.json` that others read.
//!
//! GGUF keeps vocabulary, merges and the name of a way to split text; what the name stands for
//! is written here.

mod pieces;
mod split;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value as Json, json};

use super::gguf::Value;
use crate::error::{Fault, GgufError, TokenizerError, Unsupported};

/// What a GGUF file says of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTokenizer {
    /// In the format of Hugging Face's `tokenizers`.
    pub tokenizer_json: String,
    pub chat_template: Option<String>,
    pub bos: Option<String>,
    /// Tokens that end an answer; the one that ends a text is first.
    pub eos: Vec<String>,
    /// Whether a text begins with `bos`.
    pub add_bos: bool,
}

/// Control tokens that end an answer, whatever the file says.
const ENDS: [&str; 6] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
];

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// A token by its number.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    kind: Kind,
}

/// What types and scores of tokens must be.
const NUMBER_PER_TOKEN: &str = "an array with a number for each token";

type Metadata = BTreeMap<String, Value>;

/// Builds it, if the file has one. The model has rows for `most` tokens.
pub(super) fn build(metadata: &Metadata, most: usize) -> Result<Option<GgufTokenizer>, Fault> {
    let file = Reader { metadata };
    let model = match file.string("tokenizer.ggml.model")? {
        None | Some("no_vocab" | "none") => return Ok(None),
        Some(model) => model,
    };
    let tokens = file.tokens(most)?;
    let ids = ids(&tokens)?;
    let by_id = |key: &str| -> Result<Option<&str>, TokenizerError> {
        let Some(value) = metadata.get(key) else {
            return Ok(None);
        };
        let id = value.unsigned().and_then(|id| usize::try_from(id).ok());
        let token = id.and_then(|id| tokens.get(id));
        token
            .map(|token| Some(token.text))
            .ok_or_else(|| TokenizerError::NoToken(key.to_owned()))
    };
    let bos = by_id("tokenizer.ggml.bos_token_id")?;
    let (mut parts, adds_bos) = match model {
        "gpt2" => {
            let pre = file.string("tokenizer.ggml.pre")?.unwrap_or("default");
            let split = split::named(pre)?;
            (split.tokenizer(&ids, &file.merges(&ids)?), split.adds_bos)
        }
        "llama" => (pieces::tokenizer(&file, &tokens, &ids)?, true),
        other => return Err(Unsupported::Tokenizer(other.to_owned()).into()),
    };
    let add_bos = file
        .bool("tokenizer.ggml.add_bos_token")?
        .unwrap_or(adds_bos)
        && bos.is_some();
    let mut eos: Vec<&str> = Vec::new();
    for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
        eos.extend(by_id(&format!("tokenizer.ggml.{key}"))?);
    }
    for end in ENDS {
        let is_control = ids
            .get(end)
            .is_some_and(|id| tokens[*id].kind == Kind::Control);
        eos.extend(is_control.then_some(end));
    }
    let mut seen = HashSet::new();
    eos.retain(|text| seen.insert(*text));
    parts["added_tokens"] = added(&tokens);
    parts["version"] = "1.0".into();
    if let Some(bos) = bos.filter(|_| add_bos) {
        parts["post_processor"] = begins_with(bos, ids[bos]);
    }
    Ok(Some(GgufTokenizer {
        tokenizer_json: parts.to_string(),
        chat_template: file.string("tokenizer.chat_template")?.map(str::to_owned),
        bos: bos.map(str::to_owned),
        eos: eos.into_iter().map(str::to_owned).collect(),
        add_bos,
    }))
}

/// Numbers by text. Two tokens of one text could not be told apart.
fn ids<'a>(tokens: &[Token<'a>]) -> Result<HashMap<&'a str, usize>, TokenizerError> {
    let mut ids = HashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if let Some(first) = ids.insert(token.text, id) {
            return Err(TokenizerError::SameText {
                first,
                second: id,
                text: token.text.to_owned(),
            });
        }
    }
    Ok(ids)
}

/// Tokens that are found in a text before it is split.
fn added(tokens: &[Token<'_>]) -> Json {
    let mut added = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let special = match token.kind {
            Kind::Control | Kind::Unknown => true,
            Kind::UserDefined => false,
            Kind::Normal | Kind::Unused | Kind::Byte => continue,
        };
        // An empty one would be found everywhere.
        if !token.text.is_empty() {
            added.push(json!({
                "id": id, "content": token.text, "special": special, "normalized": false,
                "single_word": false, "lstrip": false, "rstrip": false,
            }));
        }
    }
    added.into()
}

fn begins_with(bos: &str, id: usize) -> Json {
    let first = json!({"SpecialToken": {"id": bos, "type_id": 0}});
    let text = |id: &str, kind: u8| json!({"Sequence": {"id": id, "type_id": kind}});
    json!({
        "type": "TemplateProcessing",
        "single": [first, text("A", 0)],
        "pair": [first, text("A", 0), text("B", 1)],
        "special_tokens": {bos: {"id": bos, "ids": [id], "tokens": [bos]}},
    })
}

/// Metadata of the tokenizer, each of the type that it must have.
struct Reader<'a> {
    metadata: &'a Metadata,
}

impl<'a> Reader<'a> {
    /// What `read` makes of the value, if there is one.
    fn optional<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        let read = read(value).map(Some);
        read.ok_or_else(|| GgufError::WrongType {
            key: key.to_owned(),
            expected,
        })
    }

    fn string(&self, key: &str) -> Result<Option<&'a str>, GgufError> {
        self.optional(key, "a string", Value::string)
    }

    fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.optional(key, "true or false", Value::bool)
    }

    fn strings(&self, key: &str) -> Result<&'a [String], GgufError> {
        let strings = self.optional(key, "an array of strings", Value::strings)?;
        strings.ok_or_else(|| GgufError::Missing(key.to_owned()))
    }

    fn tokens(&self, most: usize) -> Result<Vec<Token<'a>>, Fault> {
        let texts = self.strings("tokenizer.ggml.tokens")?;
        if texts.len() > most {
            let tokens = texts.len();
            return Err(TokenizerError::TooMany { tokens, most }.into());
        }
        let key = "tokenizer.ggml.token_type";
        let numbers = self.optional(key, NUMBER_PER_TOKEN, |value| {
            let Value::Integers(numbers) = value else {
                return None;
            };
            (numbers.len() == texts.len()).then_some(numbers)
        })?;
        let kinds = match numbers {
            None => vec![Kind::Normal; texts.len()],
            Some(numbers) => numbers
                .iter()
                .map(|number| kind(*number))
                .collect::<Result<_, _>>()?,
        };
        let tokens = texts.iter().zip(kinds);
        Ok(tokens.map(|(text, kind)| Token { text, kind }).collect())
    }

    /// Pairs whose halves and whole are tokens.
    fn merges(&self, ids: &HashMap<&str, usize>) -> Result<Vec<(&'a str, &'a str)>, Fault> {
        let key = "tokenizer.ggml.merges";
        let texts = self.strings(key)?;
        let pair = |text: &'a String| {
            // A half may begin with a space, but not the second.
            let first = text.chars().next()?.len_utf8();
            let at = first + text[first..].find(' ')?;
            let (one, two) = (&text[..at], &text[at + 1..]);
            let known = ids.contains_key(one)
                && ids.contains_key(two)
                && ids.contains_key([one, two].concat().as_str());
            known.then_some((one, two))
        };
        let no_merge = |text: &String| TokenizerError::NoMerge {
            key,
            text: text.clone(),
        };
        texts
            .iter()
            .map(|text| pair(text).ok_or_else(|| no_merge(text).into()))
            .collect()
    }
}

fn kind(number: i64) -> Result<Kind, TokenizerError> {
    Ok(match number {
        1 => Kind::Normal,
        2 => Kind::Unknown,
        3 => Kind::Control,
        4 => Kind::UserDefined,
        5 => Kind::Unused,
        6 => Kind::Byte,
        other => return Err(TokenizerError::TokenType(other)),
    })
}
