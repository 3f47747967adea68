//! A whole run: what the final table and the objectives are about.
//!
//! Every latency of a request is kept, 24 bytes for each, so that its percentiles are values
//! that were measured; the gaps between tokens are too many and go into a histogram.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::Moment;

use crate::client::Exchange;
use crate::failure::FailureKind;
use crate::histogram::Histogram;
use crate::record::TurnType;
use crate::samples::Samples;

/// Figures of all requests that were sent after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Requests that ended, including failures.
    pub requests: u64,
    pub failures: BTreeMap<FailureKind, u64>,
    pub ttft: Samples,
    pub tpot: Samples,
    pub e2e: Samples,
    pub itl: Histogram,
    pub lag: Samples,
    /// TTFT of first turns, and of later ones.
    pub ttft_by_type: [Samples; 2],
    /// By type of turn, as the next.
    pub prompt_tokens: [u64; 2],
    pub cached_tokens: [u64; 2],
    pub output_tokens: u64,
    pub chunks: u64,
    first_sent: Option<Moment>,
    last_ended: Option<Moment>,
}

impl Totals {
    /// Records a request that ended.
    pub fn observe(&mut self, exchange: &Exchange, turn_type: TurnType, lag: Duration) {
        self.requests += 1;
        self.lag.push(lag);
        let first = self.first_sent.get_or_insert(exchange.sent);
        *first = (*first).min(exchange.sent);
        let last = self.last_ended.get_or_insert(exchange.ended);
        *last = (*last).max(exchange.ended);
        if let Some(ttft) = exchange.ttft() {
            self.ttft.push(ttft);
            self.ttft_by_type[turn_type as usize].push(ttft);
        }
        let answer = match &exchange.outcome {
            Ok(answer) => answer,
            Err(failure) => {
                *self.failures.entry(failure.kind).or_default() += 1;
                return;
            }
        };
        if let Some(tpot) = answer.tpot {
            self.tpot.push(tpot);
        }
        self.e2e.push(answer.e2e);
        for gap in &answer.gaps {
            self.itl.record(gap.per_token(), u64::from(gap.tokens));
        }
        let details = answer.usage.prompt_tokens_details.unwrap_or_default();
        let of_type = turn_type as usize;
        self.prompt_tokens[of_type] += u64::from(answer.usage.prompt_tokens);
        self.cached_tokens[of_type] += u64::from(details.cached_tokens);
        self.output_tokens += u64::from(answer.usage.completion_tokens);
        self.chunks += u64::from(answer.chunks);
    }

    /// Requests without an answer.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// From the first request's start to the last one's end.
    pub fn measured(&self) -> Duration {
        match (self.first_sent, self.last_ended) {
            (Some(first), Some(last)) => last - first,
            _ => Duration::ZERO,
        }
    }

    /// Answered requests per second.
    pub fn requests_per_second(&self) -> f64 {
        self.rate(self.requests - self.failed())
    }

    /// Output tokens per second.
    pub fn tokens_per_second(&self) -> f64 {
        self.rate(self.output_tokens)
    }

    /// The share of prompt tokens that the server had cached; NaN if there were none.
    pub fn hit_rate(&self) -> f64 {
        let cached: u64 = self.cached_tokens.iter().sum();
        cached as f64 / self.prompt_tokens.iter().sum::<u64>() as f64
    }

    /// The same of one type of turn.
    pub fn hit_rate_of(&self, turn_type: TurnType) -> f64 {
        let of_type = turn_type as usize;
        self.cached_tokens[of_type] as f64 / self.prompt_tokens[of_type] as f64
    }

    fn rate(&self, count: u64) -> f64 {
        match self.measured().as_secs_f64() {
            0.0 => 0.0,
            seconds => count as f64 / seconds,
        }
    }
}
