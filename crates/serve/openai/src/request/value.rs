//! Single values that the wire writes in more than one way.
//!
//! Each is a visitor of its own, not an untagged enum: an untagged enum buffers the value
//! and then only knows that no variant fitted, where a visitor knows the element.

use std::fmt;

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::RequestError;
use super::list::{Gather, TextOr, bound, read_list};
use super::object::object;
use super::parts::{Parts, RawPart};
use super::tools::RawCalls;
use super::{MAX_MESSAGES, MAX_PROMPTS, support, tables};

/// Stop strings in one request. OpenAI takes 4; engines in the field take more.
const MAX_STOPS: usize = 16;

/// What a completion continues. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    Text(String),
    /// Token ids of the served model, not yet checked against its vocabulary.
    Tokens(Vec<u32>),
}

pub(crate) fn model(model: Option<String>) -> Result<String, RequestError> {
    match model {
        Some(model) if model.is_empty() => Err(RequestError::empty("model", "must not be empty")),
        Some(model) => Ok(model),
        None => Err(RequestError::missing("model")),
    }
}

/// `messages`.
#[derive(Debug, Default)]
pub(crate) struct Messages(pub(crate) Vec<RawMessage>);

impl Gather for Messages {
    type Element = RawMessage;

    const ELEMENTS: &'static str = "messages";

    fn push<E: Error>(&mut self, mut message: RawMessage) -> Result<(), E> {
        bound(self.0.len(), MAX_MESSAGES, Self::ELEMENTS)?;
        support::reduce(&mut message.others, &tables::MESSAGE);
        self.0.push(message);
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        read_list(source)
    }
}

object! {
    RawMessage, "a message object" {
        role: String,
        content: TextOr<Parts<()>>,
        name: String,
        tool_calls: RawCalls,
        tool_call_id: String,
        reasoning_content: String,
        reasoning: String,
    }
}

/// Chat has one kind of text.
impl Gather for Parts<()> {
    type Element = RawPart;

    const ELEMENTS: &'static str = "text parts";

    fn push<E: Error>(&mut self, part: RawPart) -> Result<(), E> {
        let types = [("text", ()), ("input_text", ())];
        self.add(part, &types, &tables::PART);
        Ok(())
    }
}

/// Stop strings.
#[derive(Debug, Default)]
pub(crate) struct Stops(pub(crate) Vec<String>);

impl Gather for Stops {
    type Element = String;

    const ELEMENTS: &'static str = "strings";

    fn push<E: Error>(&mut self, text: String) -> Result<(), E> {
        bound(self.0.len(), MAX_STOPS, "stop strings")?;
        self.0.push(text);
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Stops {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        read_list(source)
    }
}

/// `prompt` in its four forms.
#[derive(Debug)]
pub(crate) enum RawPrompt {
    /// A string or one list of token ids.
    One(Prompt),
    /// A list of strings or of lists of token ids.
    Many(Vec<Prompt>),
    /// `[]`, of which nobody can say what it is a list of.
    Nothing,
}

impl RawPrompt {
    pub(crate) fn check(self) -> Result<Vec<Prompt>, RequestError> {
        let empty = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => text.is_empty(),
            Prompt::Tokens(tokens) => tokens.is_empty(),
        };
        match self {
            Self::Many(prompts) => match prompts.iter().position(empty) {
                Some(index) => Err(RequestError::empty(
                    &format!("prompt[{index}]"),
                    "must not be empty",
                )),
                None => Ok(prompts),
            },
            Self::One(prompt) if !empty(&prompt) => Ok(vec![prompt]),
            Self::One(_) | Self::Nothing => Err(RequestError::empty("prompt", "must not be empty")),
        }
    }
}

impl<'de> Deserialize<'de> for RawPrompt {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Prompts;

        impl<'de> Visitor<'de> for Prompts {
            type Value = RawPrompt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list of strings, or token ids")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawPrompt, E> {
                Ok(RawPrompt::One(Prompt::Text(text.to_owned())))
            }

            /// The first element decides what the others must be.
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawPrompt, A::Error> {
                let first = match list.next_element()? {
                    None => return Ok(RawPrompt::Nothing),
                    Some(PromptElement::Token(first)) => {
                        let mut tokens = vec![first];
                        while let Some(token) = list.next_element()? {
                            tokens.push(token);
                        }
                        return Ok(RawPrompt::One(Prompt::Tokens(tokens)));
                    }
                    Some(PromptElement::Prompt(first)) => first,
                };
                let texts = matches!(first, Prompt::Text(_));
                let mut prompts = vec![first];
                loop {
                    let next = if texts {
                        list.next_element()?.map(Prompt::Text)
                    } else {
                        list.next_element()?.map(Prompt::Tokens)
                    };
                    match next {
                        Some(prompt) => {
                            bound(prompts.len(), MAX_PROMPTS, "prompts")?;
                            prompts.push(prompt);
                        }
                        None => return Ok(RawPrompt::Many(prompts)),
                    }
                }
            }
        }

        source.deserialize_any(Prompts)
    }
}

/// The first element of a list of prompts, or of a prompt that is a list.
#[derive(Debug)]
enum PromptElement {
    Token(u32),
    Prompt(Prompt),
}

impl<'de> Deserialize<'de> for PromptElement {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Element;

        impl<'de> Visitor<'de> for Element {
            type Value = PromptElement;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a token id or a list of token ids")
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<PromptElement, E> {
                u32::try_from(id)
                    .map(PromptElement::Token)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &"a token id"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PromptElement, E> {
                Ok(PromptElement::Prompt(Prompt::Text(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PromptElement, A::Error> {
                let mut tokens = Vec::new();
                while let Some(token) = list.next_element()? {
                    tokens.push(token);
                }
                Ok(PromptElement::Prompt(Prompt::Tokens(tokens)))
            }
        }

        source.deserialize_any(Element)
    }
}
