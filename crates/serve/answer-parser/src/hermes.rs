//! `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`, anywhere in the answer.
//!
//! Small models leave the closing tag away, put several objects between two tags, or begin the
//! answer with the object alone or in a Markdown fence. An object without a tag is taken for a
//! call only at the start, and only if it can hardly be anything else ([`Commit::Whole`]).

#[cfg(test)]
mod tests;

use crate::call_object::{CallObject, Commit, Progress};
use crate::json::is_white;
use crate::literal::{Literal, Match};
use crate::output::Output;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const FENCE: &str = "```";
const JSON_FENCE: &str = "```json";

#[derive(Debug)]
pub(crate) struct Hermes {
    state: State,
    literal: Literal,
    /// After a call and white space at most: how that call was introduced, for its end and for
    /// further objects.
    after: Option<Introduction>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Introduction {
    Tag,
    Nothing,
    Fence,
}

#[derive(Debug)]
enum State {
    Start(Start),
    Content,
    /// After an opening tag; what was read from there on.
    Tag(String),
    Object {
        object: Box<CallObject>,
        introduction: Introduction,
    },
}

/// White space and a fence before an object.
#[derive(Debug, Default)]
struct Start {
    held: String,
    /// `held` without white space.
    fence: String,
    /// White space came after the fence.
    fence_ended: bool,
}

impl Start {
    /// Whether an object may still follow.
    fn push(&mut self, c: char) -> bool {
        if is_white(c) {
            self.fence_ended = !self.fence.is_empty();
            if !self.is_complete() {
                return false;
            }
        } else {
            self.fence.push(c);
            if self.fence_ended || !JSON_FENCE.starts_with(&self.fence) {
                return false;
            }
        }
        self.held.push(c);
        true
    }

    fn is_complete(&self) -> bool {
        matches!(self.fence.as_str(), "" | FENCE | JSON_FENCE)
    }
}

impl Hermes {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Start(Start::default()),
            literal: Literal::default(),
            after: None,
        }
    }

    /// How much of the beginning of `text` is content, whatever follows.
    pub(crate) fn plain(&self, text: &str, out: &Output) -> usize {
        let is_content = matches!(self.state, State::Content);
        if is_content && out.is_in_content() && self.literal.is_empty() {
            text.find('<').unwrap_or(text.len())
        } else {
            0
        }
    }

    /// Takes a character. Returns false if it has to be given again, in the state that the
    /// format has now.
    pub(crate) fn step(&mut self, c: char, out: &mut Output) -> bool {
        match &mut self.state {
            State::Start(start) => {
                if c == '{' && start.is_complete() && out.knows_any() {
                    let introduction = match start.fence.is_empty() {
                        true => Introduction::Nothing,
                        false => Introduction::Fence,
                    };
                    let held = std::mem::take(&mut start.held);
                    self.begin(introduction, held);
                    return true;
                }
                if out.knows_any() && start.push(c) {
                    return true;
                }
                out.content(&start.held);
                self.state = State::Content;
                false
            }
            State::Content => self.step_content(c, out),
            State::Tag(held) => {
                if c == '{' {
                    let held = std::mem::take(held);
                    self.begin(Introduction::Tag, held);
                    return true;
                }
                if is_white(c) {
                    held.push(c);
                    return true;
                }
                out.content(held);
                self.state = State::Content;
                false
            }
            State::Object {
                object,
                introduction,
            } => {
                let progress = object.step(c, out);
                if progress == Progress::More {
                    return true;
                }
                self.after = object.is_call().then_some(*introduction);
                self.state = State::Content;
                if out.is_in_content() {
                    self.after = None;
                }
                progress == Progress::Done
            }
        }
    }

    fn begin(&mut self, introduction: Introduction, held: String) {
        let commit = match introduction {
            Introduction::Tag => Commit::Name,
            Introduction::Nothing | Introduction::Fence => Commit::Whole,
        };
        self.after = None;
        self.state = State::Object {
            object: Box::new(CallObject::new(commit, held)),
            introduction,
        };
    }

    fn step_content(&mut self, c: char, out: &mut Output) -> bool {
        let markers: &[&'static str] = match self.after {
            None => &[OPEN],
            Some(Introduction::Tag | Introduction::Nothing) => &[OPEN, CLOSE],
            Some(Introduction::Fence) => &[OPEN, CLOSE, FENCE],
        };
        match self.literal.step(c, markers) {
            Match::Part => true,
            Match::Whole(OPEN) => {
                self.after = None;
                self.state = State::Tag(OPEN.to_owned());
                true
            }
            Match::Whole(_) => {
                self.after = None;
                out.drop_white();
                true
            }
            Match::No if !self.literal.is_empty() => {
                out.content(&self.literal.take());
                self.after = None;
                false
            }
            Match::No => {
                if let Some(introduction) = self.after
                    && c == '{'
                {
                    self.begin(introduction, String::new());
                    return true;
                }
                if !is_white(c) {
                    self.after = None;
                }
                out.content_char(c);
                true
            }
        }
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self, out: &mut Output) {
        match &mut self.state {
            State::Start(start) => out.content(&start.held),
            State::Content => out.content(&self.literal.take()),
            State::Tag(held) => out.content(held),
            State::Object { object, .. } => object.finish(out),
        }
    }
}
