//! A model's own `tokenizer.json`.
//!
//! [`bpe`] encodes, if it understands the file, and the `tokenizers` crate does otherwise, ten
//! times slower; which of them, and why, is logged. The crate also knows the names of tokens.
//! What is added is knowledge about the file: whether its rules are among those that
//! [`crate::piece`] has a proof for, and, for byte-level vocabularies (GPT-2, Llama 3, Qwen), a
//! table from token to bytes, so that detokenising is a copy. A model with other rules is encoded
//! whole and decoded in context.

mod byte_level;
mod rules;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use contract::TokenId;
use tokenizers::Tokenizer as Tokenizers;
use tracing::info;

use self::byte_level::TokenTable;
use self::rules::{AddedToken, Rules};
use super::Specials;
use crate::error::{PrepareError, TokenizerFault};
use crate::piece::SplitPattern;

/// A loaded `tokenizer.json`.
pub(crate) struct HuggingFace {
    /// Gives the same tokens as the library, sooner, if it understands the file.
    encoder: Option<bpe::Encoder>,
    /// Takes the names of special tokens for ordinary text.
    plain: Tokenizers,
    /// Parses them. Only where the library encodes.
    parsing: Option<Tokenizers>,
    /// How text is split, if the rules are known.
    pattern: Option<SplitPattern>,
    added: Vec<AddedToken>,
    table: Option<TokenTable>,
    special: Vec<bool>,
}

