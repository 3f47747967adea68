//! The answer as the API has it: output items, and what the request said about itself.
//!
//! Members that our answers never fill are there as `null` or empty lists, because the models of
//! OpenAI's own clients require them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::tools::arguments_object;
use crate::request::{Message, ReasoningEffort, Role, ToolCall, ToolChoice};
use crate::response::{ChatMessage, ErrorBody, FinishReason, Usage};

/// The answer of `/v1/responses`, whole or as it is so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// `resp_…`.
    pub id: String,
    pub object: ResponseObject,
    /// Unix seconds.
    pub created_at: u64,
    pub status: ResponseStatus,
    pub error: Option<ResponseError>,
    pub incomplete_details: Option<IncompleteDetails>,
    pub model: String,
    pub output: Vec<OutputItem>,
    /// Once the answer has ended.
    pub usage: Option<ResponseUsage>,
    /// What the request's `nvext.extra_fields` asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvext: Option<Value>,
    #[serde(flatten)]
    pub echo: ResponseEcho,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseObject {
    #[serde(rename = "response")]
    Response,
}

/// How far an answer, or one of its items, has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    InProgress,
    Completed,
    /// It ended where it should not have.
    Incomplete,
    /// Of a whole answer only.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseError {
    /// One of those that OpenAI's clients know.
    pub code: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// `max_output_tokens` in our answers.
    pub reason: String,
}

/// One thing that the model did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputItem {
    Reasoning {
        /// `rs_…`.
        id: String,
        /// Always empty: nobody summarises.
        summary: Vec<Value>,
        content: Vec<ReasoningText>,
        encrypted_content: Option<String>,
        status: ResponseStatus,
    },
    Message {
        /// `msg_…`.
        id: String,
        /// Always `assistant`.
        role: String,
        status: ResponseStatus,
        content: Vec<OutputText>,
    },
    FunctionCall {
        /// `fc_…`.
        id: String,
        /// What the output of the call refers to.
        call_id: String,
        name: String,
        /// The text of a JSON object, as the model wrote it.
        arguments: String,
        status: ResponseStatus,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "reasoning_text")]
pub struct ReasoningText {
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "output_text")]
pub struct OutputText {
    pub text: String,
    /// Always empty, like the log-probabilities.
    pub annotations: Vec<Value>,
    #[serde(default)]
    pub logprobs: Vec<Value>,
}

impl OutputText {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            annotations: Vec::new(),
            logprobs: Vec::new(),
        }
    }
}

