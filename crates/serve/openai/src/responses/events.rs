//! Writes the events of a streamed response.
//!
//! An answer is a sequence of items, and each item begins, grows and ends in events of its own.
//! Those that carry text are many, so everything but their text and number is built when the item
//! begins; the others are few and go through [`Event`](super::Event), which is also what a client reads.
//!
//! # Guarantees
//!
//! - **One item at a time.** An item ends before the next begins, and events are numbered from 0
//!   without gaps.
//! - **Deltas add up.** The deltas of an item, one after the other, are the text of its last
//!   event, of the whole response at the end, and of the message for the store; a property test
//!   says so.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::event::{Event, Part};
use super::response::{OutputItem, Response, ResponseEcho, ResponseStatus, message_of};
use crate::request::Message;
use crate::response::{ErrorBody, FinishReason, Usage};
use crate::sse::escape::push_string;
use crate::sse::{Said, push_number};

/// Writes the events of one streamed response.
#[derive(Clone, Debug)]
pub struct ResponsesWriter {
    /// The response so far; its output are the items that have ended.
    response: Response,
    /// The number of the next event.
    sequence: u64,
    open: Option<OpenItem>,
}

/// The item that grows.
#[derive(Clone, Debug)]
struct OpenItem {
    id: String,
    kind: ItemKind,
    /// Of a delta's event, up to its number.
    head: Vec<u8>,
    text: String,
}

#[derive(Clone, Debug)]
enum ItemKind {
    Reasoning,
    Message,
    Call {
        /// Of the call in the answer, as [`Said`] has it.
        index: u32,
        call_id: String,
        name: String,
    },
}

impl OpenItem {
    fn new(id: String, output_index: usize, kind: ItemKind) -> Self {
        let (name, content_index): (&[u8], &[u8]) = match kind {
            ItemKind::Reasoning => (b"response.reasoning_text.delta", b",\"content_index\":0"),
            ItemKind::Message => (b"response.output_text.delta", b",\"content_index\":0"),
            ItemKind::Call { .. } => (b"response.function_call_arguments.delta", b""),
        };
        let mut head = Vec::with_capacity(192);
        head.extend_from_slice(b"event: ");
        head.extend_from_slice(name);
        head.extend_from_slice(b"\ndata: {\"type\":\"");
        head.extend_from_slice(name);
        head.extend_from_slice(b"\",\"item_id\":");
        push_string(&mut head, &id);
        head.extend_from_slice(b",\"output_index\":");
        push_number(&mut head, output_index as u64);
        head.extend_from_slice(content_index);
        head.extend_from_slice(b",\"sequence_number\":");
        Self {
            id,
            kind,
            head,
            text: String::new(),
        }
    }

    /// The item as it is announced: without content.
    fn announced(&self) -> OutputItem {
        let mut item = self.item(String::new(), ResponseStatus::InProgress);
        match &mut item {
            OutputItem::Reasoning { content, .. } => content.clear(),
            OutputItem::Message { content, .. } => content.clear(),
            OutputItem::FunctionCall { .. } => {}
        }
        item
    }

    fn item(&self, text: String, status: ResponseStatus) -> OutputItem {
        let id = self.id.clone();
        match &self.kind {
            ItemKind::Reasoning => OutputItem::reasoning(id, text, status),
            ItemKind::Message => OutputItem::message(id, text, status),
            ItemKind::Call { call_id, name, .. } => OutputItem::FunctionCall {
                id,
                call_id: call_id.clone(),
                name: name.clone(),
                arguments: text,
                status,
            },
        }
    }

    /// The item's only part, if such items have parts.
    fn part(&self, text: String) -> Option<Part> {
        match self.kind {
            ItemKind::Reasoning => Some(Part::ReasoningText { text }),
            ItemKind::Message => Some(Part::OutputText {
                text,
                annotations: Vec::new(),
                logprobs: Vec::new(),
            }),
            ItemKind::Call { .. } => None,
        }
    }
}

impl ResponsesWriter {
    pub fn new(id: &str, created: u64, model: &str, echo: ResponseEcho) -> Self {
        Self {
            response: Response::new(id, created, model, echo),
            sequence: 0,
            open: None,
        }
    }