impl HuggingFace {
    /// `json` is the content of the file.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, TokenizerFault> {
        let rules: Rules = serde_json::from_slice(json)?;
        // Both take a quarter of a second for a large vocabulary.
        let (plain, encoder) = std::thread::scope(|scope| {
            let encoder = scope.spawn(|| bpe::Encoder::read(json));
            let plain = Tokenizers::from_bytes(json).map_err(TokenizerFault::Library);
            (plain, encoder.join().expect("reading does not panic"))
        });
        let mut plain = plain?;
        // Cutting a prompt or padding it is not the tokenizer's business here.
        plain
            .with_truncation(None)
            .map_err(TokenizerFault::Library)?;
        plain.with_padding(None);
        let encoder = encoder
            .map_err(|unsupported| unsupported.to_string())
            .and_then(|encoder| {
                let renamed =
                    |token: &&AddedToken| plain.token_to_id(&token.content) != Some(token.id);
                match rules.added_tokens.iter().find(renamed) {
                    Some(token) => Err(format!("id of an added token: {}", token.content)),
                    None => Ok(encoder),
                }
            })
            .inspect_err(|reason| {
                info!(reason, "tokenizer has unknown rules; encoding is slower");
            })
            .ok();
        let steps = encoder.as_ref().map_or(&[][..], bpe::Encoder::steps);
        let pattern = rules.split_pattern(steps);
        let parsing = encoder.is_none().then(|| plain.clone());
        plain.set_encode_special_tokens(true);
        let largest = plain.get_vocab(true).into_values().max().unwrap_or(0);
        let vocabulary = largest as usize + 1;
        let table = rules
            .is_byte_level()
            .then(|| TokenTable::new(vocabulary, &rules.added_tokens, |id| plain.id_to_token(id)));
        let mut special = vec![false; vocabulary];
        for token in rules.added_tokens.iter().filter(|token| token.special) {
            if let Some(flag) = special.get_mut(token.id as usize) {
                *flag = true;
            }
        }
        Ok(Self {
            encoder,
            plain,
            parsing,
            pattern,
            added: rules.added_tokens,
            table,
            special,
        })
    }

    /// What a text is parted at before it is encoded.
    pub(super) fn separators(&self) -> Vec<(TokenId, String)> {
        if self.pattern.is_none() {
            return Vec::new();
        }
        // Those that match after normalisation are found by the library, piece by piece.
        let raw = self.added.iter().filter(|token| !token.normalized);
        raw.map(|token| (token.id, token.content.clone())).collect()
    }

    /// The names of special tokens, which a user's text must not be taken for.
    pub(super) fn controls(&self) -> Vec<(TokenId, String)> {
        let special = self.added.iter().filter(|token| token.special);
        special
            .map(|token| (token.id, token.content.clone()))
            .collect()
    }

    /// Whether an added token takes the space before it, and that after it.
    pub(super) fn strips(&self, id: TokenId) -> (bool, bool) {
        let token = self.added.iter().find(|token| token.id == id);
        token.map_or((false, false), |token| (token.lstrip, token.rstrip))
    }

    pub(super) fn encode(
        &self,
        text: &str,
        specials: Specials,
        out: &mut Vec<TokenId>,
    ) -> Result<(), PrepareError> {
        if let Some(encoder) = &self.encoder {
            encoder.encode(text, specials == Specials::Parse, out);
            return Ok(());
        }
        let tokenizer = match (specials, &self.parsing) {
            (Specials::Parse, Some(parsing)) => parsing,
            (Specials::Parse, None) | (Specials::Plain, _) => &self.plain,
        };
        let failed = |message: String| PrepareError::Encode { message };
        // The library panics where its regular expressions give up, which a text can bring about.
        // It only reads, so nothing is left half done.
        let encoding = catch_unwind(AssertUnwindSafe(|| tokenizer.encode_fast(text, false)))
            .map_err(|_| failed("the tokenizer failed".to_owned()))?
            .map_err(|error| failed(error.to_string()))?;
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    pub(super) fn decode(&self, tokens: &[TokenId]) -> String {
        self.plain.decode(tokens, true).unwrap_or_default()
    }

    pub(super) fn split_pattern(&self) -> Option<SplitPattern> {
        self.pattern
    }

    pub(super) fn is_byte_level(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.table.as_ref().map(|table| table.bytes(id))
    }

    pub(super) fn is_special(&self, id: TokenId) -> bool {
        // An id beyond the vocabulary is no text either.
        self.special.get(id as usize).copied().unwrap_or(true)
    }

    pub(super) fn vocab_size(&self) -> u32 {
        u32::try_from(self.special.len()).expect("ids are u32")
    }

    pub(super) fn grammar_token(&self, id: TokenId) -> grammar::Token {
        if let Some(added) = self.added.iter().find(|token| token.id == id) {
            return match added.is_marker() {
                true => grammar::Token::Special(added.content.clone()),
                false => grammar::Token::Text(added.content.clone().into_bytes()),
            };
        }
        match &self.table {
            Some(table) if table.bytes(id).is_empty() => grammar::Token::Unused,
            Some(table) => grammar::Token::Text(table.bytes(id).to_vec()),
            None => self
                .plain
                .id_to_token(id)
                .map_or(grammar::Token::Unused, |text| {
                    grammar::Token::Text(sentence_piece_bytes(&text))
                }),
        }
    }

    pub(super) fn marker(&self, name: &str) -> Option<TokenId> {
        let markers = self.added.iter().filter(|token| token.is_marker());
        let named = |token: &&AddedToken| token.content == name;
        markers.into_iter().find(named).map(|token| token.id)
    }

    pub(crate) fn id_of(&self, text: &str) -> Option<TokenId> {
        self.plain.token_to_id(text)
    }

    pub(crate) fn text_of(&self, id: TokenId) -> Option<String> {
        self.plain.id_to_token(id)
    }
}

impl AddedToken {
    /// Whether it marks something and is no text that a model would write by itself.
    fn is_marker(&self) -> bool {
        let enclosed =
            |open, close| self.content.starts_with(open) && self.content.ends_with(close);
        self.special || enclosed('<', '>') || enclosed('[', ']')
    }
}

/// A token of a vocabulary that writes spaces as `▁`, and bytes that are no text as `<0x0A>`.
fn sentence_piece_bytes(text: &str) -> Vec<u8> {
    let byte = text
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'))
        .and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match byte {
        Some(byte) => vec![byte],
        None => text.replace('▁', " ").into_bytes(),
    }
}

impl fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HuggingFace")
            .field("vocab_size", &self.special.len())
            .field("pattern", &self.pattern)
            .field("byte_level", &self.is_byte_level())
            .finish_non_exhaustive()
    }
}
