//! Mooncake's format, whole prompts or what each turn adds.
//!
//! One JSON object a line: `timestamp` in milliseconds, `input_length` and `output_length` in
//! tokens, and `hash_ids`, which name the prompt's blocks of 512 tokens. A row without them has a
//! prompt that no other shares.
//!
//! Rows with a `session_id` are the turns of one user. The first is sent at its timestamp, the
//! others when the answer before them has ended and `delay` milliseconds have passed. Without a
//! `delay`, the difference of the timestamps is taken: longer than the user really paused,
//! because a trace does not record how long answers took.
//!
//! Mooncake's rows hold whole prompts. aiperf writes what a turn adds: the prompt is then
//! everything that was asked and answered in the session before, and the row's own tokens.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;

use super::{LineFault, Row, Trace, TraceError};

/// Tokens in one of the format's blocks.
const BLOCK_TOKENS: usize = 512;
/// Names of blocks that are nobody else's: no generator of traces counts that far.
const UNSHARED: u64 = 1 << 63;

/// A line as it is written.
#[derive(Debug, Deserialize)]
struct Line {
    timestamp: Option<f64>,
    input_length: usize,
    output_length: u32,
    hash_ids: Option<Vec<u64>>,
    session_id: Option<serde_json::Value>,
    #[serde(alias = "delay_ms")]
    delay: Option<f64>,
}

/// The last row of a session.
#[derive(Clone, Copy)]
struct Last {
    row: usize,
    recorded: Option<Duration>,
}

pub(super) fn parse(text: &str, continues: bool) -> Result<Trace, TraceError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut sessions: HashMap<String, Last> = HashMap::new();
    for (number, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(text).map_err(|source| TraceError::Parse {
            line: number,
            format: "Mooncake request",
            source,
        })?;
        let invalid = |fault| TraceError::Invalid {
            line: number,
            fault,
        };
        let recorded = milliseconds("timestamp", line.timestamp).map_err(invalid)?;
        let delay = milliseconds("delay", line.delay).map_err(invalid)?;
        let session = line.session_id.as_ref().map(ToString::to_string);
        let mut row = row(line, rows.len(), continues).map_err(invalid)?;
        let before = session
            .as_ref()
            .and_then(|name| sessions.get(name))
            .copied();
        if let Some(before) = before {
            let between = recorded.zip(before.recorded);
            let between = between.map(|(later, earlier)| later.saturating_sub(earlier));
            row.pause = delay.or(between).unwrap_or_default();
            let index = rows.len();
            let earlier = &mut rows[before.row];
            earlier.next = Some(index);
            if continues {
                row.history_tokens = earlier.prompt_tokens() + earlier.output_tokens as usize;
            }
        } else {
            row.arrival = Some(recorded.unwrap_or_default());
        }
        if let Some(session) = session {
            let row = rows.len();
            sessions.insert(session, Last { row, recorded });
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(TraceError::Empty);
    }
    Ok(Trace {
        rows,
        block_tokens: BLOCK_TOKENS,
        continues,
    })
}

fn row(line: Line, index: usize, continues: bool) -> Result<Row, LineFault> {
    let input = line.input_length;
    if input == 0 {
        return Err(LineFault::NoInput);
    }
    let needed = input.div_ceil(BLOCK_TOKENS);
    let named = line.hash_ids.is_some();
    let mut blocks = line.hash_ids.unwrap_or_default();
    // Where rows hold what turns add, names may cover only what is shared.
    if named && !continues && blocks.len() < needed {
        return Err(LineFault::TooFewIds {
            ids: blocks.len(),
            covered: blocks.len() * BLOCK_TOKENS,
            input,
        });
    }
    let unshared =
        (blocks.len()..needed).map(|block| UNSHARED | (index as u64) << 24 | block as u64);
    blocks.extend(unshared);
    Ok(Row {
        arrival: None,
        pause: Duration::ZERO,
        next: None,
        input_tokens: input,
        history_tokens: 0,
        output_tokens: line.output_length.max(1),
        blocks: blocks.into(),
    })
}

fn milliseconds(field: &'static str, value: Option<f64>) -> Result<Option<Duration>, LineFault> {
    let Some(value) = value else { return Ok(None) };
    Duration::try_from_secs_f64(value / 1000.0)
        .map(Some)
        .map_err(|_| LineFault::NotATime { field, value })
}
