//! Dynamo's request traces: one JSON object a line, with the schema `dynamo.request.trace.v1`.
//!
//! Lines about requests that have ended are read, others are passed over. A request's `replay` has
//! the length of its prompt, the size of the trace's blocks and a hash of each block with all
//! before it. Requests are sent when they were received; those of one agent session that began
//! after the answer before them had ended wait for it, and then as long as they did.

use std::collections::HashMap;
use std::time::Duration;

use request_trace::{Line, Request};
use serde::Deserialize;

use super::{LineFault, Row, Trace, TraceError};

/// A line, which a recorder may have wrapped.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Wrapper {
    Wrapped { event: Line },
    Plain(Line),
}

/// A request that can be replayed.
struct Recorded {
    received_ms: u64,
    ended_ms: u64,
    session: Option<String>,
    row: Row,
}

pub(super) fn parse(text: &str) -> Result<Trace, TraceError> {
    let mut recorded: Vec<Recorded> = Vec::new();
    let (mut block_tokens, mut requests) = (None, 0);
    for (number, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let line: Wrapper = serde_json::from_str(text).map_err(|source| TraceError::Parse {
            line: number,
            format: "record of a Dynamo request trace",
            source,
        })?;
        let (Wrapper::Wrapped { event: line } | Wrapper::Plain(line)) = line;
        let Some(request) = line.ended() else {
            continue;
        };
        requests += 1;
        let read = read(&line, request, &mut block_tokens);
        recorded.extend(read.map_err(|fault| TraceError::Invalid {
            line: number,
            fault,
        })?);
    }
    match block_tokens {
        Some(block_tokens) => Ok(Trace {
            rows: in_order(recorded),
            block_tokens,
            continues: false,
        }),
        None if requests > 0 => Err(TraceError::NoReplayData(requests)),
        None => Err(TraceError::Empty),
    }
}

/// `None` if a line says too little to be replayed.
fn read(
    line: &Line,
    request: &Request,
    block_tokens: &mut Option<usize>,
) -> Result<Option<Recorded>, LineFault> {
    let (Some(replay), Some(received_ms)) = (&request.replay, request.request_received_ms) else {
        return Ok(None);
    };
    let (found, input) = (replay.trace_block_size, replay.input_length);
    let expected = *block_tokens.get_or_insert(found);
    if found == 0 {
        return Err(LineFault::NoBlockSize);
    }
    if found != expected {
        return Err(LineFault::BlockSize { found, expected });
    }
    if input == 0 {
        return Err(LineFault::NoInput);
    }
    let ids = replay.input_sequence_hashes.len();
    if ids < input.div_ceil(found) {
        return Err(LineFault::TooFewIds {
            ids,
            covered: ids * found,
            input,
        });
    }
    let took = request.total_time_ms.unwrap_or(0.0).max(0.0);
    let agent = line.agent_context.as_ref();
    Ok(Some(Recorded {
        received_ms,
        ended_ms: line.event_time_unix_ms.unwrap_or(received_ms + took as u64),
        session: agent.and_then(|agent| agent.session_id.clone()),
        row: Row {
            arrival: None,
            pause: Duration::ZERO,
            next: None,
            input_tokens: input,
            history_tokens: 0,
            output_tokens: request.output_tokens.unwrap_or(1).max(1),
            blocks: replay.input_sequence_hashes.as_slice().into(),
        },
    }))
}

/// Rows in the order in which they were received.
fn in_order(mut recorded: Vec<Recorded>) -> Vec<Row> {
    recorded.sort_by_key(|request| request.received_ms);
    let first_ms = recorded.first().map_or(0, |request| request.received_ms);
    let mut rows: Vec<Row> = Vec::with_capacity(recorded.len());
    // The last row of each session, and when it ended.
    let mut sessions: HashMap<String, (usize, u64)> = HashMap::new();
    for request in recorded {
        let (index, mut row) = (rows.len(), request.row);
        let before = request.session.as_ref().and_then(|name| sessions.get(name));
        match before {
            Some(&(before, ended_ms)) if ended_ms <= request.received_ms => {
                row.pause = Duration::from_millis(request.received_ms - ended_ms);
                rows[before].next = Some(index);
            }
            Some(_) | None => {
                row.arrival = Some(Duration::from_millis(request.received_ms - first_ms));
            }
        }
        if let Some(session) = request.session {
            sessions.insert(session, (index, request.ended_ms));
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use request_trace::SCHEMA;

    use super::*;

    fn line(received_ms: u64, ended_ms: u64, session: &str, hashes: &str) -> String {
        format!(
            r#"{{"schema":"{SCHEMA}","event_type":"request_end","event_time_unix_ms":{ended_ms},
            "agent_context":{{"session_id":"{session}"}},"request":{{"request_id":"r","request_received_ms":{received_ms},
            "output_tokens":3,"replay":{{"trace_block_size":64,"input_length":100,"input_sequence_hashes":{hashes}}}}}}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn turns_of_a_session_wait_for_answers_that_they_waited_for() {
        let text = [
            line(1_500, 2_000, "a", "[7, 8]"),
            line(1_000, 1_400, "a", "[7, 9]"),
            // Beside the one before it: a call of the same agent that did not wait.
            line(1_900, 2_100, "a", "[7, 10]"),
            line(1_200, 1_300, "b", "[18446744073709551615, 1]"),
            format!(r#"{{"schema":"{SCHEMA}","event_type":"tool_end","tool":{{}}}}"#),
            format!(
                r#"{{"timestamp": 5, "event": {}}}"#,
                line(9_000, 9_001, "c", "[1, 2]")
            ),
        ];
        let trace = parse(&text.join("\n")).unwrap();
        let told: Vec<_> = trace
            .rows
            .iter()
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
                (Some(0), Some(2), 0),
                (Some(200), None, 0),
                (None, None, 100),
                (Some(900), None, 0),
                (Some(8_000), None, 0),
            ]
        );
        assert_eq!((trace.block_tokens, trace.rows[0].output_tokens), (64, 3));
    }

    #[test]
    fn what_cannot_be_replayed_is_named() {
        let good = line(1, 2, "a", "[7, 8]");
        let other = good.replace("\"trace_block_size\":64", "\"trace_block_size\":32");
        let without = r#"{"schema":"dynamo.request.trace.v1","event_type":"request_end","request":{"request_id":"r"}}"#;
        for (text, expected) in [
            (String::new(), "the trace has no requests"),
            (
                "{}".to_owned(),
                "line 1 of the trace is not a record of a Dynamo request trace",
            ),
            (
                without.to_owned(),
                "the trace has 1 requests, but none with replay metadata (request.replay): they cannot be replayed",
            ),
            (
                line(1, 2, "a", "[7]"),
                "line 1 of the trace: 1 hash_ids cover 64 tokens, but input_length is 100",
            ),
            (
                format!("{good}\n{other}"),
                "line 2 of the trace: its blocks have 32 tokens, those before it 64",
            ),
            (
                good.replace("\"trace_block_size\":64", "\"trace_block_size\":0"),
                "line 1 of the trace: blocks of 0 tokens",
            ),
            (
                good.replace("\"input_length\":100", "\"input_length\":0"),
                "line 1 of the trace: input_length is 0",
            ),
        ] {
            assert_eq!(parse(&text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
