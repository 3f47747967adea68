//! `[f(a=1, b="x"), g()]`, at the start of the answer.
//!
//! A call is emitted when its closing parenthesis was read: Python literals become JSON, so
//! nothing of the text can be passed on as it is. Anything else makes the rest of the answer
//! content.

mod literals;
#[cfg(test)]
mod tests;

use crate::json::is_white;
use crate::literal::{Literal, Match};
use crate::output::Output;
use literals::{KeywordArguments, Reading};

const START: &str = "<|python_start|>";
const END: &str = "<|python_end|>";

#[derive(Debug)]
pub(crate) struct Pythonic {
    state: State,
    literal: Literal,
    /// What was read since the start or the last call.
    held: String,
}

#[derive(Debug)]
enum State {
    BeforeList,
    BeforeCall,
    Name(String),
    Arguments {
        name: String,
        arguments: KeywordArguments,
    },
    AfterCall,
    AfterList,
    Rest,
}

impl Pythonic {
    pub(crate) fn new() -> Self {
        Self {
            state: State::BeforeList,
            literal: Literal::default(),
            held: String::new(),
        }
    }

    /// How much of the beginning of `text` is content, whatever follows.
    pub(crate) fn plain(&self, text: &str) -> usize {
        if matches!(self.state, State::Rest) {
            text.len()
        } else {
            0
        }
    }

    /// Takes a character. Returns false if it has to be given again, in the state that the
    /// format has now.
    pub(crate) fn step(&mut self, c: char, out: &mut Output) -> bool {
        let next = match &mut self.state {
            State::BeforeList => match self.literal.step(c, &[START]) {
                Match::Part => return true,
                Match::Whole(marker) => {
                    self.held.push_str(marker);
                    return true;
                }
                Match::No if !self.literal.is_empty() => return self.fail(out),
                Match::No if c == '[' => State::BeforeCall,
                Match::No if is_white(c) => State::BeforeList,
                Match::No => return self.fail(out),
            },
            State::BeforeCall => match c {
                ']' if out.calls() > 0 => return self.end_list(),
                'a'..='z' | 'A'..='Z' | '_' => State::Name(String::from(c)),
                _ if is_white(c) => State::BeforeCall,
                _ => return self.fail(out),
            },
            State::Name(name) => match c {
                '(' if out.may_call(name) => State::Arguments {
                    name: std::mem::take(name),
                    arguments: KeywordArguments::new(),
                },
                'a'..='z' | 'A'..='Z' | '_' | '0'..='9' | '.' | '-' => {
                    name.push(c);
                    self.held.push(c);
                    return true;
                }
                _ => return self.fail(out),
            },
            State::Arguments { name, arguments } => match arguments.step(c) {
                Reading::More => {
                    self.held.push(c);
                    return true;
                }
                Reading::Done(json) => {
                    out.call(std::mem::take(name));
                    out.arguments(&json);
                    self.held.clear();
                    self.state = State::AfterCall;
                    return true;
                }
                Reading::Malformed => return self.fail(out),
            },
            State::AfterCall => match c {
                ',' => State::BeforeCall,
                ']' => return self.end_list(),
                _ if is_white(c) => State::AfterCall,
                _ => return self.fail(out),
            },
            State::AfterList => match self.literal.step(c, &[END]) {
                Match::Part => return true,
                Match::Whole(_) => {
                    self.held.clear();
                    self.state = State::Rest;
                    return true;
                }
                Match::No if self.literal.is_empty() && is_white(c) => State::AfterList,
                Match::No => return self.fail(out),
            },
            State::Rest => {
                out.content_char(c);
                return true;
            }
        };
        self.state = next;
        self.held.push(c);
        true
    }

    fn end_list(&mut self) -> bool {
        self.held.clear();
        self.state = State::AfterList;
        true
    }

    /// What was read is no call. The character has to be given again.
    fn fail(&mut self, out: &mut Output) -> bool {
        self.held.push_str(&self.literal.take());
        out.content(&std::mem::take(&mut self.held));
        self.state = State::Rest;
        false
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self, out: &mut Output) {
        self.held.push_str(&self.literal.take());
        let separates = |c| is_white(c) || c == ',';
        if out.calls() == 0 || !self.held.chars().all(separates) {
            out.content(&self.held);
        }
    }
}