    /// Appends the events before the first item.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        let sequence_number = self.next_number();
        let response = Cow::Borrowed(&self.response);
        Event::Created {
            sequence_number,
            response,
        }
        .write(out);
        let sequence_number = self.next_number();
        let response = Cow::Borrowed(&self.response);
        Event::InProgress {
            sequence_number,
            response,
        }
        .write(out);
    }

    /// Appends what the model says; the items that it begins and ends come with it. Arguments
    /// belong to the call that began last: those of another call are dropped, since its item has
    /// ended.
    pub fn said(&mut self, out: &mut Vec<u8>, said: &Said<'_>) {
        match *said {
            Said::Content("") | Said::Reasoning("") | Said::Arguments { text: "", .. } => {}
            Said::Content(text) => {
                if !matches!(self.open_kind(), Some(ItemKind::Message)) {
                    self.begin_item(out, "msg", ItemKind::Message);
                }
                self.delta(out, text);
            }
            Said::Reasoning(text) => {
                if !matches!(self.open_kind(), Some(ItemKind::Reasoning)) {
                    self.begin_item(out, "rs", ItemKind::Reasoning);
                }
                self.delta(out, text);
            }
            Said::Call { index, id, name } => {
                let kind = ItemKind::Call {
                    index,
                    call_id: id.to_owned(),
                    name: name.to_owned(),
                };
                self.begin_item(out, "fc", kind);
            }
            Said::Arguments { index, text } => match self.open_kind() {
                Some(ItemKind::Call { index: open, .. }) if *open == index => self.delta(out, text),
                _ => {}
            },
        }
    }

    /// What the last event carries besides.
    pub fn set_nvext(&mut self, nvext: serde_json::Value) {
        self.response.nvext = Some(nvext);
    }

    /// Appends the end of the response, and returns the message for the store.
    pub fn finish(&mut self, out: &mut Vec<u8>, finish: FinishReason, usage: &Usage) -> Message {
        let cut = finish == FinishReason::Length;
        self.end_item(
            out,
            match cut {
                true => ResponseStatus::Incomplete,
                false => ResponseStatus::Completed,
            },
        );
        self.response.finish(Some(finish), usage);
        let sequence_number = self.next_number();
        let response = Cow::Borrowed(&self.response);
        match cut {
            true => Event::Incomplete {
                sequence_number,
                response,
            },
            false => Event::Completed {
                sequence_number,
                response,
            },
        }
        .write(out);
        message_of(&self.response.output)
    }

    /// Appends an error, which ends the response.
    pub fn error(&mut self, out: &mut Vec<u8>, error: &ErrorBody) {
        Event::error(self.next_number(), error).write(out);
        if let Some(mut open) = self.open.take() {
            let text = std::mem::take(&mut open.text);
            let item = open.item(text, ResponseStatus::Incomplete);
            self.response.output.push(item);
        }
        self.response.fail(error);
        let sequence_number = self.next_number();
        let response = Cow::Borrowed(&self.response);
        Event::Failed {
            sequence_number,
            response,
        }
        .write(out);
    }

    fn next_number(&mut self) -> u64 {
        let number = self.sequence;
        self.sequence += 1;
        number
    }

    fn open_kind(&self) -> Option<&ItemKind> {
        self.open.as_ref().map(|open| &open.kind)
    }

    fn begin_item(&mut self, out: &mut Vec<u8>, prefix: &str, kind: ItemKind) {
        self.end_item(out, ResponseStatus::Completed);
        let output_index = self.response.output.len();
        let open = OpenItem::new(self.response.next_item_id(prefix), output_index, kind);
        Event::ItemAdded {
            sequence_number: self.next_number(),
            output_index,
            item: Cow::Owned(open.announced()),
        }
        .write(out);
        if let Some(part) = open.part(String::new()) {
            Event::PartAdded {
                sequence_number: self.next_number(),
                item_id: Cow::Borrowed(&open.id),
                output_index,
                content_index: 0,
                part,
            }
            .write(out);
        }
        self.open = Some(open);
    }

    /// Appends more text of the open item: the path that every token takes.
    fn delta(&mut self, out: &mut Vec<u8>, text: &str) {
        let number = self.next_number();
        let Some(open) = &mut self.open else { return };
        // Head, text and the constants between: one growth at most for an ordinary event.
        out.reserve(open.head.len() + text.len() + 64);
        out.extend_from_slice(&open.head);
        push_number(out, number);
        out.extend_from_slice(b",\"delta\":");
        push_string(out, text);
        let tail: &[u8] = match open.kind {
            ItemKind::Message => b",\"logprobs\":[]}\n\n",
            ItemKind::Reasoning | ItemKind::Call { .. } => b"}\n\n",
        };
        out.extend_from_slice(tail);
        open.text.push_str(text);
    }

    fn end_item(&mut self, out: &mut Vec<u8>, status: ResponseStatus) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        let output_index = self.response.output.len();
        self.whole_text(&open, output_index).write(out);
        if let Some(part) = open.part(open.text.clone()) {
            Event::PartDone {
                sequence_number: self.next_number(),
                item_id: Cow::Borrowed(&open.id),
                output_index,
                content_index: 0,
                part,
            }
            .write(out);
        }
        let text = std::mem::take(&mut open.text);
        let item = open.item(text, status);
        Event::ItemDone {
            sequence_number: self.next_number(),
            output_index,
            item: Cow::Borrowed(&item),
        }
        .write(out);
        self.response.output.push(item);
    }

    /// The event that repeats an item's text.
    fn whole_text<'a>(&mut self, open: &'a OpenItem, output_index: usize) -> Event<'a> {
        let sequence_number = self.next_number();
        let item_id = Cow::Borrowed(&*open.id);
        let text = Cow::Borrowed(&*open.text);
        match &open.kind {
            ItemKind::Reasoning => Event::ReasoningDone {
                sequence_number,
                item_id,
                output_index,
                content_index: 0,
                text,
            },
            ItemKind::Message => Event::TextDone {
                sequence_number,
                item_id,
                output_index,
                content_index: 0,
                text,
                logprobs: Vec::new(),
            },
            ItemKind::Call { name, .. } => Event::ArgumentsDone {
                sequence_number,
                item_id,
                output_index,
                name: Cow::Borrowed(name),
                arguments: text,
            },
        }
    }
}
