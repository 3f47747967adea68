//! The whole way: text in, parts out.
//!
//! Reasoning comes first; the format of tool calls sees what follows it. Stretches that contain
//! no first character of a marker are passed on without looking at each character.

#[cfg(test)]
mod tests;

use crate::format::{AnswerFormat, ToolFormat};
use crate::hermes::Hermes;
use crate::llama3::Llama3;
use crate::mistral::Mistral;
use crate::output::Output;
use crate::pythonic::Pythonic;
use crate::reasoning::Reasoning;
use crate::{Part, ReasoningFormat};

/// Splits one answer.
#[derive(Debug)]
pub struct AnswerParser {
    reasoning: Reasoning,
    calls: Calls,
    output: Output,
}

#[derive(Debug)]
enum Calls {
    None,
    Hermes(Hermes),
    Llama3(Llama3),
    Mistral(Mistral),
    Pythonic(Pythonic),
}

impl AnswerParser {
    /// A call of a function that is not among `tool_names` is content, unless that is empty.
    pub fn new(format: AnswerFormat, tool_names: &[String]) -> Self {
        let calls = match format.tools {
            None => Calls::None,
            Some(ToolFormat::Hermes) => Calls::Hermes(Hermes::new()),
            Some(ToolFormat::Llama3) => Calls::Llama3(Llama3::new()),
            Some(ToolFormat::Mistral) => Calls::Mistral(Mistral::new()),
            Some(ToolFormat::Pythonic) => Calls::Pythonic(Pythonic::new()),
        };
        Self {
            reasoning: match format.reasoning {
                None => Reasoning::none(),
                Some(ReasoningFormat::Think) => Reasoning::new(format.begins_in_reasoning),
            },
            calls,
            output: Output::new(tool_names, format.tools.is_some()),
        }
    }

    /// Takes the next piece of the answer, and appends to `out` what is certain now.
    pub fn push(&mut self, text: &str, out: &mut Vec<Part>) {
        let answer = self.push_reasoning(text);
        self.push_answer(answer);
        self.output.take(out);
    }

    /// No more text comes: appends what was held back. Further text would be content.
    pub fn finish(&mut self, out: &mut Vec<Part>) {
        let mut rest = String::new();
        self.reasoning.finish(&mut self.output, &mut rest);
        self.push_answer(&rest);
        self.calls.finish(&mut self.output);
        self.calls = Calls::None;
        self.output.finish();
        self.output.take(out);
    }

    /// How many calls were found so far.
    pub fn calls(&self) -> u32 {
        self.output.calls()
    }

    /// Returns what comes after the reasoning.
    fn push_reasoning<'a>(&mut self, mut text: &'a str) -> &'a str {
        let mut rest = String::new();
        while !self.reasoning.has_ended() {
            let plain = self.reasoning.plain(text);
            self.output.reasoning(&text[..plain]);
            text = &text[plain..];
            let Some(c) = text.chars().next() else {
                return text;
            };
            text = &text[c.len_utf8()..];
            self.reasoning.step(c, &mut self.output, &mut rest);
        }
        self.push_answer(&rest);
        text
    }

    fn push_answer(&mut self, mut text: &str) {
        loop {
            let plain = self.calls.plain(text, &self.output);
            self.output.content(&text[..plain]);
            text = &text[plain..];
            let Some(c) = text.chars().next() else {
                return;
            };
            text = &text[c.len_utf8()..];
            while !self.calls.step(c, &mut self.output) {}
        }
    }
}

impl Calls {
    fn plain(&self, text: &str, out: &Output) -> usize {
        match self {
            Self::None => text.len(),
            Self::Hermes(format) => format.plain(text, out),
            Self::Llama3(format) => format.plain(text),
            Self::Mistral(format) => format.plain(text, out),
            Self::Pythonic(format) => format.plain(text),
        }
    }

    fn step(&mut self, c: char, out: &mut Output) -> bool {
        match self {
            Self::None => {
                out.content_char(c);
                true
            }
            Self::Hermes(format) => format.step(c, out),
            Self::Llama3(format) => format.step(c, out),
            Self::Mistral(format) => format.step(c, out),
            Self::Pythonic(format) => format.step(c, out),
        }
    }

    fn finish(&mut self, out: &mut Output) {
        match self {
            Self::None => {}
            Self::Hermes(format) => format.finish(out),
            Self::Llama3(format) => format.finish(out),
            Self::Mistral(format) => format.finish(out),
            Self::Pythonic(format) => format.finish(out),
        }
    }
}
