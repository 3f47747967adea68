//! The content of one streamed answer, and when it arrived.
//!
//! Pure: it is handed the moment of every read and the bytes that the read brought, so the
//! figures of a request follow from its bytes alone. Who reads them is [`crate::client`].
//!
//! # Definitions
//!
//! - **TTFT**: from the start of sending to the first event with content (text, reasoning
//!   or a tool call). An event that only names the role has none.
//! - **TPOT**: from the first to the last event with content, over the tokens that came
//!   after the first of them. **ITL**: the gap before an event, spread over its tokens.
//! - **E2E**: from the start of sending to the last event with content.
//! - **Tokens** are the server's count. If it counts in every event, an event's tokens are
//!   exact; if it counts at the end, they are spread evenly over the events, so that a
//!   server that sends four tokens at a time is not taken for a slow one.

mod arrival;
mod wire;

#[cfg(test)]
mod tests;

use std::time::Duration;

use contract::Moment;
use openai::event_reader::{DONE, Parser};
use openai::{FinishReason, Routing, Usage};

pub use self::arrival::{Arrival, ArrivalTotals, Listener};
use self::wire::Wire;
pub(crate) use self::wire::message as error_message;
use crate::failure::{Failure, FailureKind};

/// Longest piece of a bad event that a message repeats.
const QUOTED: usize = 120;

/// Reads the answer to one request.
#[derive(Debug)]
pub struct Reading {
    sent: Moment,
    parser: Parser,
    chunks: Vec<Chunk>,
    /// How many of them `next_arrival` has returned.
    told: usize,
    text: String,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    extras: Extras,
    done: bool,
    failure: Option<Failure>,
}

/// One event with content.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: Moment,
    /// All tokens up to this event, if the server counts along.
    so_far: Option<u32>,
}

/// Fields that Homing and other servers add beside the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    pub worker: Option<String>,
    /// The server's own timing, as it came.
    pub timing: Option<serde_json::Value>,
    /// Why the request went to that worker.
    pub routing: Option<Routing>,
}

/// A complete answer with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub text: String,
    pub finish: Option<FinishReason>,
    /// `None` if the answer was empty.
    pub ttft: Option<Duration>,
    /// `None` if all tokens came at once.
    pub tpot: Option<Duration>,
    pub e2e: Duration,
    /// The gap before each event but the first.
    pub gaps: Vec<Gap>,
    pub usage: Usage,
    /// Events with content.
    pub chunks: u32,
    pub extras: Extras,
}

/// The time between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub length: Duration,
    /// Tokens in the event that ended it.
    pub tokens: u32,
}

impl Gap {
    /// What each of its tokens took.
    pub fn per_token(self) -> Duration {
        self.length / self.tokens.max(1)
    }
}

impl Reading {
    pub fn new(sent: Moment) -> Self {
        Self {
            sent,
            parser: Parser::default(),
            chunks: Vec::new(),
            told: 0,
            text: String::new(),
            usage: None,
            finish: None,
            extras: Extras::default(),
            done: false,
            failure: None,
        }
    }

    /// Takes what one read brought. Returns whether the answer is over, including failures.
    pub fn push(&mut self, at: Moment, bytes: &[u8]) -> bool {
        let mut parser = std::mem::take(&mut self.parser);
        let outcome = parser.push(bytes, |data| self.event(at, data));
        self.parser = parser;
        if let Err(error) = outcome {
            self.fail(FailureKind::BrokenStream, error.to_string());
        }
        self.done || self.failure.is_some()
    }

