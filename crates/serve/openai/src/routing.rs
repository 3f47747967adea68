//! The routing decision as an answer reports it.
//!
//! Not part of OpenAI's API: a request asks for it with `nvext.extra_fields: ["routing"]`. A
//! short form of the router's own record, which `/decisions` shows in full.

use serde::{Deserialize, Deserializer, Serialize};
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
    /// Its id, as text: some are larger than the whole numbers that floats can hold.
    #[serde(deserialize_with = "text_or_number")]
    pub worker: String,
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

/// Older servers and records have numbers.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(u64),
    }
    Id::deserialize(deserializer).map(|id| match id {
        Id::Text(text) => text,
        Id::Number(number) => number.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_written_as_text_and_read_as_either() {
        let figures = r#""overlap_blocks":7,"in_flight":3,"cost":1.5}"#;
        let text = format!(r#"{{"worker":"7587899007311003142",{figures}"#);
        let read: RoutingCandidate = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let number = format!(r#"{{"worker":7587899007311003142,{figures}"#);
        assert_eq!(
            serde_json::from_str::<RoutingCandidate>(&number).unwrap(),
            read
        );
        assert!(
            serde_json::from_str::<RoutingCandidate>(&format!(r#"{{"worker":-1,{figures}"#))
                .is_err()
        );
    }
}
