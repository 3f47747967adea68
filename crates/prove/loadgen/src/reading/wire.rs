//! The parts of an event that a client measures by.
//!
//! More forgiving than our own server's types: other servers leave fields out, add fields,
//! and put reasoning and tool calls where we have only text.

use openai::{FinishReason, Routing, Usage};
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct Wire {
    #[serde(default)]
    pub(super) choices: Vec<Choice>,
    pub(super) usage: Option<Usage>,
    pub(super) nvext: Option<Value>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) delta: Delta,
    /// What a completion has instead.
    pub(super) text: Option<String>,
    pub(super) finish_reason: Option<FinishReason>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    pub(super) content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<Value>>,
}

impl Delta {
    /// Whether it brings something that the model wrote.
    pub(super) fn has_content(&self) -> bool {
        let texts = [&self.content, &self.reasoning_content, &self.reasoning];
        let written = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        texts.into_iter().any(written)
            || self
                .tool_calls
                .as_ref()
                .is_some_and(|calls| !calls.is_empty())
    }
}

/// What an error object says, in whichever of the usual shapes.
pub(crate) fn message(error: &Value) -> String {
    let inner = error.get("error").unwrap_or(error);
    let said = [inner.get("message"), inner.get("detail"), Some(inner)];
    said.into_iter()
        .flatten()
        .find_map(Value::as_str)
        .map_or_else(|| error.to_string(), str::to_owned)
}

/// Why that worker: our server's words. Another server's of the same name are not ours.
pub(super) fn routing(nvext: &Value) -> Option<Routing> {
    Routing::deserialize(nvext.get("routing")?).ok()
}

/// The worker that wrote the answer: the one that decodes, also where another did the prefill.
pub(super) fn worker(nvext: &Value) -> Option<String> {
    let worker = nvext.get("worker_id")?;
    let worker = worker.get("decode_worker_id").unwrap_or(worker);
    match worker {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
