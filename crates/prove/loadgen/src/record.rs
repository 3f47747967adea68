//! What is kept about one request: a line of the record file, and a turn's figures on a page.
//!
//! An interface: fields are added, never renamed. Times are milliseconds, moments are
//! seconds since the load generator started; what does not exist is left out, never 0.

use std::time::Duration;

use contract::Moment;
use openai::{FinishReason, Routing};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::client::Exchange;
use crate::failure::Failure;
use crate::script::TurnPlan;

/// Whether a turn had a history to be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum TurnType {
    Initial,
    Followup,
}

impl TurnType {
    pub const ALL: [Self; 2] = [Self::Initial, Self::Followup];

    pub fn of(turn: u32) -> Self {
        match turn {
            0 => Self::Initial,
            _ => Self::Followup,
        }
    }

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Followup => "followup",
        }
    }
}

/// The measurements of one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[ts(optional_fields)]
pub struct RequestRecord {
    /// The id that the server got as `X-Session-ID`.
    pub conversation_id: String,
    /// In order of beginning, from 0; the same in every run with the same seed.
    pub conversation: u64,
    /// The turn's number in its conversation, from 0.
    pub turn: u32,
    /// How many turns the conversation has.
    pub turns: u32,
    pub turn_type: TurnType,
    /// From 0: how often this turn had failed before.
    pub attempt: u32,
    /// When the turn should have been sent.
    pub due_s: f64,
    /// When sending began, in seconds since the load generator started.
    pub sent_s: f64,
    pub ended_s: f64,
    /// From due to sent: how late the load generator was.
    pub dispatch_lag_ms: f64,
    /// Also of a request that failed after its first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_ms: Option<f64>,
    /// The median gap before a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itl_p50_ms: Option<f64>,
    /// The longest pause between two events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e2e_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
    /// Events with content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The server's own timing, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional, type = "ServerTiming")]
    pub server_timing: Option<serde_json::Value>,
    /// Why the request went to that worker, if the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// Which request of which conversation.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    pub conversation_id: &'a str,
    pub plan: &'a TurnPlan,
    pub attempt: u32,
    pub due: Moment,
}

impl RequestRecord {
    pub fn new(occasion: &Occasion<'_>, exchange: &Exchange) -> Self {
        let plan = occasion.plan;
        let answer = exchange.outcome.as_ref().ok();
        let details = answer.and_then(|answer| answer.usage.prompt_tokens_details);
        let extras = answer.map(|answer| answer.extras.clone());
        let extras = extras.unwrap_or_default();
        Self {
            conversation_id: occasion.conversation_id.to_owned(),
            conversation: plan.conversation,
            turn: plan.turn,
            turns: plan.turns,
            turn_type: TurnType::of(plan.turn),
            attempt: occasion.attempt,
            due_s: seconds(occasion.due),
            sent_s: seconds(exchange.sent),
            ended_s: seconds(exchange.ended),
            dispatch_lag_ms: milliseconds(exchange.sent - occasion.due),
            ttft_ms: exchange.ttft().map(milliseconds),
            tpot_ms: answer.and_then(|answer| answer.tpot).map(milliseconds),
            itl_p50_ms: answer.and_then(median_gap).map(milliseconds),
            longest_gap_ms: answer
                .and_then(|answer| answer.gaps.iter().map(|gap| gap.length).max())
                .map(milliseconds),
            e2e_ms: answer.map(|answer| milliseconds(answer.e2e)),
            prompt_tokens: answer.map(|answer| answer.usage.prompt_tokens),
            // A server that says nothing about its cache has not said 0.
            cached_tokens: details.map(|details| details.cached_tokens),
            output_tokens: answer.map(|answer| answer.usage.completion_tokens),
            chunks: answer.map(|answer| answer.chunks),
            finish_reason: answer.and_then(|answer| answer.finish),
            worker: extras.worker,
            server_timing: extras.timing,
            routing: extras.routing,
            error: exchange.outcome.as_ref().err().cloned(),
        }
    }
}

fn median_gap(answer: &crate::reading::Answer) -> Option<Duration> {
    let mut gaps = crate::Histogram::default();
    for gap in &answer.gaps {
        gaps.record(gap.per_token(), u64::from(gap.tokens));
    }
    let median = gaps.percentiles()?.p50;
    Some(Duration::from_secs_f64(median))
}

/// To the microsecond: finer than any clock that is compared with, and short to read.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// To the microsecond, as well.
pub fn seconds(moment: Moment) -> f64 {
    (moment.as_secs_f64() * 1e6).round() / 1e6
}
