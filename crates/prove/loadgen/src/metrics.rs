//! The load generator's cells of the metrics registry, taken once.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::Moment;
use openai::Usage;
use telemetry::{Counter, Gauge, Histogram, Registry, Summary, catalog};

use crate::client::Exchange;
use crate::failure::FailureKind;
use crate::reading::{Arrival, Gap};
use crate::record::TurnType;

/// Where the load generator reports to Prometheus.
#[derive(Debug)]
pub struct LoadMetrics {
    ttft_all: Summary,
    tpot_all: Summary,
    by_type: [TypeCells; 2],
    lag: Histogram,
    errors: BTreeMap<FailureKind, Counter>,
    prompt_tokens: Counter,
    cached_tokens: Counter,
    output_tokens: Counter,
    pub target_conversations: Gauge,
    pub active_conversations: Gauge,
    pub inflight_requests: Gauge,
    pub user_model_fallbacks: Counter,
    registry: Registry,
}

#[derive(Debug)]
struct TypeCells {
    ttft: Times,
    tpot: Times,
    itl: Times,
    e2e: Times,
    success: Counter,
    error: Counter,
}

/// One kind of time: recent percentiles, and the distribution of all.
#[derive(Debug)]
struct Times {
    summary: Summary,
    histogram: Histogram,
}

impl Times {
    fn observe(&self, now: Duration, value: Duration, count: u64) {
        let seconds = value.as_secs_f64();
        self.summary.observe_many(now, seconds, count);
        self.histogram.observe_many(seconds, count);
    }
}

impl TypeCells {
    fn new(registry: &Registry, turn_type: TurnType) -> Self {
        let labels = &[turn_type.name()];
        let both = |summary, histogram| Times {
            summary: registry.summary(summary, labels),
            histogram: registry.histogram(histogram, labels),
        };
        let requests = |status| {
            let labels = &[turn_type.name(), status];
            registry.counter(&catalog::LOADGEN_REQUESTS_TOTAL, labels)
        };
        Self {
            ttft: both(
                &catalog::LOADGEN_TTFT_SECONDS,
                &catalog::LOADGEN_TTFT_DISTRIBUTION_SECONDS,
            ),
            tpot: both(
                &catalog::LOADGEN_TPOT_SECONDS,
                &catalog::LOADGEN_TPOT_DISTRIBUTION_SECONDS,
            ),
            itl: both(
                &catalog::LOADGEN_ITL_SECONDS,
                &catalog::LOADGEN_ITL_DISTRIBUTION_SECONDS,
            ),
            e2e: both(
                &catalog::LOADGEN_E2E_SECONDS,
                &catalog::LOADGEN_E2E_DISTRIBUTION_SECONDS,
            ),
            success: requests("success"),
            error: requests("error"),
        }
    }
}

impl LoadMetrics {
    pub fn new(registry: &Registry) -> Self {
        let error = |kind: FailureKind| {
            let cell = registry.counter(&catalog::LOADGEN_ERRORS_TOTAL, &[kind.name()]);
            (kind, cell)
        };
        Self {
            ttft_all: registry.summary(&catalog::LOADGEN_TTFT_ALL_SECONDS, &[]),
            tpot_all: registry.summary(&catalog::LOADGEN_TPOT_ALL_SECONDS, &[]),
            by_type: TurnType::ALL.map(|turn_type| TypeCells::new(registry, turn_type)),
            lag: registry.histogram(&catalog::LOADGEN_DISPATCH_LAG_SECONDS, &[]),
            errors: FailureKind::ALL.into_iter().map(error).collect(),
            prompt_tokens: registry.counter(&catalog::LOADGEN_PROMPT_TOKENS_TOTAL, &[]),
            cached_tokens: registry.counter(&catalog::LOADGEN_CACHED_TOKENS_TOTAL, &[]),
            output_tokens: registry.counter(&catalog::LOADGEN_OUTPUT_TOKENS_TOTAL, &[]),
            target_conversations: registry.gauge(&catalog::LOADGEN_TARGET_CONVERSATIONS, &[]),
            active_conversations: registry.gauge(&catalog::LOADGEN_ACTIVE_CONVERSATIONS, &[]),
            inflight_requests: registry.gauge(&catalog::LOADGEN_INFLIGHT_REQUESTS, &[]),
            user_model_fallbacks: registry
                .counter(&catalog::LOADGEN_USER_MODEL_FALLBACKS_TOTAL, &[]),
            registry: registry.clone(),
        }
    }

    /// An answer's first token came.
    pub fn first_token(&self, arrival: &Arrival, turn_type: TurnType) {
        if let Some(ttft) = arrival.ttft {
            self.ttft(arrival.at - Moment::ZERO, ttft, turn_type);
        }
        if let Some(usage) = &arrival.usage {
            self.prompt(usage);
        }
    }

    /// More of an answer came.
    pub fn arrived(&self, gaps: &[(Moment, Gap)], tokens: u64, turn_type: TurnType) {
        let cells = &self.by_type[turn_type as usize].itl;
        for (at, gap) in gaps {
            let each = gap.per_token();
            cells.observe(*at - Moment::ZERO, each, u64::from(gap.tokens));
        }
        self.output_tokens.add(tokens);
    }

    /// A request ended. Counts what was not counted on arrival.
    pub fn observe(&self, exchange: &Exchange, turn_type: TurnType, lag: Duration) {
        let now = exchange.ended - Moment::ZERO;
        let cells = &self.by_type[turn_type as usize];
        self.lag.observe(lag.as_secs_f64());
        let answer = match &exchange.outcome {
            Ok(answer) => answer,
            Err(failure) => {
                cells.error.inc();
                self.errors[&failure.kind].inc();
                return;
            }
        };
        cells.success.inc();
        let heard = &exchange.heard;
        if let (None, Some(ttft)) = (heard.ttft, answer.ttft) {
            self.ttft(now, ttft, turn_type);
        }
        if let Some(tpot) = answer.tpot {
            self.tpot_all.observe(now, tpot.as_secs_f64());
            cells.tpot.observe(now, tpot, 1);
        }
        if heard.gaps == 0 {
            for gap in &answer.gaps {
                let tokens = u64::from(gap.tokens);
                cells.itl.observe(now, gap.per_token(), tokens);
            }
        }
        cells.e2e.observe(now, answer.e2e, 1);
        if !heard.prompt {
            self.prompt(&answer.usage);
        }
        let more = answer.usage.completion_tokens.saturating_sub(heard.tokens);
        self.output_tokens.add(u64::from(more));
    }

    fn ttft(&self, now: Duration, ttft: Duration, turn_type: TurnType) {
        self.ttft_all.observe(now, ttft.as_secs_f64());
        self.by_type[turn_type as usize].ttft.observe(now, ttft, 1);
    }

    fn prompt(&self, usage: &Usage) {
        let details = usage.prompt_tokens_details.unwrap_or_default();
        self.prompt_tokens.add(u64::from(usage.prompt_tokens));
        self.cached_tokens.add(u64::from(details.cached_tokens));
    }

    /// Counts a conversation that ended.
    pub fn conversation(&self, status: &str) {
        let metric = &catalog::LOADGEN_CONVERSATIONS_TOTAL;
        self.registry.counter(metric, &[status]).inc();
    }
}
