//! Recorded requests, in the formats of others.
//!
//! A recorded prompt is a list of block names. Equal names stand for equal tokens, so a trace
//! keeps what prompts had in common without their words.
//!
//! | module | format |
//! |---|---|
//! | [`mooncake`] | Mooncake's, and aiperf's, in which a row holds only what a turn adds |
//! | [`dynamo`] | Dynamo's request traces |

mod dynamo;
mod mooncake;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::TokenId;
use flate2::read::MultiGzDecoder;

use crate::content::Content;

/// What a file of recorded requests looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Rows with their whole prompts.
    Mooncake,
    /// Rows of a session with what each turn adds; what was asked and answered before comes first.
    Aiperf,
    /// Dynamo's request traces: `dynamo.request.trace.v1`.
    Dynamo,
}

/// A recorded load.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    pub(crate) rows: Vec<Row>,
    /// Tokens of one of the trace's blocks.
    block_tokens: usize,
    /// Whether a prompt goes on where the answer before it in its session ended.
    pub(crate) continues: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// When it is sent; `None` if it waits for the row before it in its session.
    pub(crate) arrival: Option<Duration>,
    /// After the row before it in its session.
    pub(crate) pause: Duration,
    /// The next row of its session.
    pub(crate) next: Option<usize>,
    /// Tokens of its own.
    pub(crate) input_tokens: usize,
    /// Tokens that come before them: what was asked and answered earlier in its session.
    pub(crate) history_tokens: usize,
    pub(crate) output_tokens: u32,
    blocks: Box<[u64]>,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read the trace {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("line {line} of the trace is not a {format}")]
    Parse {
        line: usize,
        format: &'static str,
        source: serde_json::Error,
    },
    #[error("line {line} of the trace: {fault}")]
    Invalid { line: usize, fault: LineFault },
    #[error("the trace has no requests")]
    Empty,
    #[error(
        "the trace has {0} requests, but none with replay metadata (request.replay): they cannot be \
         replayed"
    )]
    NoReplayData(usize),
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
    #[error("its blocks have {found} tokens, those before it {expected}")]
    BlockSize { found: usize, expected: usize },
    #[error("blocks of 0 tokens")]
    NoBlockSize,
}

impl Trace {
    /// Reads a file, compressed with gzip or not.
    pub fn load(path: &Path, format: TraceFormat) -> Result<Self, TraceError> {
        let text = read(path).map_err(|source| TraceError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, format)
    }

    /// A trace from the text of its file.
    pub fn parse(text: &str, format: TraceFormat) -> Result<Self, TraceError> {
        match format {
            TraceFormat::Mooncake => mooncake::parse(text, false),
            TraceFormat::Aiperf => mooncake::parse(text, true),
            TraceFormat::Dynamo => dynamo::parse(text),
        }
    }

    /// How many requests it holds.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Never: an empty trace is refused.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Only the first so many requests, in the order in which they were recorded.
    #[must_use]
    pub fn first(mut self, requests: usize) -> Self {
        self.rows.truncate(requests);
        for row in &mut self.rows {
            row.next = row.next.filter(|&next| next < requests);
        }
        self
    }

    /// Whether a prompt goes on where the answer before it in its session ended.
    pub fn continues(&self) -> bool {
        self.continues
    }

    /// The longest prompt with its answer.
    pub fn longest_tokens(&self) -> usize {
        let lengths = self.rows.iter();
        let lengths = lengths.map(|row| row.prompt_tokens() + row.output_tokens as usize);
        lengths.max().unwrap_or(0)
    }

    /// Whether its rows seem to hold what turns add, although they are taken for whole prompts:
    /// there are sessions, and no turn begins with the same block as the one before it.
    pub fn seems_to_continue(&self) -> bool {
        let mut turns = self.rows.iter().filter_map(|row| Some((row, row.next?)));
        let follows =
            |(row, next): (&Row, usize)| row.blocks.first() == self.rows[next].blocks.first();
        let has_turns = turns.clone().next().is_some();
        !self.continues && has_turns && !turns.any(follows)
    }

    /// Appends what a row asks.
    pub(crate) fn append(&self, row: &Row, content: &Content, out: &mut Vec<TokenId>) {
        let mut left = row.input_tokens;
        for &block in &row.blocks {
            let length = left.min(self.block_tokens);
            content.block(block, length, out);
            left -= length;
        }
    }
}

impl Row {
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.history_tokens + self.input_tokens
    }
}

/// The text of a file. Gzip begins with two bytes that no text has.
fn read(path: &Path) -> io::Result<String> {
    let bytes = std::fs::read(path)?;
    let mut text = String::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text)?,
        false => bytes.as_slice().read_to_string(&mut text)?,
    };
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::TraceFormat::{Aiperf, Mooncake};
    use super::*;

    fn prompt(trace: &Trace, row: usize) -> Vec<TokenId> {
        let mut out = Vec::new();
        trace.append(&trace.rows[row], &Content::new(1), &mut out);
        out
    }

    #[test]
    fn equal_ids_are_equal_tokens() {
        let trace = Trace::parse(
            r#"{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
               {"timestamp": 1500, "input_length": 1300, "output_length": 0, "hash_ids": [0, 1, 3]}"#,
            Mooncake,
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
            Mooncake,
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
            assert_eq!(
                Trace::parse(text, Mooncake).unwrap_err().to_string(),
                expected
            );
        }
    }

    const TURNS: &str = r#"{"session_id": "a", "timestamp": 5, "input_length": 600, "output_length": 40, "hash_ids": [0, 1]}
        {"session_id": "a", "delay": 2.5, "input_length": 100, "output_length": 20, "hash_ids": [7]}
        {"session_id": "b", "timestamp": 9, "input_length": 700, "output_length": 1, "hash_ids": [0]}
        {"session_id": "a", "delay_ms": 3, "input_length": 10, "output_length": 5}"#;

    #[test]
    fn rows_that_hold_what_a_turn_adds_follow_what_was_said() {
        let trace = Trace::parse(TURNS, Aiperf).unwrap();
        let lengths: Vec<_> = trace.rows.iter().map(Row::prompt_tokens).collect();
        assert_eq!(lengths, [600, 740, 700, 770]);
        assert_eq!(trace.longest_tokens(), 775);
        assert_eq!(prompt(&trace, 1).len(), 100);
        // What has no name is nobody else's.
        assert_eq!(prompt(&trace, 0)[..512], prompt(&trace, 2)[..512]);
        assert_ne!(prompt(&trace, 0)[512..], prompt(&trace, 2)[512..600]);
        assert!(!trace.seems_to_continue());
    }

    #[test]
    fn such_rows_are_noticed_where_whole_prompts_are_expected() {
        let named = TURNS.replace("\"hash_ids\": [0]", "\"hash_ids\": [0, 3]");
        assert!(Trace::parse(&named, Mooncake).unwrap().seems_to_continue());
        let whole = named.replace("\"hash_ids\": [7]", "\"hash_ids\": [0]");
        assert!(!Trace::parse(&whole, Mooncake).unwrap().seems_to_continue());
    }

    #[test]
    fn a_compressed_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl.gz");
        let file = std::fs::File::create(&path).unwrap();
        let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, TURNS.as_bytes()).unwrap();
        encoder.finish().unwrap();
        let read = Trace::load(&path, Aiperf).unwrap();
        assert_eq!(read, Trace::parse(TURNS, Aiperf).unwrap());
    }
}
