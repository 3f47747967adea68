//! One line of a request trace. Readers ignore fields that they do not know, and so do we.

use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "dynamo.request.trace.v1";
/// What a line about a request says that it is.
const REQUEST_END: &str = "request_end";
/// Who wrote our lines, in Dynamo's words: what stands before the engines.
const SOURCE: &str = "dynamo";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub schema: String,
    pub event_type: String,
    pub event_time_unix_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_context: Option<AgentContext>,
    pub request: Option<Request>,
}

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentContext {
    pub session_id: Option<String>,
}

/// A request that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    #[serde(default)]
    pub request_id: String,
    /// Under which its client knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Since 1970.
    pub request_received_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    pub total_time_ms: Option<f64>,
    /// Mean time per output token after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg_itl_ms: Option<f64>,
    /// Share of the prompt that was found cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_hit_rate: Option<f64>,
    pub replay: Option<Replay>,
}

/// What a prompt consisted of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Tokens of a block.
    pub trace_block_size: usize,
    pub input_length: usize,
    /// A hash of each block with all before it; the last block may be shorter.
    pub input_sequence_hashes: Vec<u64>,
}

impl Line {
    /// About a request that ended at `unix_ms`.
    pub fn request_end(unix_ms: u64, session: String, request: Request) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            event_type: REQUEST_END.to_owned(),
            event_time_unix_ms: Some(unix_ms),
            event_source: Some(SOURCE.to_owned()),
            agent_context: Some(AgentContext {
                session_id: Some(session),
            }),
            request: Some(request),
        }
    }

    /// The request that it is about, if it is one that has ended.
    pub fn ended(&self) -> Option<&Request> {
        let known = self.schema == SCHEMA && self.event_type == REQUEST_END;
        self.request.as_ref().filter(|_| known)
    }
}
