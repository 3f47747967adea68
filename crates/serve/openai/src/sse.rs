//! Writes the events of a streamed answer.
//!
//! Everything in an event but its text is known when the stream starts, so the head is
//! built once and an event is a few copies and an escape scan: about 30 ns for a token's
//! text. The caller keeps one buffer, so an event allocates nothing.
//!
//! # Guarantees
//!
//! - **Valid for every text.** Events parse back to the structures of [`crate::response`];
//!   a property test says so. Line ends are escaped, so no text can end an event early.
//! - **Stateless.** The writer does not know which event is the first: `role` says so.

pub(crate) mod escape;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use self::escape::push_string;
use crate::response::{ChatLogprobs, CompletionLogprobs, ErrorBody, FinishReason, Usage};

/// The content of one event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delta<'a> {
    /// The prompt's place in the request; 0 for chat.
    pub index: u32,
    /// Announce the assistant's role: once, together with the first text. Chat only.
    pub role: bool,
    pub said: Said<'a>,
    pub finish: Option<FinishReason>,
    /// The usage so far, for clients that asked for it in every event.
    pub usage: Option<&'a Usage>,
    pub logprobs: Option<Logprobs<'a>>,
    /// Serialised JSON.
    pub nvext: Option<&'a str>,
}

/// What a model says in one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    Content(&'a str),
    /// What it thinks before its answer. Chat only, like calls.
    Reasoning(&'a str),
    /// A call begins.
    Call {
        /// Of the call in the answer.
        index: u32,
        id: &'a str,
        name: &'a str,
    },
    /// More of a call's arguments.
    Arguments {
        index: u32,
        text: &'a str,
    },
}

impl Default for Said<'_> {
    fn default() -> Self {
        Self::Content("")
    }
}

impl Said<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Content(text) | Self::Reasoning(text) | Self::Arguments { text, .. } => text,
            Self::Call { name, .. } => name,
        }
    }
}

/// Log-probabilities in the shape of the endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Logprobs<'a> {
    Chat(&'a ChatLogprobs),
    Completion(&'a CompletionLogprobs),
}

/// Writes the events of one streamed answer.
#[derive(Clone, Debug)]
pub struct EventWriter {
    /// From `data: {` up to and with `"choices":[`.
    head: Box<[u8]>,
    endpoint: Endpoint,
}

#[derive(Clone, Copy, Debug)]
enum Endpoint {
    Chat,
    Completion,
}

impl EventWriter {
    pub fn chat(id: &str, created: u64, model: &str) -> Self {
        Self::new(Endpoint::Chat, id, created, model)
    }

    pub fn completion(id: &str, created: u64, model: &str) -> Self {
        Self::new(Endpoint::Completion, id, created, model)
    }

    fn new(endpoint: Endpoint, id: &str, created: u64, model: &str) -> Self {
        let object: &[u8] = match endpoint {
            Endpoint::Chat => b"chat.completion.chunk",
            Endpoint::Completion => b"text_completion",
        };
        let mut head = Vec::with_capacity(160);
        head.extend_from_slice(b"data: {\"id\":");
        push_string(&mut head, id);
        head.extend_from_slice(b",\"object\":\"");
        head.extend_from_slice(object);
        head.extend_from_slice(b"\",\"created\":");
        push_number(&mut head, created);
        head.extend_from_slice(b",\"model\":");
        push_string(&mut head, model);
        head.extend_from_slice(b",\"choices\":[");
        Self {
            head: head.into(),
            endpoint,
        }
    }

    /// Appends one event.
    pub fn event(&self, out: &mut Vec<u8>, delta: &Delta<'_>) {
        // Head, text and the constants between: one growth at most for an ordinary event.
        out.reserve(self.head.len() + delta.said.text().len() + 96);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":");
        push_number(out, u64::from(delta.index));
        match self.endpoint {
            Endpoint::Chat => push_chat_delta(out, delta),
            Endpoint::Completion => {
                out.extend_from_slice(b",\"text\":");
                push_string(out, delta.said.text());
            }
        }
        match delta.logprobs {
            None => {}
            Some(Logprobs::Chat(logprobs)) => push_field(out, b",\"logprobs\":", logprobs),
            Some(Logprobs::Completion(logprobs)) => push_field(out, b",\"logprobs\":", logprobs),
        }
        match delta.finish {
            None => out.extend_from_slice(b",\"finish_reason\":null}]"),
            Some(finish) => {
                out.extend_from_slice(b",\"finish_reason\":\"");
                out.extend_from_slice(finish.as_str().as_bytes());
                out.extend_from_slice(b"\"}]");
            }
        }
        push_tail(out, delta.usage, delta.nvext);
    }

    /// Appends the event that carries the usage alone: no choices.
    pub fn usage_event(&self, out: &mut Vec<u8>, usage: &Usage, nvext: Option<&str>) {
        out.extend_from_slice(&self.head);
        out.push(b']');
        push_tail(out, Some(usage), nvext);
    }
}

/// Appends the end of the stream.
pub fn done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: [DONE]\n\n");
}

/// Appends an error that came after the answer had begun.
pub fn error_event(out: &mut Vec<u8>, error: &ErrorBody) {
    push_field(out, b"data: ", error);
    out.extend_from_slice(b"\n\n");
}

fn push_chat_delta(out: &mut Vec<u8>, delta: &Delta<'_>) {
    out.extend_from_slice(b",\"delta\":{");
    if delta.role {
        out.extend_from_slice(b"\"role\":\"assistant\",");
    }
    match delta.said {
        // Only an event that does nothing but finish has an empty delta.
        Said::Content(text) => {
            if delta.role || !text.is_empty() || delta.finish.is_none() {
                out.extend_from_slice(b"\"content\":");
                push_string(out, text);
            }
        }
        Said::Reasoning(text) => {
            out.extend_from_slice(b"\"reasoning_content\":");
            push_string(out, text);
        }
        Said::Call { index, id, name } => {
            out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
            push_number(out, u64::from(index));
            out.extend_from_slice(b",\"id\":");
            push_string(out, id);
            out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            push_string(out, name);
            out.extend_from_slice(b",\"arguments\":\"\"}}]");
        }
        Said::Arguments { index, text } => {
            out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
            push_number(out, u64::from(index));
            out.extend_from_slice(b",\"function\":{\"arguments\":");
            push_string(out, text);
            out.extend_from_slice(b"}}]");
        }
    }
    out.push(b'}');
}

fn push_tail(out: &mut Vec<u8>, usage: Option<&Usage>, nvext: Option<&str>) {
    if let Some(usage) = usage {
        push_field(out, b",\"usage\":", usage);
    }
    if let Some(nvext) = nvext {
        out.extend_from_slice(b",\"nvext\":");
        out.extend_from_slice(nvext.as_bytes());
    }
    out.extend_from_slice(b"}\n\n");
}

pub(crate) fn push_field<T: Serialize>(out: &mut Vec<u8>, name: &[u8], value: &T) {
    out.extend_from_slice(name);
    serde_json::to_writer(out, value).expect("plain structures always serialise into memory");
}

pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
