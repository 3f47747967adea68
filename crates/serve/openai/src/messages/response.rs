//! An answer in one piece, an error, and a count of tokens, as Anthropic's clients expect them.
//!
//! The structures also deserialise, so that tests and clients in this workspace read them back.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::request::tools::arguments_object;
use crate::{ChatMessage, ErrorBody, FinishReason, JsonText, Usage};

/// The answer of `/v1/messages` in one piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesResponse {
    /// `msg_…`.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: MessageKind,
    /// Always `assistant` in our answers.
    pub role: String,
    pub model: String,
    /// Thoughts, then text, then calls; none of them is empty.
    pub content: Vec<ContentBlock>,
    /// `None` only in the first event of a stream.
    pub stop_reason: Option<StopReason>,
    /// The stop string that ended the answer.
    pub stop_sequence: Option<String>,
    pub usage: MessagesUsage,
}

/// The `type` of every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    Message,
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", try_from = "AnyBlock")]
pub enum ContentBlock {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
        /// Always empty: thoughts are not signed.
        signature: String,
    },
    ToolUse {
        id: String,
        name: String,
        /// An object. Arguments that are not the text of one, which a model without constraints
        /// may write, are the text in the member `INVALID_JSON`, as Anthropic's documentation
        /// advises for arguments that do not parse.
        input: JsonText,
    },
}

/// A block before its type is known: [`JsonText`] cannot be read through serde's own tags.
#[derive(Debug, Deserialize)]
struct AnyBlock {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    #[serde(default)]
    signature: String,
    id: Option<String>,
    name: Option<String>,
    input: Option<JsonText>,
}

/// A block of an answer that is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a content block of type `{kind}` with other fields than expected")]
pub struct StrangeBlock {
    kind: String,
}

impl TryFrom<AnyBlock> for ContentBlock {
    type Error = StrangeBlock;

    fn try_from(block: AnyBlock) -> Result<Self, StrangeBlock> {
        let read = match block.kind.as_str() {
            "text" => block.text.map(|text| Self::Text { text }),
            "thinking" => block.thinking.map(|thinking| Self::Thinking {
                thinking,
                signature: block.signature,
            }),
            "tool_use" => match (block.id, block.name, block.input) {
                (Some(id), Some(name), Some(input)) => Some(Self::ToolUse { id, name, input }),
                _ => None,
            },
            _ => None,
        };
        read.ok_or(StrangeBlock { kind: block.kind })
    }
}

/// How an answer ended, as our own API has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ending<'a> {
    /// `None` while it has not.
    pub finish: Option<FinishReason>,
    /// The stop string that was found, if one was.
    pub stop_sequence: Option<&'a str>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    StopSequence,
    ToolUse,
}

impl StopReason {
    /// `called`: whether the answer holds a call. An answer that had to be a call ends like any
    /// other in our own API.
    pub fn new(finish: FinishReason, stop_sequence: Option<&str>, called: bool) -> Self {
        match finish {
            FinishReason::Length => Self::MaxTokens,
            FinishReason::ToolCalls => Self::ToolUse,
            FinishReason::Stop if stop_sequence.is_some() => Self::StopSequence,
            FinishReason::Stop if called => Self::ToolUse,
            FinishReason::Stop | FinishReason::Other => Self::EndTurn,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::ToolUse => "tool_use",
        }
    }
}

/// Tokens read and written. The three counts of the prompt add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesUsage {
    /// Prompt tokens that the engine computed.
    pub input_tokens: u32,
    /// Always 0: blocks are cached while there is room, without a charge of their own.
    pub cache_creation_input_tokens: u32,
    /// Prompt tokens that the engine did not have to compute.
    pub cache_read_input_tokens: u32,
    pub output_tokens: u32,
}

impl From<&Usage> for MessagesUsage {
    fn from(usage: &Usage) -> Self {
        let details = usage.prompt_tokens_details.unwrap_or_default();
        let cached = details.cached_tokens.min(usage.prompt_tokens);
        Self {
            input_tokens: usage.prompt_tokens - cached,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
            output_tokens: usage.completion_tokens,
        }
    }
}

impl MessagesResponse {
    pub fn new(
        id: String,
        model: &str,
        message: ChatMessage,
        end: Ending<'_>,
        usage: &Usage,
    ) -> Self {
        let called = !message.tool_calls.is_empty();
        let not_empty = |text: &String| !text.is_empty();
        let mut content = Vec::new();
        if let Some(thinking) = message.reasoning_content.filter(not_empty) {
            content.push(ContentBlock::Thinking {
                thinking,
                signature: String::new(),
            });
        }
        if let Some(text) = message.content.filter(not_empty) {
            content.push(ContentBlock::Text { text });
        }
        for call in message.tool_calls {
            content.push(ContentBlock::ToolUse {
                id: call.id,
                name: call.function.name,
                input: input(&call.function.arguments),
            });
        }
        let reason = |finish| StopReason::new(finish, end.stop_sequence, called);
        let stop_reason = end.finish.map(reason);
        let stopped = stop_reason == Some(StopReason::StopSequence);
        Self {
            id,
            kind: MessageKind::Message,
            role: "assistant".to_owned(),
            model: model.to_owned(),
            content,
            stop_reason,
            stop_sequence: end.stop_sequence.filter(|_| stopped).map(str::to_owned),
            usage: usage.into(),
        }
    }

    /// Empties the thoughts, for a client that asked for that.
    #[must_use]
    pub fn omit_thinking(mut self) -> Self {
        for block in &mut self.content {
            if let ContentBlock::Thinking { thinking, .. } = block {
                thinking.clear();
            }
        }
        self
    }
}

/// A call's arguments, which our own API has as text.
fn input(arguments: &str) -> JsonText {
    arguments_object(arguments, "input").unwrap_or_else(|_| {
        let wrapped = serde_json::json!({ "INVALID_JSON": arguments });
        JsonText::parse(&wrapped.to_string()).expect("an object of one text is not deep")
    })
}

/// The body of every answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesError {
    #[serde(rename = "type")]
    pub kind: ErrorKind,
    pub error: MessagesErrorDetail,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The `type` of every error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesErrorDetail {
    /// `invalid_request_error`, `overloaded_error`, …
    #[serde(rename = "type")]
    pub kind: String,
    pub message: String,
}

impl MessagesError {
    /// Anthropic's clients choose by the type, which follows from the status.
    pub fn new(status: u16, error: &ErrorBody, request_id: Option<&str>) -> Self {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            504 => "timeout_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        Self {
            kind: ErrorKind::Error,
            error: MessagesErrorDetail {
                kind: kind.to_owned(),
                message: error.error.message.clone(),
            },
            request_id: request_id.map(str::to_owned),
        }
    }
}

/// The answer of `/v1/messages/count_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountTokensResponse {
    pub input_tokens: u32,
}
