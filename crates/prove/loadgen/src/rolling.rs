//! The last minute, exactly.
//!
//! Latencies are kept by telemetry's window: steps of one second, 60 of them, nearest-rank
//! quantiles of all their samples. Counts are kept in the same steps here.
//!
//! Things count when they happen: a TTFT at the first token, tokens and the gaps between them
//! as they arrive, and what an answer is as a whole when it ends. What a server tells only at
//! the end counts then. A request that failed counts as failed and has no latency, neither a
//! fast one nor a missing one; if its first token had come, that TTFT was measured and stays.

mod flow;

use std::sync::Arc;
use std::time::Duration;

use contract::Moment;
use openai::Usage;
use serde::{Deserialize, Serialize};
use telemetry::Window;
use ts_rs::TS;

pub use self::flow::Flow;
use crate::client::Exchange;
use crate::reading::{Arrival, Gap};
use crate::record::TurnType;

const STEPS: usize = 60;
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// Percentiles with the number of samples behind them; `null` without a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct Figures {
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub samples: u64,
}

/// What the last minute saw. Latencies are milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct WindowFigures {
    /// How much time the rates are over: 60, or less at the beginning.
    pub seconds: f64,
    /// Requests that ended, including failures.
    pub requests: u64,
    pub failures: u64,
    /// Failures in percent of all requests.
    pub error_pct: Option<f64>,
    /// Answered requests per second.
    pub rps: f64,
    /// Output tokens per second.
    pub tops: f64,
    /// Cached prompt tokens in percent of all, as the server reports them.
    pub cached_pct: Option<f64>,
    /// Tokens per event with content. Figures derived from events, such as ITL, are exact only if
    /// this is close to 1.
    pub tokens_per_chunk: Option<f64>,
    pub ttft_ms: Figures,
    pub tpot_ms: Figures,
    pub itl_ms: Figures,
    pub e2e_ms: Figures,
    /// How late the load generator itself was.
    pub dispatch_lag_ms: Figures,
    pub initial: TurnFigures,
    pub followup: TurnFigures,
}

/// The same, of first turns or of later ones alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct TurnFigures {
    /// Prompt tokens in a hundred that the server had cached. Of first turns, it says how far
    /// conversations profit from each other rather than from their own history.
    pub cached_pct: Option<f64>,
    pub ttft_ms: Figures,
    pub tpot_ms: Figures,
}

/// Samples and counts of the last minute.
#[derive(Debug, Default)]
pub struct Rolling {
    ttft: [Window; 2],
    tpot: [Window; 2],
    all_ttft: Window,
    all_tpot: Window,
    itl: Window,
    e2e: Window,
    lag: Window,
    flow: Arc<Flow>,
    /// Indexed by the second modulo [`STEPS`]; allocated by the first request.
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    second: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    failures: u64,
    /// By type of turn, as the next.
    prompt_tokens: [u64; 2],
    cached_tokens: [u64; 2],
    /// What the end of answers added to the tokens that were counted on arrival; below zero
    /// where one token came in several events.
    more_tokens: i64,
    more_events: u64,
}

impl Rolling {
    /// Where tokens are counted as they arrive.
    pub fn flow(&self) -> Arc<Flow> {
        Arc::clone(&self.flow)
    }

    /// Clears everything; callers that count arrivals may continue.
    pub fn clear(&mut self) {
        self.flow.clear();
        *self = Self {
            flow: Arc::clone(&self.flow),
            ..Self::default()
        };
    }

    /// An answer's first token came.
    pub fn first_token(&mut self, arrival: &Arrival, turn_type: TurnType) {
        let now = since_origin(arrival.at);
        if let Some(ttft) = arrival.ttft {
            self.ttft(now, ttft, turn_type);
        }
        if let Some(usage) = &arrival.usage {
            self.prompt(now, usage, turn_type);
        }
    }

    /// There was a gap between tokens.
    pub fn gap(&mut self, at: Moment, gap: Gap) {
        let each = gap.per_token().as_secs_f64();
        self.itl
            .observe(since_origin(at), each, u64::from(gap.tokens));
    }