/// Tokens read and written, under the names of this API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseUsage {
    pub input_tokens: u32,
    pub input_tokens_details: InputTokensDetails,
    pub output_tokens: u32,
    pub output_tokens_details: OutputTokensDetails,
    pub total_tokens: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputTokensDetails {
    /// Tokens that the engine did not have to compute.
    pub cached_tokens: u32,
    /// Always 0: no entry of the cache is paid for. OpenAI's client requires it.
    #[serde(default)]
    pub cache_write_tokens: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTokensDetails {
    /// Always 0: engines do not count them apart.
    pub reasoning_tokens: u32,
}

impl From<&Usage> for ResponseUsage {
    fn from(usage: &Usage) -> Self {
        let details = usage.prompt_tokens_details.unwrap_or_default();
        Self {
            input_tokens: usage.prompt_tokens,
            input_tokens_details: InputTokensDetails {
                cached_tokens: details.cached_tokens,
                cache_write_tokens: 0,
            },
            output_tokens: usage.completion_tokens,
            output_tokens_details: OutputTokensDetails::default(),
            total_tokens: usage.total_tokens,
        }
    }
}

/// What an answer repeats of its request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponseEcho {
    /// Of this request alone: those of an earlier one do not count any more.
    pub instructions: Option<String>,
    pub previous_response_id: Option<String>,
    /// Whether a later request may refer to the answer.
    pub store: bool,
    pub max_output_tokens: Option<u32>,
    pub max_tool_calls: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_logprobs: u32,
    pub text: TextConfig,
    pub reasoning: ReasoningConfig,
    pub tools: Vec<FunctionTool>,
    pub tool_choice: ChosenTool,
    pub parallel_tool_calls: bool,
    pub truncation: String,
    pub service_tier: String,
    pub background: bool,
    pub metadata: BTreeMap<String, String>,
    pub user: Option<String>,
    pub safety_identifier: Option<String>,
    pub prompt_cache_key: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextConfig {
    pub format: TextFormat,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TextFormat {
    #[default]
    Text,
    JsonObject,
    JsonSchema {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        schema: Value,
        strict: Option<bool>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningConfig {
    pub effort: Option<String>,
    /// Always `None`: nobody summarises.
    pub summary: Option<String>,
}

impl ReasoningConfig {
    pub(super) fn new(effort: Option<ReasoningEffort>) -> Self {
        Self {
            effort: effort.map(|effort| effort.as_str().to_owned()),
            summary: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "function")]
pub struct FunctionTool {
    pub name: String,
    pub description: Option<String>,
    pub parameters: Option<Value>,
    pub strict: Option<bool>,
}

/// `tool_choice`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChosenTool {
    /// `none`, `auto` or `required`.
    Word(String),
    Function(NamedFunction),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "function")]
pub struct NamedFunction {
    pub name: String,
}

impl From<&ToolChoice> for ChosenTool {
    fn from(choice: &ToolChoice) -> Self {
        let word = match choice {
            ToolChoice::None => "none",
            ToolChoice::Auto => "auto",
            ToolChoice::Required => "required",
            ToolChoice::Named(name) => {
                return Self::Function(NamedFunction { name: name.clone() });
            }
        };
        Self::Word(word.to_owned())
    }
}

impl Response {
    /// An answer that has just begun.
    pub fn new(id: &str, created: u64, model: &str, echo: ResponseEcho) -> Self {
        Self {
            id: id.to_owned(),
            object: ResponseObject::Response,
            created_at: created,
            status: ResponseStatus::InProgress,
            error: None,
            incomplete_details: None,
            model: model.to_owned(),
            output: Vec::new(),
            usage: None,
            nvext: None,
            echo,
        }
    }

    /// The answer with all that the model said.
    #[must_use]
    pub fn answered(
        mut self,
        message: ChatMessage,
        finish: Option<FinishReason>,
        usage: &Usage,
    ) -> Self {
        let status = ResponseStatus::Completed;
        if let Some(text) = message.reasoning_content.filter(|text| !text.is_empty()) {
            let id = self.next_item_id("rs");
            self.output.push(OutputItem::reasoning(id, text, status));
        }
        if let Some(text) = message.content.filter(|text| !text.is_empty()) {
            let id = self.next_item_id("msg");
            self.output.push(OutputItem::message(id, text, status));
        }
        for call in message.tool_calls {
            let item = OutputItem::FunctionCall {
                id: self.next_item_id("fc"),
                call_id: call.id,
                name: call.function.name,
                arguments: call.function.arguments,
                status,
            };
            self.output.push(item);
        }
        self.finish(finish, usage);
        self
    }

    /// Of the item that comes next. Derived, so that a stream and a whole answer agree.
    pub(super) fn next_item_id(&self, kind: &str) -> String {
        let id = self.id.strip_prefix("resp_").unwrap_or(&self.id);
        format!("{kind}_{id}_{}", self.output.len())
    }

    /// Sets what the end of an answer decides. An answer that was cut ends in an incomplete item.
    pub(super) fn finish(&mut self, finish: Option<FinishReason>, usage: &Usage) {
        self.status = match finish {
            Some(FinishReason::Length) => ResponseStatus::Incomplete,
            Some(FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other) | None => {
                ResponseStatus::Completed
            }
        };
        if self.status == ResponseStatus::Incomplete {
            self.incomplete_details = Some(IncompleteDetails {
                reason: "max_output_tokens".to_owned(),
            });
            if let Some(last) = self.output.last_mut() {
                last.set_status(ResponseStatus::Incomplete);
            }
        }
        self.usage = Some(usage.into());
    }

    /// Ends the answer with an error.
    pub(super) fn fail(&mut self, error: &ErrorBody) {
        self.status = ResponseStatus::Failed;
        self.error = Some(ResponseError {
            code: error_code(error).to_owned(),
            message: error.error.message.clone(),
        });
    }
}

/// The code for clients that know only OpenAI's.
fn error_code(error: &ErrorBody) -> &'static str {
    let detail = &error.error;
    match (detail.kind.as_str(), detail.code.as_deref()) {
        (_, Some("rate_limit_exceeded")) | ("rate_limit_error" | "rate_limit_exceeded", _) => {
            "rate_limit_exceeded"
        }
        ("invalid_request_error", _) => "invalid_prompt",
        _ => "server_error",
    }
}

impl OutputItem {
    pub(super) fn reasoning(id: String, text: String, status: ResponseStatus) -> Self {
        Self::Reasoning {
            id,
            summary: Vec::new(),
            content: vec![ReasoningText { text }],
            encrypted_content: None,
            status,
        }
    }

    pub(super) fn message(id: String, text: String, status: ResponseStatus) -> Self {
        Self::Message {
            id,
            role: Role::Assistant.as_str().to_owned(),
            status,
            content: vec![OutputText::new(text)],
        }
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. }
            | Self::Message { id, .. }
            | Self::FunctionCall { id, .. } => id,
        }
    }

    fn set_status(&mut self, new: ResponseStatus) {
        match self {
            Self::Reasoning { status, .. }
            | Self::Message { status, .. }
            | Self::FunctionCall { status, .. } => *status = new,
        }
    }
}

/// The message that an answer adds to its conversation. A call that was cut before its arguments
/// were whole is left out: nobody can have made it.
pub fn message_of(output: &[OutputItem]) -> Message {
    let mut message = Message::new(Role::Assistant, "");
    for item in output {
        match item {
            OutputItem::Reasoning { content, .. } => {
                let before = message.reasoning.get_or_insert_default();
                content.iter().for_each(|part| before.push_str(&part.text));
            }
            OutputItem::Message { content, .. } => {
                let before = &mut message.content;
                content.iter().for_each(|part| before.push_str(&part.text));
            }
            OutputItem::FunctionCall {
                call_id,
                name,
                arguments,
                ..
            } => {
                if let Ok(arguments) = arguments_object(arguments, "arguments") {
                    message.tool_calls.push(ToolCall {
                        id: Some(call_id.clone()),
                        name: name.clone(),
                        arguments,
                    });
                }
            }
        }
    }
    message
}
