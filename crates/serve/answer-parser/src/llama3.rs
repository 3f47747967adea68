//! `{"name": "f", "parameters": {…}}`, at the start of the answer.
//!
//! `<|python_tag|>` may announce it. More calls may follow, separated by semicolons or white
//! space. Anything else makes the rest of the answer content.

#[cfg(test)]
mod tests;

use crate::call_object::{CallObject, Commit, Progress};
use crate::json::is_white;
use crate::literal::{Literal, Match};
use crate::output::Output;

const TAG: &str = "<|python_tag|>";

#[derive(Debug)]
pub(crate) struct Llama3 {
    state: State,
    literal: Literal,
    /// `Commit::Name` once the tag was read.
    commit: Commit,
}

#[derive(Debug)]
enum State {
    /// Before a call; what was read since the start or the last call.
    Before(String),
    Object(Box<CallObject>),
    Rest,
}

impl Llama3 {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Before(String::new()),
            literal: Literal::default(),
            commit: Commit::Arguments,
        }
    }

    /// How much of the beginning of `text` is content, whatever follows.
    pub(crate) fn plain(&self, text: &str) -> usize {
        match self.state {
            State::Rest => text.len(),
            State::Before(_) | State::Object(_) => 0,
        }
    }

    /// Takes a character. Returns false if it has to be given again, in the state that the
    /// format has now.
    pub(crate) fn step(&mut self, c: char, out: &mut Output) -> bool {
        match &mut self.state {
            State::Before(held) => {
                match self.literal.step(c, &[TAG]) {
                    Match::Part => return true,
                    Match::Whole(tag) => {
                        held.push_str(tag);
                        self.commit = Commit::Name;
                        return true;
                    }
                    Match::No if self.literal.is_empty() => {}
                    Match::No => {
                        held.push_str(&self.literal.take());
                        out.content(held);
                        self.state = State::Rest;
                        return false;
                    }
                }
                if c == '{' {
                    let held = std::mem::take(held);
                    self.state = State::Object(Box::new(CallObject::new(self.commit, held)));
                    return true;
                }
                if is_white(c) || (c == ';' && out.calls() > 0) {
                    held.push(c);
                    return true;
                }
                out.content(held);
                self.state = State::Rest;
                false
            }
            State::Object(object) => match object.step(c, out) {
                Progress::More => true,
                Progress::Done => {
                    self.state = State::Before(String::new());
                    true
                }
                Progress::Failed => {
                    self.state = State::Rest;
                    false
                }
            },
            State::Rest => {
                out.content_char(c);
                true
            }
        }
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self, out: &mut Output) {
        match &mut self.state {
            State::Before(held) => {
                held.push_str(&self.literal.take());
                let separates = |c| is_white(c) || c == ';';
                if out.calls() == 0 || !held.chars().all(separates) {
                    out.content(held);
                }
            }
            State::Object(object) => object.finish(out),
            State::Rest => {}
        }
    }
}
