//! The vocabulary: text to tokens, and tokens to bytes.
//!
//! Two kinds behind one type. [`embedded`] is OpenAI's o200k vocabulary with Llama-3-style
//! special tokens, so that the demo needs no download. [`hugging_face`] is a model's own
//! `tokenizer.json`. Both part a text at special tokens the same way and both say whether
//! ordinary text may be cut further ([`Tokenizer::split_pattern`]); where a model's rules
//! are not known to allow it, its text is encoded whole. Right comes before fast.

pub mod embedded;
pub mod hugging_face;
mod special;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use contract::TokenId;

use self::embedded::Embedded;
use self::hugging_face::HuggingFace;
pub(crate) use self::special::SpecialTokens;
use crate::error::PrepareError;
use crate::piece::SplitPattern;

/// What becomes of a special token's name inside a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// A special token's name becomes the token: for text that a template rendered.
    Parse,
    /// A special token's name is ordinary text.
    Plain,
}

/// A part of a text that is encoded on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    Text(&'a str),
    Special(TokenId),
}

/// A loaded vocabulary.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    /// What a text is parted at; empty where only the whole text may be encoded.
    separators: SpecialTokens,
    /// What only a template may write.
    controls: SpecialTokens,
    bos: Option<NamedToken>,
    eos_text: String,
    eos: Arc<[TokenId]>,
}

/// A token that templates refer to by its text.
#[derive(Clone, Debug)]
pub(crate) struct NamedToken {
    pub(crate) id: TokenId,
    pub(crate) text: String,
}

#[derive(Debug)]
enum Vocabulary {
    Embedded(&'static Embedded),
    HuggingFace(Box<HuggingFace>),
}

impl Tokenizer {
    /// The vocabulary that comes with the program.
    pub fn embedded() -> Self {
        let token = |text: &str, id| NamedToken {
            id,
            text: text.to_owned(),
        };
        let specials = || {
            let tokens = embedded::SPECIAL_TOKENS.iter();
            SpecialTokens::new(tokens.map(|&(id, text)| (id, text.to_owned())).collect())
        };
        Self {
            vocabulary: Vocabulary::Embedded(Embedded::get()),
            separators: specials(),
            controls: specials(),
            bos: Some(token("<|begin_of_text|>", embedded::BEGIN_OF_TEXT)),
            eos_text: "<|eot_id|>".to_owned(),
            eos: [embedded::END_OF_TEXT, embedded::END_OF_TURN].into(),
        }
    }

    /// A model's own vocabulary.
    pub(crate) fn hugging_face(
        vocabulary: HuggingFace,
        bos: Option<NamedToken>,
        eos_text: String,
        eos: Arc<[TokenId]>,
    ) -> Self {
        Self {
            separators: SpecialTokens::new(vocabulary.separators()),
            controls: SpecialTokens::new(vocabulary.controls()),
            vocabulary: Vocabulary::HuggingFace(Box::new(vocabulary)),
            bos,
            eos_text,
            eos,
        }
    }

    /// The tokens of `text`, from scratch.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<TokenId>, PrepareError> {
        let mut tokens = Vec::with_capacity(text.len() / 3);
        for segment in self.segments(text, specials) {
            match segment {
                Segment::Special(id) => tokens.push(id),
                Segment::Text(text) => self.encode_segment(text, specials, &mut tokens)?,
            }
        }
        Ok(tokens)
    }

