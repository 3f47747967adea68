//! The two request bodies, parsed and checked.
//!
//! Parsing has two passes over the body only when something is wrong: the first is plain
//! `serde_json`, which keeps no path; if it fails, a second pass that does keep one names
//! the field. A good request pays nothing for the quality of the error of a bad one.
//!
//! # Guarantees
//!
//! - **No field is ignored in silence.** What is not acted on is in `tables`: it is refused, unless its
//!   value asks for nothing. Other names are refused, or ignored where the operator says so.
//! - **Checked once.** A value out of its range is an error that names the field, the value
//!   and the range. What leaves this module is in range.
//! - **One set of options.** Everything the two endpoints share is [`GenerationOptions`].
//!
//! # Elsewhere
//!
//! The shapes that the wire allows are in `fields`, single values in `value`, contents in `parts`.
//! Whether the prompt fits the model is for the preprocessor to say; whether the model exists, for
//! the frontend.

mod error;
pub(crate) mod extensions;
mod fields;
pub(crate) mod json_text;
pub(crate) mod list;
pub(crate) mod object;
pub(crate) mod options;
pub(crate) mod output_format;
pub(crate) mod parts;
pub(crate) mod support;
pub(crate) mod tables;
pub(crate) mod tools;
pub(crate) mod value;

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;

pub use self::error::{RequestError, RequestErrorKind};
pub use self::extensions::Extensions;
use self::fields::{ChatFields, CompletionFields};
pub use self::json_text::{JsonText, JsonTextError};
pub use self::options::GenerationOptions;
pub use self::output_format::{OutputConstraint, OutputFormat};
pub use self::support::UnknownFields;
pub use self::tools::{Tool, ToolCall, ToolChoice};
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
    /// No two have the same name.
    pub tools: Vec<Tool>,
    /// Other than `None` and `Auto` only with tools.
    pub tool_choice: ToolChoice,
    /// Whether one answer may hold several calls.
    pub parallel_tool_calls: bool,
    /// For templates that know it.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// An object whose members the template sees as its own variables.
    pub template_arguments: Option<JsonText>,
    pub options: GenerationOptions,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    /// Text parts are joined by line breaks; an absent content is empty.
    pub content: String,
    pub name: Option<String>,
    /// What an assistant's turn called.
    pub tool_calls: Vec<ToolCall>,
    /// The call whose result the message is.
    pub tool_call_id: Option<String>,
    /// What the assistant thought before its answer, for templates that know it.
    pub reasoning: Option<String>,
}

impl Message {
    /// A message of text alone.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            name: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            reasoning: None,
        }
    }
}

/// How long a model is to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    ExtraHigh,
}

impl ReasoningEffort {
    const ALL: [Self; 6] = [
        Self::None,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::ExtraHigh,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::ExtraHigh => "xhigh",
        }
    }

    pub(crate) fn check(param: &str, text: &str) -> Result<Self, RequestError> {
        let known = Self::ALL.into_iter().find(|one| one.as_str() == text);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            RequestError::invalid(param, format_args!("`{text}` is not one of {names}"))
        })
    }
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
        let (tools, tool_choice) = tools::check(fields.tools, fields.tool_choice, unknown)?;
        tool_choice.check_with(options.constraint.as_ref())?;
        if options.ignore_eos && tool_choice.demands_call() {
            let problem = format_args!("cannot be combined with `ignore_eos`");
            return Err(RequestError::invalid("tool_choice", problem));
        }
        let effort = fields.reasoning_effort.as_deref();
        let reasoning_effort = effort
            .map(|effort| ReasoningEffort::check("reasoning_effort", effort))
            .transpose()?;
        if let Some(arguments) = &fields.chat_template_kwargs
            && !arguments.is_object()
        {
            let problem = format_args!("must be an object");
            return Err(RequestError::invalid("chat_template_kwargs", problem));
        }
        Ok(Self {
            model: value::model(fields.model)?,
            messages,
            tools,
            tool_choice,
            parallel_tool_calls: fields.parallel_tool_calls.unwrap_or(true),
            reasoning_effort,
            template_arguments: fields.chat_template_kwargs,
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
        let answers = prompts.len() * options.n as usize;
        if answers > MAX_PROMPTS {
            let problem = format_args!("{answers} answers in all are more than {MAX_PROMPTS}");
            return Err(RequestError::invalid("n", problem));
        }
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
        let path = format_args!("messages[{index}].");
        support::check(&self.others, &tables::MESSAGE, path, unknown)?;
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
            Some(content) => content.check((), format_args!("{path}content"), unknown)?,
            // An assistant's turn may have held tool calls only.
            None if matches!(role, Role::Assistant) => String::new(),
            None => return Err(RequestError::missing(&format!("messages[{index}].content"))),
        };
        let calls = self.tool_calls.map_or_else(Vec::new, |calls| calls.0);
        if !calls.is_empty() && role != Role::Assistant {
            let param = format!("messages[{index}].tool_calls");
            let problem = format_args!("only an assistant's message has them");
            return Err(RequestError::invalid(&param, problem));
        }
        let tool_calls = calls
            .into_iter()
            .enumerate()
            .map(|(call, raw)| raw.check(format_args!("{path}tool_calls[{call}]."), unknown))
            .collect::<Result<_, _>>()?;
        Ok(Message {
            role,
            content,
            name: self.name,
            tool_calls,
            tool_call_id: self.tool_call_id,
            reasoning: self.reasoning_content.or(self.reasoning),
        })
    }
}

pub(crate) fn parse_fields<T: DeserializeOwned>(body: &[u8]) -> Result<T, RequestError> {
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