    /// A request ended. Counts what was not counted on arrival.
    pub fn observe(&mut self, exchange: &Exchange, turn_type: TurnType, lag: Duration) {
        let now = since_origin(exchange.ended);
        self.lag.observe(now, lag.as_secs_f64(), 1);
        let counts = self.counts(now.as_secs());
        counts.requests += 1;
        let Ok(answer) = &exchange.outcome else {
            counts.failures += 1;
            return;
        };
        let heard = &exchange.heard;
        counts.more_tokens += i64::from(answer.usage.completion_tokens) - i64::from(heard.tokens);
        counts.more_events += u64::from(answer.chunks.saturating_sub(heard.events));
        if !heard.prompt {
            self.prompt(now, &answer.usage, turn_type);
        }
        if let (None, Some(ttft)) = (heard.ttft, answer.ttft) {
            self.ttft(now, ttft, turn_type);
        }
        if let Some(tpot) = answer.tpot {
            self.tpot[turn_type as usize].observe(now, tpot.as_secs_f64(), 1);
            self.all_tpot.observe(now, tpot.as_secs_f64(), 1);
        }
        if heard.gaps == 0 {
            for gap in &answer.gaps {
                self.gap(exchange.ended, *gap);
            }
        }
        self.e2e.observe(now, answer.e2e.as_secs_f64(), 1);
    }

    fn ttft(&mut self, now: Duration, ttft: Duration, turn_type: TurnType) {
        self.ttft[turn_type as usize].observe(now, ttft.as_secs_f64(), 1);
        self.all_ttft.observe(now, ttft.as_secs_f64(), 1);
    }

    fn prompt(&mut self, now: Duration, usage: &Usage, turn_type: TurnType) {
        let details = usage.prompt_tokens_details.unwrap_or_default();
        let counts = self.counts(now.as_secs());
        counts.prompt_tokens[turn_type as usize] += u64::from(usage.prompt_tokens);
        counts.cached_tokens[turn_type as usize] += u64::from(details.cached_tokens);
    }

    /// A copy of what the window holds, to be ranked without holding whatever guards it.
    /// Load has been on since `since`.
    pub fn copy(&self, now: Moment, since: Moment) -> RollingCopy {
        let now_s = since_origin(now);
        let oldest = (now_s.as_secs() + 1).saturating_sub(STEPS as u64);
        let mut counts = Counts::default();
        for step in &self.steps {
            if (oldest..=now_s.as_secs()).contains(&step.second) {
                counts.add(&step.counts);
            }
        }
        let (tokens, events) = self.flow.sum(oldest, now_s.as_secs());
        RollingCopy {
            output_tokens: tokens.saturating_add_signed(counts.more_tokens),
            events: events + counts.more_events,
            seconds: (now - since).as_secs_f64().min(STEPS as f64),
            counts,
            ttft: [0, 1].map(|of_type| self.ttft[of_type].samples(now_s)),
            tpot: [0, 1].map(|of_type| self.tpot[of_type].samples(now_s)),
            all: [
                &self.all_ttft,
                &self.all_tpot,
                &self.itl,
                &self.e2e,
                &self.lag,
            ]
            .map(|window| window.samples(now_s)),
        }
    }

    fn counts(&mut self, second: u64) -> &mut Counts {
        self.steps.resize(STEPS, Step::default());
        let step = &mut self.steps[(second % STEPS as u64) as usize];
        if step.second != second {
            *step = Step {
                second,
                counts: Counts::default(),
            };
        }
        &mut step.counts
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failures += other.failures;
        for of_type in 0..2 {
            self.prompt_tokens[of_type] += other.prompt_tokens[of_type];
            self.cached_tokens[of_type] += other.cached_tokens[of_type];
        }
        self.more_tokens += other.more_tokens;
        self.more_events += other.more_events;
    }
}

/// A copy of the samples, from which percentiles are computed outside the lock.
#[derive(Debug)]
pub struct RollingCopy {
    seconds: f64,
    counts: Counts,
    output_tokens: u64,
    events: u64,
    ttft: [telemetry::Samples; 2],
    tpot: [telemetry::Samples; 2],
    /// TTFT, TPOT, ITL, E2E, lag.
    all: [telemetry::Samples; 5],
}

