//! `<think>` … `</think>` before the answer.
//!
//! The opening tag counts only at the start. Between the tags everything is reasoning, including
//! what would be a tool call elsewhere; without a closing tag that is the whole answer. A block
//! of white space alone, which models write when told not to think, is dropped.

#[cfg(test)]
mod tests;

use crate::literal::{Literal, Match};
use crate::output::Output;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

#[derive(Debug)]
pub(crate) struct Reasoning {
    place: Place,
    /// The prompt has opened the block.
    begun: bool,
    literal: Literal,
    /// White space at the beginning of the answer or of the block.
    white: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    /// In the block, after white space at most.
    BlockStart,
    Block,
    Ended,
}

impl Reasoning {
    /// A parser that finds no reasoning.
    pub(crate) fn none() -> Self {
        Self {
            place: Place::Ended,
            ..Self::new(false)
        }
    }

    pub(crate) fn new(begun: bool) -> Self {
        Self {
            place: Place::Start,
            begun,
            literal: Literal::default(),
            white: String::new(),
        }
    }

    /// Whether the answer has begun: nothing more is reasoning.
    pub(crate) fn has_ended(&self) -> bool {
        self.place == Place::Ended
    }

    /// How much of the beginning of `text` is reasoning, whatever follows.
    pub(crate) fn plain(&self, text: &str) -> usize {
        if self.place == Place::Block && self.literal.is_empty() {
            text.find('<').unwrap_or(text.len())
        } else {
            0
        }
    }

    /// Takes a character. Text that is no reasoning is appended to `rest`.
    pub(crate) fn step(&mut self, c: char, out: &mut Output, rest: &mut String) {
        loop {
            let markers: &[&'static str] = match self.place {
                Place::Start if self.begun => &[OPEN, CLOSE],
                Place::Start => &[OPEN],
                Place::BlockStart | Place::Block => &[CLOSE],
                Place::Ended => &[],
            };
            match self.literal.step(c, markers) {
                Match::Part => {}
                Match::Whole(OPEN) => {
                    self.white.clear();
                    self.place = Place::BlockStart;
                }
                Match::Whole(_) => {
                    out.end_reasoning();
                    self.place = Place::Ended;
                }
                Match::No if !self.literal.is_empty() => {
                    let held = self.literal.take();
                    self.pass(&held, out, rest);
                    continue;
                }
                Match::No if c.is_whitespace() && self.is_at_start() => self.white.push(c),
                Match::No => self.pass(c.encode_utf8(&mut [0; 4]), out, rest),
            }
            return;
        }
    }

    fn is_at_start(&self) -> bool {
        matches!(self.place, Place::Start | Place::BlockStart)
    }

    /// Passes on text that is no marker, after the white space before it.
    fn pass(&mut self, text: &str, out: &mut Output, rest: &mut String) {
        if self.place == Place::Start {
            self.place = if self.begun {
                Place::Block
            } else {
                Place::Ended
            };
        } else if self.place == Place::BlockStart {
            self.place = Place::Block;
        }
        let white = std::mem::take(&mut self.white);
        if self.place == Place::Block {
            out.reasoning(&white);
            out.reasoning(text);
        } else {
            rest.push_str(&white);
            rest.push_str(text);
        }
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self, out: &mut Output, rest: &mut String) {
        if self.place == Place::Ended {
            return;
        }
        let held = self.literal.take();
        self.pass(&held, out, rest);
    }
}