    /// The next event with content that has not been returned yet.
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        let chunk = *self.chunks.get(self.told)?;
        let before = self.told.checked_sub(1).map(|before| self.chunks[before]);
        self.told += 1;
        let already = before.and_then(|before| before.so_far).unwrap_or(0);
        let tokens = chunk.so_far.map(|so_far| so_far.saturating_sub(already));
        let gap = before.zip(tokens).map(|(before, tokens)| Gap {
            length: chunk.at - before.at,
            tokens,
        });
        Some(Arrival {
            at: chunk.at,
            ttft: before.is_none().then(|| chunk.at - self.sent),
            tokens: tokens.unwrap_or(1),
            gap,
            usage: self.usage.filter(|_| before.is_none()),
        })
    }

    /// The text so far, for pages that show an answer while it arrives.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing that follows can make an answer of it.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The stream has ended, after `[DONE]` or without it.
    pub fn finish(self, now: Moment) -> Result<Answer, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if !self.done {
            let message = format!("the stream ended after {} events", self.chunks.len());
            return Err(Failure::new(FailureKind::BrokenStream, message));
        }
        let Some(usage) = self.usage else {
            let message = "the server did not report the number of output tokens";
            return Err(Failure::new(FailureKind::NoUsage, message));
        };
        let tokens = tokens_of(&self.chunks, usage.completion_tokens);
        let (first, last) = (self.chunks.first(), self.chunks.last());
        let after_first = usage
            .completion_tokens
            .saturating_sub(tokens.first().copied().unwrap_or(0));
        let tpot = match (first, last) {
            (Some(first), Some(last)) if self.chunks.len() > 1 && after_first > 0 => {
                Some((last.at - first.at) / after_first)
            }
            _ => None,
        };
        let pairs = self.chunks.windows(2).zip(&tokens[tokens.len().min(1)..]);
        Ok(Answer {
            ttft: first.map(|first| first.at - self.sent),
            tpot,
            e2e: last.map_or(now, |last| last.at) - self.sent,
            gaps: pairs
                .map(|(pair, &tokens)| Gap {
                    length: pair[1].at - pair[0].at,
                    tokens,
                })
                .collect(),
            usage,
            chunks: self.chunks.len() as u32,
            text: self.text,
            finish: self.finish,
            extras: self.extras,
        })
    }

    fn event(&mut self, at: Moment, data: &str) {
        // What follows the end or an error is not part of the answer.
        if self.done || self.failure.is_some() {
            return;
        }
        if data == DONE {
            self.done = true;
            return;
        }
        let wire: Wire = match serde_json::from_str(data) {
            Ok(wire) => wire,
            Err(error) => {
                let start: String = data.chars().take(QUOTED).collect();
                let message = format!("not an event of a chat answer ({error}): {start}");
                return self.fail(FailureKind::BrokenStream, message);
            }
        };
        if let Some(error) = wire.error {
            return self.fail(FailureKind::ServerError, wire::message(&error));
        }
        self.usage = wire.usage.or(self.usage);
        if let Some(nvext) = &wire.nvext {
            self.extras.worker = wire::worker(nvext).or(self.extras.worker.take());
            self.extras.routing = wire::routing(nvext).or(self.extras.routing.take());
            self.extras.timing = nvext.get("timing").cloned().or(self.extras.timing.take());
        }
        let mut has_content = false;
        for choice in wire.choices {
            let text = choice.delta.content.as_deref().or(choice.text.as_deref());
            let text = text.unwrap_or_default();
            has_content |= !text.is_empty() || choice.delta.has_content();
            self.text.push_str(text);
            self.finish = choice.finish_reason.or(self.finish);
        }
        if has_content {
            self.chunks.push(Chunk {
                at,
                so_far: wire.usage.map(|usage| usage.completion_tokens),
            });
        }
    }

    fn fail(&mut self, kind: FailureKind, message: String) {
        self.failure.get_or_insert(Failure::new(kind, message));
    }
}

/// How many tokens each event brought.
fn tokens_of(chunks: &[Chunk], total: u32) -> Vec<u32> {
    let counted: Option<Vec<u32>> = chunks.iter().map(|chunk| chunk.so_far).collect();
    let events = chunks.len() as u64;
    // Rounded up, so that the first event has a token whenever there is one.
    let even = |event: u64| (event * u64::from(total)).div_ceil(events.max(1)) as u32;
    let so_far = counted.unwrap_or_else(|| (1..=events).map(even).collect());
    let mut before = 0;
    so_far
        .into_iter()
        .map(|up_to| {
            let tokens = up_to.saturating_sub(before);
            before = before.max(up_to);
            tokens
        })
        .collect()
}