impl RollingCopy {
    pub fn rank(self) -> WindowFigures {
        let counts = self.counts;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let rate = |count: u64| match self.seconds > 0.0 {
            true => rounded(count as f64 / self.seconds),
            false => 0.0,
        };
        let percent = |part, whole| share(part, whole).map(|share| rounded(100.0 * share));
        let [ttft, tpot, itl, e2e, lag] = self.all.map(figures);
        let [initial_ttft, followup_ttft] = self.ttft.map(figures);
        let [initial_tpot, followup_tpot] = self.tpot.map(figures);
        WindowFigures {
            seconds: rounded(self.seconds),
            requests: counts.requests,
            failures: counts.failures,
            error_pct: percent(counts.failures, counts.requests),
            rps: rate(counts.requests - counts.failures),
            tops: rate(self.output_tokens),
            cached_pct: percent(
                counts.cached_tokens.iter().sum(),
                counts.prompt_tokens.iter().sum(),
            ),
            tokens_per_chunk: share(self.output_tokens, self.events).map(rounded),
            ttft_ms: ttft,
            tpot_ms: tpot,
            itl_ms: itl,
            e2e_ms: e2e,
            dispatch_lag_ms: lag,
            initial: TurnFigures {
                cached_pct: percent(counts.cached_tokens[0], counts.prompt_tokens[0]),
                ttft_ms: initial_ttft,
                tpot_ms: initial_tpot,
            },
            followup: TurnFigures {
                cached_pct: percent(counts.cached_tokens[1], counts.prompt_tokens[1]),
                ttft_ms: followup_ttft,
                tpot_ms: followup_tpot,
            },
        }
    }
}

fn figures(samples: telemetry::Samples) -> Figures {
    let count = samples.count();
    let [p50, p95, p99] = samples
        .quantiles(QUANTILES)
        .map(|seconds| seconds.is_finite().then(|| rounded(seconds * 1e3)));
    Figures {
        p50,
        p95,
        p99,
        samples: count,
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn since_origin(moment: Moment) -> Duration {
    moment - Moment::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, FailureKind};
    use crate::reading::{Answer, ArrivalTotals, Extras};

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn answered(ended: u64, ttft: u64) -> Exchange {
        let answer = Answer {
            text: String::new(),
            finish: None,
            ttft: Some(Duration::from_millis(ttft)),
            tpot: Some(Duration::from_millis(30)),
            e2e: Duration::from_millis(ttft + 120),
            gaps: vec![Gap {
                length: Duration::from_millis(120),
                tokens: 4,
            }],
            usage: Usage::new(100, 8, 25),
            chunks: 2,
            extras: Extras::default(),
        };
        Exchange {
            sent: at(0),
            ended: at(ended),
            heard: ArrivalTotals::default(),
            outcome: Ok(answer),
        }
    }

    fn failed(ended: u64) -> Exchange {
        Exchange {
            sent: at(0),
            ended: at(ended),
            heard: ArrivalTotals::default(),
            outcome: Err(Failure::new(FailureKind::Stalled, "")),
        }
    }

    #[test]
    fn a_failure_is_counted_and_has_no_latency() {
        let mut rolling = Rolling::default();
        for n in 1..=19 {
            let turn_type = TurnType::of(n as u32 - 1);
            rolling.observe(&answered(10, 100 * n), turn_type, Duration::ZERO);
        }
        rolling.observe(&failed(10), TurnType::Initial, Duration::from_millis(5));
        let figures = rolling.copy(at(20), at(0)).rank();
        assert_eq!((figures.requests, figures.failures), (20, 1));
        assert_eq!(figures.error_pct, Some(5.0));
        assert_eq!(figures.ttft_ms.samples, 19);
        assert_eq!(figures.ttft_ms.p50, Some(1000.0));
        assert_eq!(figures.ttft_ms.p99, Some(1900.0));
        assert_eq!(figures.initial.ttft_ms.samples, 1);
        assert_eq!(figures.followup.ttft_ms.p50, Some(1000.0));
        assert_eq!(
            (figures.itl_ms.samples, figures.itl_ms.p50),
            (76, Some(30.0))
        );
        assert_eq!((figures.rps, figures.tops), (0.95, 7.6));
        assert_eq!(figures.cached_pct, Some(25.0));
        assert_eq!(figures.initial.cached_pct, Some(25.0));
        assert_eq!(figures.tokens_per_chunk, Some(4.0));
        assert_eq!(figures.dispatch_lag_ms.p99, Some(5.0));
    }

    #[test]
    fn a_request_leaves_after_a_minute() {
        let mut rolling = Rolling::default();
        rolling.observe(&answered(10, 100), TurnType::Initial, Duration::ZERO);
        assert_eq!(rolling.copy(at(69), at(0)).rank().requests, 1);
        let empty = rolling.copy(at(70), at(0)).rank();
        assert_eq!((empty.requests, empty.error_pct), (0, None));
        assert_eq!(empty.ttft_ms, Figures::default());
        assert_eq!(empty.seconds, 60.0);
    }
}
