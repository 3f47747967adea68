//! Writes the events of a streamed answer.
//!
//! Anthropic's stream is a list of content blocks, one after another: a block begins, grows by
//! deltas and ends. What the model says has no such brackets, so the writer keeps which block is
//! open and ends it where the kind changes. A text delta is a few copies and an escape scan, and
//! allocates nothing but room in the caller's buffer.
//!
//! # Guarantees
//!
//! - **Valid for every text.** Line ends are escaped, so no text can end an event early.
//! - **Blocks are numbered from 0 without gaps**, never overlap, and all are ended by
//!   [`MessagesWriter::finish`]. None is empty, except thoughts whose text the client omits and
//!   calls without arguments.
//! - **Nothing is lost.** The deltas of a block, joined, are what was said; a property test says so.

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::response::{Ending, MessagesError, MessagesResponse, MessagesUsage, StopReason};
use crate::sse::{push_field, push_number, push_string};
use crate::{ChatMessage, ErrorBody, FinishReason, Said, Usage};

/// Writes the events of one streamed answer.
#[derive(Clone, Debug)]
pub struct MessagesWriter {
    id: Box<str>,
    model: Box<str>,
    omit_thinking: bool,
    /// Blocks begun so far.
    blocks: u32,
    /// The last of them, unless it has ended.
    open: Option<Open>,
    /// The blocks of the calls so far.
    calls: Vec<CallBlock>,
}

/// What an open block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    Call,
}

#[derive(Clone, Copy, Debug)]
struct CallBlock {
    call: u32,
    block: u32,
}

impl MessagesWriter {
    pub fn new(id: &str, model: &str) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            omit_thinking: false,
            blocks: 0,
            open: None,
            calls: Vec::new(),
        }
    }

    /// Whether thoughts are sent without their text, for a client that asked for that.
    #[must_use]
    pub fn omit_thinking(mut self, omit: bool) -> Self {
        self.omit_thinking = omit;
        self
    }

    /// Appends the events that begin the answer.
    pub fn begin(&mut self, out: &mut Vec<u8>, usage: &Usage) {
        let message = MessagesResponse::new(
            self.id.to_string(),
            &self.model,
            ChatMessage::assistant(String::new()),
            Ending::default(),
            usage,
        );
        start_event(out, "message_start");
        push_field(out, b",\"message\":", &message);
        out.extend_from_slice(b"}\n\n");
        start_event(out, "ping");
        out.extend_from_slice(b"}\n\n");
    }

    /// Appends what the model says. An empty text says nothing.
    ///
    /// Arguments of a call that has ended, which no parser of ours writes, go to that call's block
    /// by its index; arguments of a call that never began have no block and are left out.
    pub fn said(&mut self, out: &mut Vec<u8>, said: &Said<'_>) {
        match *said {
            Said::Content("") | Said::Reasoning("") | Said::Arguments { text: "", .. } => {}
            Said::Content(text) => {
                if self.open != Some(Open::Text) {
                    self.open(out, Open::Text);
                    out.extend_from_slice(b"{\"type\":\"text\",\"text\":\"\"}}\n\n");
                }
                self.delta(out, "\"text_delta\",\"text\":", text, self.last());
            }
            Said::Reasoning(text) => {
                if self.open != Some(Open::Thinking) {
                    self.open(out, Open::Thinking);
                    out.extend_from_slice(
                        b"{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
                    );
                }
                if !self.omit_thinking {
                    self.delta(out, "\"thinking_delta\",\"thinking\":", text, self.last());
                }
            }
            Said::Call { index, id, name } => {
                self.open(out, Open::Call);
                out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
                push_string(out, id);
                out.extend_from_slice(b",\"name\":");
                push_string(out, name);
                out.extend_from_slice(b",\"input\":{}}}\n\n");
                self.calls.push(CallBlock {
                    call: index,
                    block: self.last(),
                });
            }
            Said::Arguments { index, text } => {
                let mut latest = self.calls.iter().rev();
                if let Some(call) = latest.find(|call| call.call == index) {
                    let kind = "\"input_json_delta\",\"partial_json\":";
                    self.delta(out, kind, text, call.block);
                }
            }
        }
    }

    /// Appends the events that end the answer.
    pub fn finish(
        &mut self,
        out: &mut Vec<u8>,
        finish: FinishReason,
        stop_sequence: Option<&str>,
        usage: &Usage,
    ) {
        #[derive(Serialize)]
        struct End<'a> {
            stop_reason: StopReason,
            stop_sequence: Option<&'a str>,
        }

        self.close(out);
        let stop_reason = StopReason::new(finish, stop_sequence, !self.calls.is_empty());
        let end = End {
            stop_reason,
            stop_sequence: stop_sequence.filter(|_| stop_reason == StopReason::StopSequence),
        };
        start_event(out, "message_delta");
        push_field(out, b",\"delta\":", &end);
        push_field(out, b",\"usage\":", &MessagesUsage::from(usage));
        out.extend_from_slice(b"}\n\n");
        start_event(out, "message_stop");
        out.extend_from_slice(b"}\n\n");
    }

    /// Appends an error that came after the answer had begun. Nothing may follow.
    pub fn error(&mut self, out: &mut Vec<u8>, status: u16, error: &ErrorBody) {
        error_event(out, status, error);
    }

    /// The index of the block that began last.
    fn last(&self) -> u32 {
        self.blocks.saturating_sub(1)
    }

    /// Ends the open block and begins the next one, up to what it holds.
    fn open(&mut self, out: &mut Vec<u8>, kind: Open) {
        self.close(out);
        self.open = Some(kind);
        self.blocks += 1;
        start_event(out, "content_block_start");
        push_index(out, self.last());
        out.extend_from_slice(b",\"content_block\":");
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else {
            return;
        };
        if open == Open::Thinking {
            self.delta(out, "\"signature_delta\",\"signature\":", "", self.last());
        }
        start_event(out, "content_block_stop");
        push_index(out, self.last());
        out.extend_from_slice(b"}\n\n");
    }

    /// `kind` is the delta's type and the name of its text, as JSON has them.
    fn delta(&self, out: &mut Vec<u8>, kind: &str, text: &str, block: u32) {
        // The text and the constants around it: one growth at most for an ordinary delta.
        out.reserve(text.len() + 160);
        start_event(out, "content_block_delta");
        push_index(out, block);
        out.extend_from_slice(b",\"delta\":{\"type\":");
        out.extend_from_slice(kind.as_bytes());
        push_string(out, text);
        out.extend_from_slice(b"}}\n\n");
    }
}

/// Appends the beginning of an event, whose name is also its type.
fn start_event(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: {\"type\":\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

fn push_index(out: &mut Vec<u8>, index: u32) {
    out.extend_from_slice(b",\"index\":");
    push_number(out, u64::from(index));
}

/// An error, which ends a stream.
pub(crate) fn error_event(out: &mut Vec<u8>, status: u16, error: &ErrorBody) {
    let error = MessagesError::new(status, error, None);
    push_field(out, b"event: error\ndata: ", &error);
    out.extend_from_slice(b"\n\n");
}