    /// Parts a text at special tokens, if they are to be parsed and parting is safe.
    pub fn segments<'a>(
        &'a self,
        text: &'a str,
        specials: Specials,
    ) -> impl Iterator<Item = Segment<'a>> {
        let separators = match specials {
            Specials::Parse => Some(&self.separators),
            Specials::Plain => None,
        };
        special::Segments::new(separators, text)
    }

    /// The names that only a template may write.
    pub(crate) fn controls(&self) -> &SpecialTokens {
        &self.controls
    }

    /// Parts a rendered text at the template's special tokens, for its texts to be encoded as
    /// plain ones. Where a model's rules are not known, a text is parted all the same, and
    /// loses the space around a token that the token takes.
    pub(crate) fn guarded_segments<'a>(&'a self, text: &'a str) -> Vec<Segment<'a>> {
        let model = match &self.vocabulary {
            Vocabulary::HuggingFace(model) if model.split_pattern().is_none() => model,
            Vocabulary::HuggingFace(_) | Vocabulary::Embedded(_) => {
                return self.segments(text, Specials::Parse).collect();
            }
        };
        let mut segments: Vec<Segment<'a>> =
            special::Segments::new(Some(&self.controls), text).collect();
        for at in 0..segments.len() {
            let Segment::Special(id) = segments[at] else {
                continue;
            };
            let (before, after) = model.strips(id);
            if before
                && let Some(Segment::Text(text)) = at.checked_sub(1).map(|at| &mut segments[at])
            {
                *text = text.trim_end();
            }
            if after && let Some(Segment::Text(text)) = segments.get_mut(at + 1) {
                *text = text.trim_start();
            }
        }
        segments
    }

    /// Appends the tokens of a [`Segment::Text`].
    pub fn encode_segment(
        &self,
        text: &str,
        specials: Specials,
        out: &mut Vec<TokenId>,
    ) -> Result<(), PrepareError> {
        match &self.vocabulary {
            Vocabulary::Embedded(embedded) => {
                embedded.encode(text, out);
                Ok(())
            }
            Vocabulary::HuggingFace(model) => model.encode(text, specials, out),
        }
    }

    /// How ordinary text is split, where that is known well enough to cut it.
    pub fn split_pattern(&self) -> Option<SplitPattern> {
        match &self.vocabulary {
            Vocabulary::Embedded(_) => Some(SplitPattern::GroupsLineBreaks),
            Vocabulary::HuggingFace(model) => model.split_pattern(),
        }
    }

    /// The bytes that a token stands for, which need not be whole characters. Empty for an
    /// id that has none; `None` where a token's text depends on its neighbours
    /// ([`decode`](Self::decode) knows).
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        match &self.vocabulary {
            Vocabulary::Embedded(embedded) => Some(embedded.token_bytes(id)),
            Vocabulary::HuggingFace(model) => model.token_bytes(id),
        }
    }

    /// The text of a run of tokens, special ones skipped, unfinished characters replaced.
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        if let Vocabulary::HuggingFace(model) = &self.vocabulary
            && !model.is_byte_level()
        {
            return model.decode(tokens);
        }
        let bytes: Vec<u8> = tokens
            .iter()
            .filter(|&&id| !self.is_special(id))
            .filter_map(|&id| self.token_bytes(id))
            .flatten()
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The tokens as grammars see them: those that the model's files add to the vocabulary, such
    /// as `<tool_call>`, come only where a grammar names them.
    pub fn grammar_tokens(&self) -> Vec<grammar::Token> {
        (0..self.vocab_size())
            .map(|id| match &self.vocabulary {
                Vocabulary::Embedded(embedded) if self.is_special(id) => embedded::SPECIAL_TOKENS
                    .iter()
                    .find(|(special, _)| *special == id)
                    .map_or(grammar::Token::Unused, |(_, name)| {
                        grammar::Token::Special((*name).to_owned())
                    }),
                Vocabulary::Embedded(embedded) => {
                    grammar::Token::Text(embedded.token_bytes(id).to_vec())
                }
                Vocabulary::HuggingFace(model) => model.grammar_token(id),
            })
            .collect()
    }

    /// The token of that name, if it comes only where a grammar names it.
    pub(crate) fn marker(&self, name: &str) -> Option<TokenId> {
        match &self.vocabulary {
            Vocabulary::Embedded(_) => embedded::SPECIAL_TOKENS
                .iter()
                .find(|(_, special)| *special == name)
                .map(|(id, _)| *id),
            Vocabulary::HuggingFace(model) => model.marker(name),
        }
    }

    /// Whether a token is no part of the text.
    pub fn is_special(&self, id: TokenId) -> bool {
        match &self.vocabulary {
            Vocabulary::Embedded(_) => id >= embedded::FIRST_UNUSED,
            Vocabulary::HuggingFace(model) => model.is_special(id),
        }
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> u32 {
        match &self.vocabulary {
            Vocabulary::Embedded(_) => embedded::VOCAB_SIZE,
            Vocabulary::HuggingFace(model) => model.vocab_size(),
        }
    }

    /// The token that starts every text, if the model has one.
    pub fn bos(&self) -> Option<TokenId> {
        self.bos.as_ref().map(|token| token.id)
    }

    pub(crate) fn bos_text(&self) -> &str {
        self.bos.as_ref().map_or("", |token| &token.text)
    }

    pub(crate) fn eos_text(&self) -> &str {
        &self.eos_text
    }

    /// The tokens that end an answer.
    pub fn eos_tokens(&self) -> &Arc<[TokenId]> {
        &self.eos
    }
}
