//! The two request bodies, parsed and checked.
//!
//! Parsing has two passes over the body only when something is wrong: the first is plain
//! `serde_json`, which keeps no path; if it fails, a second pass that does keep one names
//! the field. A good request pays nothing for the quality of the error of a bad one.
//!
//! # Guarantees
//!
//! - **No field is ignored in silence.** What is not acted on is in the tables of `support`: it is
//!   refused, unless its value asks for nothing. Other names are refused, or ignored where the
//!   operator says so.
//! - **Checked once.** A value out of its range is an error that names the field, the value
//!   and the range. What leaves this module is in range.
//! - **One set of options.** Everything the two endpoints share is [`GenerationOptions`].
//!
//! # Elsewhere
//!
//! The shapes that the wire allows are in `fields`, single values in `value`. Whether
//! the prompt fits the model is for the preprocessor to say; whether the model exists, for
//! the frontend.

mod error;
mod extensions;
mod fields;
mod object;
mod options;
mod support;
mod value;

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;

pub use self::error::{RequestError, RequestErrorKind};
pub use self::extensions::Extensions;
use self::fields::{ChatFields, CompletionFields};
pub use self::options::GenerationOptions;
use self::support::Place;
pub use self::support::UnknownFields;
pub use self::value::Prompt;
use self::value::RawMessage;

/// Prompts in one completions request. Each becomes a request of its own to a worker.
pub const MAX_PROMPTS: usize = 128;

/// Messages in one chat request: more than fit any context, since each takes some tokens
/// besides its text. Lists end here, not in memory.
pub const MAX_MESSAGES: usize = 65_536;

/// `POST /v1/chat/completions`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    pub model: String,
    /// At least one.
    pub messages: Vec<Message>,
    pub options: GenerationOptions,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    /// Text parts are joined by line breaks; an absent content is empty.
    pub content: String,
    pub name: Option<String>,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}

/// `POST /v1/completions`.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    pub model: String,
    /// Between one and [`MAX_PROMPTS`]; the answer has a choice for each, in this order.
    pub prompts: Vec<Prompt>,
    /// Repeat the prompt before the answer.
    pub echo: bool,
    pub options: GenerationOptions,
}

impl ChatRequest {
    pub fn parse(body: &[u8], unknown: UnknownFields) -> Result<Self, RequestError> {
        let mut fields: ChatFields = parse_fields(body)?;
        let options = fields.options(unknown)?;
        let messages = fields
            .messages
            .ok_or_else(|| RequestError::missing("messages"))?
            .0;
        if messages.is_empty() {
            return Err(RequestError::empty(
                "messages",
                "must hold at least one message",
            ));
        }
        let messages = messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| message.check(index, unknown))
            .collect::<Result<_, _>>()?;
        let options = options.with_chat_logprobs(fields.logprobs, fields.top_logprobs)?;
        Ok(Self {
            model: value::model(fields.model)?,
            messages,
            options,
        })
    }
}

impl CompletionRequest {
    pub fn parse(body: &[u8], unknown: UnknownFields) -> Result<Self, RequestError> {
        let mut fields: CompletionFields = parse_fields(body)?;
        let options = fields.options(unknown)?;
        let prompts = fields
            .prompt
            .ok_or_else(|| RequestError::missing("prompt"))?
            .check()?;
        if fields.suffix.is_some_and(|suffix| !suffix.is_empty()) {
            return Err(RequestError::unsupported(
                "suffix",
                "text after the answer".to_owned(),
            ));
        }
        options::only_one("best_of", fields.best_of)?;
        let options = options.with_completion_logprobs(fields.logprobs)?;
        let echo = fields.echo.unwrap_or(false);
        Ok(Self {
            model: value::model(fields.model)?,
            prompts,
            echo,
            options,
        })
    }
}

impl Role {
    const ALL: [Self; 6] = [
        Self::System,
        Self::Developer,
        Self::User,
        Self::Assistant,
        Self::Tool,
        Self::Function,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Function => "function",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl RawMessage {
    fn check(self, index: usize, unknown: UnknownFields) -> Result<Message, RequestError> {
        support::check(&self.others, Place::Message(index), unknown)?;
        let Some(role) = self.role else {
            return Err(RequestError::missing(&format!("messages[{index}].role")));
        };
        let Some(role) = Role::named(&role) else {
            let names = Role::ALL.map(Role::as_str).join(", ");
            return Err(RequestError::invalid(
                &format!("messages[{index}].role"),
                format_args!("`{role}` is not one of {names}"),
            ));
        };
        let content = match self.content {
            Some(content) => content.check(index, unknown)?,
            // An assistant's turn may have held tool calls only.
            None if matches!(role, Role::Assistant) => String::new(),
            None => return Err(RequestError::missing(&format!("messages[{index}].content"))),
        };
        Ok(Message {
            role,
            content,
            name: self.name,
        })
    }
}

fn parse_fields<T: DeserializeOwned>(body: &[u8]) -> Result<T, RequestError> {
    // Derived structures would also accept a list of their fields in order.
    if body
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_some_and(|&byte| byte == b'[')
    {
        return Err(RequestError::not_an_object());
    }
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, error))
}

/// Parses once more, this time keeping the path to the value that does not fit.
fn explain<T: DeserializeOwned>(body: &[u8], error: serde_json::Error) -> RequestError {
    let mut source = serde_json::Deserializer::from_slice(body);
    match serde_path_to_error::deserialize::<_, T>(&mut source) {
        Ok(_) => RequestError::from_json(None, &error),
        Err(error) => {
            let path = error.path().to_string();
            RequestError::from_json(Some(path).filter(|path| path != "."), error.inner())
        }
    }
}
