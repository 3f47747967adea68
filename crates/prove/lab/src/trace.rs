//! Recorded requests, in Mooncake's format.
//!
//! One JSON object a line: `timestamp` in milliseconds, `input_length` and `output_length` in
//! tokens, and `hash_ids`, which name the prompt's blocks of 512 tokens. Equal ids stand for
//! equal tokens, so a trace keeps what prompts had in common without their words.
//!
//! Rows with a `session_id` are the turns of one user. The first is sent at its timestamp, the
//! others when the answer before them has ended and `delay` milliseconds have passed. Without a
//! `delay`, the difference of the timestamps is taken: longer than the user really paused,
//! because a trace does not record how long answers took.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::TokenId;
use serde::Deserialize;

use crate::content::Content;

/// Tokens in one of the format's blocks.
const BLOCK_TOKENS: usize = 512;

/// A recorded load.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// When it is sent; `None` if it waits for the row before it in its session.
    pub(crate) arrival: Option<Duration>,
    /// After the row before it in its session.
    pub(crate) pause: Duration,
    /// The next row of its session.
    pub(crate) next: Option<usize>,
    pub(crate) input_tokens: usize,
    pub(crate) output_tokens: u32,
    blocks: Box<[u64]>,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read the trace {}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("line {line} of the trace is not a Mooncake request")]
    Parse {
        line: usize,
        source: serde_json::Error,
    },
    #[error("line {line} of the trace: {fault}")]
    Invalid { line: usize, fault: LineFault },
    #[error("the trace has no requests")]
    Empty,
}

/// What is wrong with a line of a trace.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    #[error("input_length is 0")]
    NoInput,
    #[error("{ids} hash_ids cover {covered} tokens, but input_length is {input}")]
    TooFewIds {
        ids: usize,
        covered: usize,
        input: usize,
    },
    #[error("{field} {value} is not a time")]
    NotATime { field: &'static str, value: f64 },
}

/// A line as it is written.
#[derive(Debug, Deserialize)]
struct Line {
    timestamp: Option<f64>,
    input_length: usize,
    output_length: u32,
    hash_ids: Vec<u64>,
    session_id: Option<serde_json::Value>,
    delay: Option<f64>,
}

impl Trace {
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let text = std::fs::read_to_string(path).map_err(|source| TraceError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// A trace from the text of its file.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut rows: Vec<Row> = Vec::new();
        // The last row of each session, and when it was recorded.
        let mut sessions: HashMap<String, (usize, Option<Duration>)> = HashMap::new();
        for (number, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(text).map_err(|source| TraceError::Parse {
                line: number,
                source,
            })?;
            let invalid = |fault| TraceError::Invalid {
                line: number,
                fault,
            };
            let recorded = milliseconds("timestamp", line.timestamp).map_err(invalid)?;
            let delay = milliseconds("delay", line.delay).map_err(invalid)?;
            let session = line.session_id.as_ref().map(ToString::to_string);
            let mut row = Row::new(line).map_err(invalid)?;
            let before = session
                .as_ref()
                .and_then(|name| sessions.get(name))
                .copied();
            if let Some((before, before_recorded)) = before {
                let between = recorded.zip(before_recorded);
                let between = between.map(|(later, earlier)| later.saturating_sub(earlier));
                row.pause = delay.or(between).unwrap_or_default();
                rows[before].next = Some(rows.len());
            } else {
                row.arrival = Some(recorded.unwrap_or_default());
            }
            if let Some(session) = session {
                sessions.insert(session, (rows.len(), recorded));
            }
            rows.push(row);
        }
        if rows.is_empty() {
            return Err(TraceError::Empty);
        }
        Ok(Self { rows })
    }

    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Never: an empty trace is refused.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The longest prompt with its answer.
    pub fn longest_tokens(&self) -> usize {
        let lengths = self.rows.iter();
        let lengths = lengths.map(|row| row.input_tokens + row.output_tokens as usize);
        lengths.max().unwrap_or(0)
    }

    /// Appends a row's prompt.
    pub(crate) fn prompt(&self, row: &Row, content: &Content, out: &mut Vec<TokenId>) {
        let mut left = row.input_tokens;
        for &block in &row.blocks {
            let length = left.min(BLOCK_TOKENS);
            content.block(block, length, out);
            left -= length;
        }
    }
}

impl Row {
    fn new(line: Line) -> Result<Self, LineFault> {
        let held = line.hash_ids.len() * BLOCK_TOKENS;
        if line.input_length == 0 {
            return Err(LineFault::NoInput);
        }
        if held < line.input_length {
            return Err(LineFault::TooFewIds {
                ids: line.hash_ids.len(),
                covered: held,
                input: line.input_length,
            });
        }
        Ok(Self {
            arrival: None,
            pause: Duration::ZERO,
            next: None,
            input_tokens: line.input_length,
            output_tokens: line.output_length.max(1),
            blocks: line.hash_ids.into(),
        })
    }
}

fn milliseconds(field: &'static str, value: Option<f64>) -> Result<Option<Duration>, LineFault> {
    let Some(value) = value else { return Ok(None) };
    Duration::try_from_secs_f64(value / 1000.0)
        .map(Some)
        .map_err(|_| LineFault::NotATime { field, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(trace: &Trace, row: usize) -> Vec<TokenId> {
        let mut out = Vec::new();
        trace.prompt(&trace.rows[row], &Content::new(1), &mut out);
        out
    }

    #[test]
    fn equal_ids_are_equal_tokens() {
        let trace = Trace::parse(
            r#"{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
               {"timestamp": 1500, "input_length": 1300, "output_length": 0, "hash_ids": [0, 1, 3]}"#,
        )
        .unwrap();
        let (first, second) = (prompt(&trace, 0), prompt(&trace, 1));
        assert_eq!((first.len(), second.len()), (1100, 1300));
        assert_eq!(first[..1024], second[..1024]);
        assert_ne!(first[1024..1100], second[1024..1100]);
        assert_eq!(trace.rows[1].arrival, Some(Duration::from_millis(1500)));
        assert_eq!(trace.rows[1].output_tokens, 1, "an answer has a token");
        assert_eq!(trace.longest_tokens(), 1301);
    }

    #[test]
    fn a_session_waits_for_its_answers() {
        let trace = Trace::parse(
            r#"{"session_id": "a", "timestamp": 100, "input_length": 5, "output_length": 5, "hash_ids": [0]}
               {"session_id": 7, "timestamp": 150, "input_length": 5, "output_length": 5, "hash_ids": [9]}
               {"session_id": "a", "timestamp": 900, "input_length": 6, "output_length": 5, "hash_ids": [0]}
               {"session_id": "a", "delay": 50, "input_length": 7, "output_length": 5, "hash_ids": [0]}"#,
        )
        .unwrap();
        let rows = trace.rows.iter();
        let told: Vec<_> = rows
            .map(|row| {
                (
                    row.arrival.map(|at| at.as_millis()),
                    row.next,
                    row.pause.as_millis(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (Some(100), Some(2), 0),
                (Some(150), None, 0),
                (None, Some(3), 800),
                (None, None, 50),
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("", "the trace has no requests"),
            ("\n{}", "line 2 of the trace is not a Mooncake request"),
            (
                r#"{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1]}"#,
                "line 1 of the trace: 1 hash_ids cover 512 tokens, but input_length is 600",
            ),
            (
                r#"{"timestamp": -5, "input_length": 6, "output_length": 1, "hash_ids": [1]}"#,
                "line 1 of the trace: timestamp -5 is not a time",
            ),
        ] {
            assert_eq!(Trace::parse(text).unwrap_err().to_string(), expected);
        }
    }
}
