//! All that a snapshot is made of, behind one short lock.

use std::sync::Arc;
use std::time::Duration;

use contract::Moment;
use tokio::sync::Notify;

use super::{LiveConfig, LiveParts};
use crate::by_mode::ByMode;
use crate::client::Exchange;
use crate::failure::Failure;
use crate::log::ConversationStatus;
use crate::metrics::LoadMetrics;
use crate::reading::{Arrival, Gap};
use crate::record::{TurnType, seconds};
use crate::rolling::{Flow, Rolling, RollingCopy};
use crate::settings::{Settings, StarterMode};
use crate::snapshot::{
    ConversationCounts, LastFailure, Phase, Snapshot, TargetSummary, TotalCounts, WorkloadSummary,
};
use crate::totals::Totals;

#[derive(Debug)]
pub(super) struct Measurements {
    pub(super) phase: Phase,
    pub(super) settings: Settings,
    pub(super) conversations: ConversationCounts,
    /// When the oldest running request became due.
    pub(super) oldest_in_flight: Option<Moment>,
    pub(super) totals: Totals,
    /// Fires when the phase changes, so that a change is reported immediately.
    pub(super) changed: Arc<Notify>,
    pub(super) metrics: LoadMetrics,
    target: TargetSummary,
    workload: WorkloadSummary,
    rolling: Rolling,
    by_mode: ByMode,
    counts: TotalCounts,
    warmup: Duration,
    /// When load was last started.
    started: Option<Moment>,
    /// When load was last started, or its settings were changed after that.
    changed_at: Option<Moment>,
    last_failure: Option<(Moment, Failure)>,
}

/// What a snapshot is made of, with the last minute unranked.
#[derive(Debug)]
pub(super) struct Copy {
    rolling: RollingCopy,
    snapshot: Snapshot,
}

impl Copy {
    pub(super) fn rank(self) -> Snapshot {
        Snapshot {
            window: self.rolling.rank(),
            ..self.snapshot
        }
    }
}

impl Measurements {
    pub(super) fn new(config: &LiveConfig, parts: &LiveParts) -> Self {
        let target = parts.client.target();
        let user_model = parts.user_model.as_ref();
        Self {
            phase: Phase::Stopped,
            settings: config.settings.clone(),
            conversations: ConversationCounts::default(),
            oldest_in_flight: None,
            totals: Totals::default(),
            changed: Arc::new(Notify::new()),
            metrics: LoadMetrics::new(&parts.registry),
            target: TargetSummary {
                url: target.base().to_string(),
                model: target.model.clone(),
                user_model: user_model.map(|model| model.url()),
            },
            workload: WorkloadSummary {
                seed: config.seed,
                starters: parts.starters.len() as u32,
                unique: config.settings.starters == StarterMode::Unique,
            },
            rolling: Rolling::default(),
            by_mode: ByMode::default(),
            counts: TotalCounts::default(),
            warmup: config.warmup,
            started: None,
            changed_at: None,
            last_failure: None,
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.changed.notify_one();
    }

    /// Load starts, and all figures with it.
    pub(super) fn start(&mut self, now: Moment) {
        self.started = Some(now);
        self.changed_at = Some(now);
        self.rolling.clear();
        self.last_failure = None;
        self.totals = Totals::default();
        self.by_mode = ByMode::default();
        self.counts = TotalCounts::default();
        self.set_phase(Phase::Running);
    }

    /// Load is another from now on: what is told by mode and turn is told of one load.
    pub(super) fn change(&mut self, settings: Settings, now: Moment) {
        self.settings = settings;
        self.by_mode = ByMode::default();
        if self.started.is_some() {
            self.changed_at = Some(now);
        }
    }

    /// Where tokens are counted as they arrive.
    pub(super) fn flow(&self) -> Arc<Flow> {
        self.rolling.flow()
    }

    /// An answer's first token came.
    pub(super) fn first_token(&mut self, arrival: &Arrival, turn_type: TurnType) {
        self.rolling.first_token(arrival, turn_type);
        self.metrics.first_token(arrival, turn_type);
    }

    /// More of an answer came. Its tokens are in the flow already.
    pub(super) fn arrived(&mut self, gaps: &[(Moment, Gap)], tokens: u64, turn_type: TurnType) {
        for (at, gap) in gaps {
            self.rolling.gap(*at, *gap);
        }
        self.metrics.arrived(gaps, tokens, turn_type);
    }

    /// Records a request that ended.
    pub(super) fn observe(&mut self, exchange: &Exchange, turn: u32, lag: Duration) {
        let turn_type = TurnType::of(turn);
        self.rolling.observe(exchange, turn_type, lag);
        self.metrics.observe(exchange, turn_type, lag);
        let counts = &mut self.counts;
        counts.requests += 1;
        match &exchange.outcome {
            Ok(answer) => {
                self.by_mode.observe(answer, turn);
                let details = answer.usage.prompt_tokens_details.unwrap_or_default();
                counts.prompt_tokens += u64::from(answer.usage.prompt_tokens);
                counts.cached_tokens += u64::from(details.cached_tokens);
                counts.output_tokens += u64::from(answer.usage.completion_tokens);
            }
            Err(failure) => {
                counts.failures += 1;
                *counts.failures_by_kind.entry(failure.kind).or_default() += 1;
                self.last_failure = Some((exchange.ended, failure.clone()));
            }
        }
        let warm = self.started.map(|started| started + self.warmup);
        if warm.is_some_and(|warm| exchange.sent >= warm) {
            self.totals.observe(exchange, turn_type, lag);
        }
    }

    pub(super) fn user_model_failed(&mut self) {
        self.counts.user_model_fallbacks += 1;
        self.metrics.user_model_fallbacks.inc();
    }

    /// Records a conversation that ended.
    pub(super) fn conversation_ended(&mut self, status: ConversationStatus) {
        let counts = &mut self.conversations;
        match status {
            ConversationStatus::Active => return,
            ConversationStatus::Completed => counts.completed += 1,
            ConversationStatus::Stopped => counts.stopped += 1,
            ConversationStatus::Error => counts.failed += 1,
        }
        self.metrics.conversation(status.name());
    }

    /// Sets the gauges to the current counts.
    pub(super) fn refresh_gauges(&self) {
        let counts = &self.conversations;
        let metrics = &self.metrics;
        metrics.active_conversations.set(f64::from(counts.active));
        metrics.inflight_requests.set(f64::from(counts.in_flight));
        let target = match (self.phase, self.settings.arrivals_per_second) {
            (Phase::Running | Phase::Paused, None) => self.settings.concurrency,
            _ => 0,
        };
        metrics.target_conversations.set(f64::from(target));
    }

    pub(super) fn copy(&self, now: Moment) -> Copy {
        let since = self.started.unwrap_or(now);
        Copy {
            rolling: self.rolling.copy(now, since),
            snapshot: Snapshot {
                phase: self.phase,
                at_s: seconds(now),
                running_s: seconds(Moment::ZERO + (now - since)),
                unchanged_s: seconds(Moment::ZERO + (now - self.changed_at.unwrap_or(now))),
                target: self.target.clone(),
                workload: WorkloadSummary {
                    unique: self.settings.starters == StarterMode::Unique,
                    ..self.workload
                },
                settings: self.settings.clone(),
                conversations: self.conversations,
                window: Default::default(),
                by_mode: self.by_mode.figures(),
                totals: self.counts.clone(),
                last_failure: self.last_failure.clone().map(|(at, failure)| LastFailure {
                    failure,
                    ago_s: seconds(Moment::ZERO + (now - at)),
                }),
            },
        }
    }
}
