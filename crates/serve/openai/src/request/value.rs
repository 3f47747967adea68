//! Single values that the wire writes in more than one way.
//!
//! Each is a visitor of its own, not an untagged enum: an untagged enum buffers the value
//! and then only knows that no variant fitted, where a visitor knows the element.

use std::fmt;

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::RequestError;
use super::object::{bound, object};
use super::support::{self, UnknownFields};
use super::tables;
use super::tools::RawCalls;
use super::{MAX_MESSAGES, MAX_PROMPTS};

/// Stop strings in one request. OpenAI takes 4; engines in the field take more.
pub(crate) const MAX_STOPS: usize = 16;

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
#[derive(Debug)]
pub(crate) struct Messages(pub(crate) Vec<RawMessage>);

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Messages;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Messages, A::Error> {
                let mut all = Vec::new();
                while let Some(mut message) = list.next_element::<RawMessage>()? {
                    bound(all.len(), MAX_MESSAGES, "messages")?;
                    support::reduce(&mut message.others, &tables::MESSAGE);
                    all.push(message);
                }
                Ok(Messages(all))
            }
        }

        source.deserialize_seq(List)
    }
}

object! {
    RawMessage, "a message object" {
        role: String,
        content: RawContent,
        name: String,
        tool_calls: RawCalls,
        tool_call_id: String,
        reasoning_content: String,
        reasoning: String,
    }
}

/// A message's content: a string or a list of parts.
#[derive(Debug)]
pub(crate) enum RawContent {
    Text(String),
    /// Boxed, because the other kind is the rule and there may be many.
    Parts(Box<Joined>),
}

object! {
    RawPart, "a content part object" {
        r#type: String,
        text: String,
    }
}

/// The text of all parts, joined as they are read: parts that say next to nothing are many.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    text: String,
    parts: usize,
    /// The first part that will not do.
    problem: Option<(usize, PartProblem)>,
}

#[derive(Debug)]
enum PartProblem {
    NoType,
    NoText,
    OtherType(String),
    UnknownField(String),
}

impl Joined {
    fn push(&mut self, part: RawPart) {
        let index = self.parts;
        self.parts += 1;
        let problem = match (part.r#type.as_deref(), part.text) {
            (Some("text" | "input_text"), Some(text)) => {
                if index > 0 {
                    self.text.push('\n');
                }
                self.text.push_str(&text);
                let mut unknown = part.others.iter().map(|(name, _)| name);
                let unknown = unknown.find(|name| support::find(&tables::PART, name).is_none());
                let Some(name) = unknown else {
                    return;
                };
                PartProblem::UnknownField(name.to_owned())
            }
            (Some("text" | "input_text"), None) => PartProblem::NoText,
            (Some(other), _) => PartProblem::OtherType(other.to_owned()),
            (None, _) => PartProblem::NoType,
        };
        // An unknown field may be let pass, and must not hide what may not.
        match &self.problem {
            Some((_, PartProblem::UnknownField(_))) | None => self.problem = Some((index, problem)),
            Some(_) => {}
        }
    }
}

impl RawContent {
    /// The text; parts are joined by line breaks, as the engines in the field do.
    pub(crate) fn check(
        self,
        message: usize,
        unknown: UnknownFields,
    ) -> Result<String, RequestError> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        if parts.parts == 0 {
            return Err(RequestError::empty(
                &format!("messages[{message}].content"),
                "must hold at least one part",
            ));
        }
        let Some((index, problem)) = parts.problem else {
            return Ok(parts.text);
        };
        let path = |field: &str| format!("messages[{message}].content[{index}].{field}");
        Err(match problem {
            PartProblem::OtherType(other) => {
                let what = format!("a part of type `{other}`");
                RequestError::unsupported(&path("type"), what)
            }
            PartProblem::NoType => RequestError::missing(&path("type")),
            PartProblem::NoText => RequestError::missing(&path("text")),
            PartProblem::UnknownField(name) => match unknown {
                UnknownFields::Refuse => RequestError::unknown(&path(&name)),
                UnknownFields::Ignore => return Ok(parts.text),
            },
        })
    }
}

impl<'de> Deserialize<'de> for RawContent {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Content;

        impl<'de> Visitor<'de> for Content {
            type Value = RawContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of text parts")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawContent, E> {
                Ok(RawContent::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<RawContent, E> {
                Ok(RawContent::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<RawContent, A::Error> {
                let mut joined = Joined::default();
                while let Some(part) = parts.next_element()? {
                    joined.push(part);
                }
                Ok(RawContent::Parts(Box::new(joined)))
            }
        }

        source.deserialize_any(Content)
    }
}

/// `stop`: a string or a list of strings.
#[derive(Debug)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<OneOrMany, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = texts.next_element()? {
                    bound(all.len(), MAX_STOPS, "stop strings")?;
                    all.push(text);
                }
                Ok(OneOrMany::Many(all))
            }
        }

        source.deserialize_any(Texts)
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
