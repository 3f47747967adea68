//! `[TOOL_CALLS][{"name": "f", "arguments": {…}}, …]` or `[TOOL_CALLS]f[ARGS]{…}`, anywhere in
//! the answer.
//!
//! The second form is that of newer models, with the marker before each call; some write an
//! identifier between name and arguments (`[CALL_ID]`), and `[ARGS]` may be absent.

#[cfg(test)]
mod tests;

use crate::call_object::{CallObject, Commit, Progress};
use crate::json::{Container, Inside, is_white};
use crate::literal::{Literal, Match};
use crate::output::Output;

const CALLS: &str = "[TOOL_CALLS]";
const ARGS: &str = "[ARGS]";
const CALL_ID: &str = "[CALL_ID]";

#[derive(Debug)]
pub(crate) struct Mistral {
    state: State,
    literal: Literal,
}

#[derive(Debug)]
enum State {
    Content,
    /// After the marker; what was read from there on.
    Marked(String),
    Array(Array),
    Object {
        object: Box<CallObject>,
        in_array: bool,
    },
    Named(Named),
    Arguments(Container),
}

/// Between the objects of an array.
#[derive(Debug)]
struct Array {
    /// What was read since the marker or the last object.
    held: String,
    after_call: bool,
    /// An object may follow: there was a bracket or a comma.
    before_object: bool,
}

/// A name that is followed by arguments.
#[derive(Debug)]
struct Named {
    /// What was read since the marker.
    held: String,
    name: String,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Name,
    Identifier,
    BeforeArguments,
}

impl Mistral {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Content,
            literal: Literal::default(),
        }
    }

    /// How much of the beginning of `text` is content, whatever follows.
    pub(crate) fn plain(&self, text: &str, out: &Output) -> usize {
        let is_content = matches!(self.state, State::Content);
        if is_content && out.is_in_content() && self.literal.is_empty() {
            text.find('[').unwrap_or(text.len())
        } else {
            0
        }
    }

    /// Takes a character. Returns false if it has to be given again, in the state that the
    /// format has now.
    pub(crate) fn step(&mut self, c: char, out: &mut Output) -> bool {
        let next = match &mut self.state {
            State::Content => return self.step_content(c, out),
            State::Marked(held) => match after_marker(held, c) {
                Some(next) => next,
                None => return self.fail(out),
            },
            State::Array(array) => match array.step(c) {
                Some(next) => next,
                None => return self.fail(out),
            },
            State::Object { object, in_array } => match object.step(c, out) {
                Progress::More => return true,
                Progress::Done if *in_array => State::Array(Array {
                    held: String::new(),
                    after_call: true,
                    before_object: false,
                }),
                Progress::Done => State::Content,
                Progress::Failed => {
                    self.state = State::Content;
                    return false;
                }
            },
            State::Named(named) => match named.step(c, &mut self.literal, out) {
                Progress::More => return true,
                Progress::Done => State::Arguments(Container::new()),
                Progress::Failed => return self.fail(out),
            },
            State::Arguments(container) => match container.step(c) {
                Inside::More => {
                    out.arguments_char(c);
                    return true;
                }
                Inside::End => {
                    out.arguments_char(c);
                    State::Content
                }
                Inside::Cut => {
                    self.state = State::Content;
                    return false;
                }
            },
        };
        self.state = next;
        true
    }

    fn step_content(&mut self, c: char, out: &mut Output) -> bool {
        match self.literal.step(c, &[CALLS]) {
            Match::Part => {}
            Match::Whole(marker) => self.state = State::Marked(marker.to_owned()),
            Match::No if self.literal.is_empty() => out.content_char(c),
            Match::No => {
                out.content(&self.literal.take());
                return false;
            }
        }
        true
    }

    /// What was read is no call. The character has to be given again.
    fn fail(&mut self, out: &mut Output) -> bool {
        match &self.state {
            State::Marked(held) => out.content(held),
            State::Named(named) => out.content(&named.held),
            State::Array(array) => out.content(&array.held),
            State::Content | State::Object { .. } | State::Arguments(_) => {}
        }
        self.literal.take();
        self.state = State::Content;
        false
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self, out: &mut Output) {
        match &mut self.state {
            State::Content => out.content(&self.literal.take()),
            State::Marked(held) => out.content(held),
            State::Named(named) => out.content(&named.held),
            State::Array(array) => {
                let separates = |c| is_white(c) || c == ',';
                if !(array.after_call && array.held.chars().all(separates)) {
                    out.content(&array.held);
                }
            }
            State::Object { object, .. } => object.finish(out),
            State::Arguments(_) => {}
        }
    }
}

/// The state after a character that follows the marker and `held`, if it may.
fn after_marker(held: &mut String, c: char) -> Option<State> {
    if c == '{' {
        return Some(object(std::mem::take(held), false));
    }
    if c != '[' && !is_white(c) && !is_name(c) {
        return None;
    }
    let mut held = std::mem::take(held);
    held.push(c);
    Some(match c {
        '[' => State::Array(Array {
            held,
            after_call: false,
            before_object: true,
        }),
        _ if is_white(c) => State::Marked(held),
        _ => State::Named(Named {
            held,
            name: String::from(c),
            place: Place::Name,
        }),
    })
}

impl Array {
    /// The state after this character, if it may follow.
    fn step(&mut self, c: char) -> Option<State> {
        match c {
            '{' if self.before_object => return Some(object(std::mem::take(&mut self.held), true)),
            ']' if self.after_call => return Some(State::Content),
            ',' if !self.before_object => self.before_object = true,
            _ if is_white(c) => {}
            _ => return None,
        }
        self.held.push(c);
        Some(State::Array(Self {
            held: std::mem::take(&mut self.held),
            ..*self
        }))
    }
}

impl Named {
    /// `Done` with the brace that begins the arguments.
    fn step(&mut self, c: char, literal: &mut Literal, out: &mut Output) -> Progress {
        let markers: &[&'static str] = match self.place {
            Place::Name => &[ARGS, CALL_ID],
            Place::Identifier => &[ARGS],
            Place::BeforeArguments => &[],
        };
        match literal.step(c, markers) {
            Match::Part => {}
            Match::Whole(CALL_ID) => self.place = Place::Identifier,
            Match::Whole(_) => self.place = Place::BeforeArguments,
            Match::No if !literal.is_empty() => return Progress::Failed,
            Match::No if c == '{' && self.place != Place::Identifier => {
                if !out.may_call(&self.name) {
                    return Progress::Failed;
                }
                out.call(std::mem::take(&mut self.name));
                out.arguments_char(c);
                return Progress::Done;
            }
            Match::No => match self.place {
                Place::Name if is_name(c) => self.name.push(c),
                Place::Identifier if is_name(c) => {}
                Place::BeforeArguments if is_white(c) => {}
                Place::Name | Place::Identifier | Place::BeforeArguments => {
                    return Progress::Failed;
                }
            },
        }
        self.held.push(c);
        Progress::More
    }
}

fn object(held: String, in_array: bool) -> State {
    State::Object {
        object: Box::new(CallObject::new(Commit::Name, held)),
        in_array,
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}
