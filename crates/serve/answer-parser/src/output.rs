//! Collects parts, and decides which white space is content.
//!
//! White space around calls is layout: it is held until something else follows, and dropped if
//! that is a call or, after a call, the end. White space after reasoning is always dropped.
//! Everything else is passed on as it comes. Consecutive parts of one kind become one part.

use std::collections::HashSet;

use crate::Part;

#[derive(Debug)]
pub(crate) struct Output {
    names: HashSet<String>,
    /// Not yet returned to the caller.
    parts: Vec<Part>,
    calls: u32,
    /// White space of which it is open whether it is content.
    white: String,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before anything but white space, at the start or after a call.
    Edge,
    AfterReasoning,
    InContent,
}

impl Output {
    /// Without `holds_white`, no calls will come that white space could surround.
    pub(crate) fn new(tool_names: &[String], holds_white: bool) -> Self {
        Self {
            names: tool_names.iter().cloned().collect(),
            parts: Vec::new(),
            calls: 0,
            white: String::new(),
            place: if holds_white {
                Place::Edge
            } else {
                Place::InContent
            },
        }
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// Whether a call may have this name. Every name is fine if none are known.
    pub(crate) fn may_call(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(crate) fn knows_any(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether content is being passed on, so that white space is content too.
    pub(crate) fn is_in_content(&self) -> bool {
        self.place == Place::InContent
    }

    pub(crate) fn reasoning(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Reasoning(last)) => last.push_str(text),
            _ => self.parts.push(Part::Reasoning(text.to_owned())),
        }
    }

    /// Reasoning has ended: white space before the content is dropped.
    pub(crate) fn end_reasoning(&mut self) {
        self.place = Place::AfterReasoning;
    }

    pub(crate) fn content(&mut self, text: &str) {
        if self.is_in_content() {
            self.pass(text);
            return;
        }
        let rest = text.trim_start();
        if self.place == Place::Edge {
            self.white.push_str(&text[..text.len() - rest.len()]);
        }
        if !rest.is_empty() {
            let white = std::mem::take(&mut self.white);
            self.place = Place::InContent;
            self.pass(&white);
            self.pass(rest);
        }
    }

    pub(crate) fn content_char(&mut self, c: char) {
        self.content(c.encode_utf8(&mut [0; 4]));
    }

    fn pass(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Content(last)) => last.push_str(text),
            _ => self.parts.push(Part::Content(text.to_owned())),
        }
    }

    /// Drops white space that belongs to the layout of a call.
    pub(crate) fn drop_white(&mut self) {
        self.white.clear();
    }

    /// A call begins. [`Output::arguments`] is about it from now on.
    pub(crate) fn call(&mut self, name: String) {
        let index = self.calls;
        self.calls += 1;
        self.white.clear();
        self.place = Place::Edge;
        self.parts.push(Part::Call { index, name });
    }

    pub(crate) fn arguments(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Arguments { text: last, .. }) => last.push_str(text),
            _ => self.parts.push(Part::Arguments {
                index: self.calls.saturating_sub(1),
                text: text.to_owned(),
            }),
        }
    }

    pub(crate) fn arguments_char(&mut self, c: char) {
        self.arguments(c.encode_utf8(&mut [0; 4]));
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self) {
        let white = std::mem::take(&mut self.white);
        if self.calls == 0 {
            self.pass(&white);
        }
    }

    pub(crate) fn take(&mut self, out: &mut Vec<Part>) {
        out.append(&mut self.parts);
    }
}
