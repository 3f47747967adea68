//! The events of a streamed response, as a client reads them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::response::{OutputItem, Response};
use crate::response::ErrorBody;
use crate::sse::push_field;

/// Everything that a stream says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event<'a> {
    #[serde(rename = "response.created")]
    Created {
        sequence_number: u64,
        response: Cow<'a, Response>,
    },
    #[serde(rename = "response.in_progress")]
    InProgress {
        sequence_number: u64,
        response: Cow<'a, Response>,
    },
    #[serde(rename = "response.output_item.added")]
    ItemAdded {
        sequence_number: u64,
        output_index: usize,
        item: Cow<'a, OutputItem>,
    },
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        content_index: usize,
        part: Part,
    },
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        content_index: usize,
        delta: Cow<'a, str>,
        logprobs: Vec<Value>,
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        content_index: usize,
        text: Cow<'a, str>,
        logprobs: Vec<Value>,
    },
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        content_index: usize,
        delta: Cow<'a, str>,
    },
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        content_index: usize,
        text: Cow<'a, str>,
    },
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        delta: Cow<'a, str>,
    },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    #[serde(rename = "response.content_part.done")]
    PartDone {
        sequence_number: u64,
        item_id: Cow<'a, str>,
        output_index: usize,
        content_index: usize,
        part: Part,
    },
    #[serde(rename = "response.output_item.done")]
    ItemDone {
        sequence_number: u64,
        output_index: usize,
        item: Cow<'a, OutputItem>,
    },
    #[serde(rename = "response.completed")]
    Completed {
        sequence_number: u64,
        response: Cow<'a, Response>,
    },
    #[serde(rename = "response.incomplete")]
    Incomplete {
        sequence_number: u64,
        response: Cow<'a, Response>,
    },
    #[serde(rename = "error")]
    Error {
        sequence_number: u64,
        code: Option<Cow<'a, str>>,
        message: Cow<'a, str>,
        param: Option<Cow<'a, str>>,
    },
    #[serde(rename = "response.failed")]
    Failed {
        sequence_number: u64,
        response: Cow<'a, Response>,
    },
}

/// The content of an item that has parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    OutputText {
        text: String,
        annotations: Vec<Value>,
        logprobs: Vec<Value>,
    },
    ReasoningText {
        text: String,
    },
}

impl<'a> Event<'a> {
    pub fn error(sequence_number: u64, error: &'a ErrorBody) -> Self {
        let detail = &error.error;
        let code = detail.code.as_deref().or(Some(&*detail.kind));
        Self::Error {
            sequence_number,
            code: code.map(Cow::Borrowed),
            message: Cow::Borrowed(&detail.message),
            param: detail.param.as_deref().map(Cow::Borrowed),
        }
    }

    /// What stands in the line `event:`; the same as `type` in the data.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "response.created",
            Self::InProgress { .. } => "response.in_progress",
            Self::ItemAdded { .. } => "response.output_item.added",
            Self::PartAdded { .. } => "response.content_part.added",
            Self::TextDelta { .. } => "response.output_text.delta",
            Self::TextDone { .. } => "response.output_text.done",
            Self::ReasoningDelta { .. } => "response.reasoning_text.delta",
            Self::ReasoningDone { .. } => "response.reasoning_text.done",
            Self::ArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::ArgumentsDone { .. } => "response.function_call_arguments.done",
            Self::PartDone { .. } => "response.content_part.done",
            Self::ItemDone { .. } => "response.output_item.done",
            Self::Completed { .. } => "response.completed",
            Self::Incomplete { .. } => "response.incomplete",
            Self::Error { .. } => "error",
            Self::Failed { .. } => "response.failed",
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(self.name().as_bytes());
        push_field(out, b"\ndata: ", self);
        out.extend_from_slice(b"\n\n");
    }
}
