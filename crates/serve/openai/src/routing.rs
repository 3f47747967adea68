//! The routing decision as an answer reports it.
//!
//! Not part of OpenAI's API: a request asks for it with `nvext.extra_fields: ["routing"]`. A
//! short form of the router's own record, which `/decisions` shows in full.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Candidates that an answer lists. A fleet may have a thousand.
pub const MOST_CANDIDATES: usize = 16;

/// The router's decision about a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Routing {
    /// The policy's name.
    pub mode: String,
    /// Why the chosen worker won, in words.
    pub reason: String,
    /// Full blocks of the prompt.
    pub blocks: u32,
    /// How long the request waited for a slot.
    pub queued_ms: f64,
    /// From the decision to the first token, as the router expected it.
    pub predicted_ttft_ms: f64,
    /// Cheapest first, at most [`MOST_CANDIDATES`]; the chosen one is always among them.
    pub candidates: Vec<RoutingCandidate>,
}

/// A worker that could have taken the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct RoutingCandidate {
    pub worker: u64,
    /// Leading blocks of the prompt that it held or was about to hold.
    pub overlap_blocks: u32,
    pub in_flight: u32,
    /// What the policy weighed; `null` if it does not weigh.
    pub cost: Option<f64>,
    /// The time to the first token that the router expected there; absent if the policy does not
    /// expect any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub ttft_ms: Option<f32>,
}
