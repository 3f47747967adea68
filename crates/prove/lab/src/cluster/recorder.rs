//! What a run saw: a record of every request, and every gap between tokens.
//!
//! Writes what a load generator before a real server writes, so that one way of computing
//! figures serves both. What has not ended when the run is over is written down as failed.

use contract::{Moment, Started};
use loadgen::record::{milliseconds, seconds};
use loadgen::{Failure, FailureKind, Histogram, RequestRecord, TurnType};
use openai::Routing;
use router::Claim;

use crate::ask::Label;
use crate::window::Window;

/// What one request needs to be measured by.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimer {
    label: Label,
    sent: Moment,
    prompt_tokens: u32,
    /// When the first token came, and how many with it.
    first: Option<(Moment, u32)>,
    started: Option<Started>,
    last: Moment,
    tokens: u32,
    chunks: u32,
    longest_gap_nanos: u64,
    counted: bool,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    window: Window,
    mode: &'static str,
    /// Requests sent in the window that have not ended.
    open: u64,
    pub(crate) records: Vec<RequestRecord>,
    /// Gaps of the requests that were sent in the window.
    pub(crate) itl: Histogram,
}

impl Recorder {
    pub(super) fn new(window: Window, mode: &'static str) -> Self {
        Self {
            window,
            mode,
            open: 0,
            records: Vec::new(),
            itl: Histogram::default(),
        }
    }

    pub(super) fn send(&mut self, label: Label, prompt_tokens: usize, now: Moment) -> RequestTimer {
        let counted = label.measured && self.window.contains(now);
        self.open += u64::from(counted);
        RequestTimer {
            label,
            sent: now,
            prompt_tokens: prompt_tokens as u32,
            first: None,
            started: None,
            last: now,
            tokens: 0,
            chunks: 0,
            longest_gap_nanos: 0,
            counted,
        }
    }

    /// Tokens arrive.
    pub(super) fn chunk(&mut self, watch: &mut RequestTimer, tokens: u32, now: Moment) {
        if tokens == 0 {
            return;
        }
        if watch.first.is_none() {
            watch.first = Some((now, tokens));
        } else {
            let gap = now.as_nanos().saturating_sub(watch.last.as_nanos());
            watch.longest_gap_nanos = watch.longest_gap_nanos.max(gap);
            if watch.counted {
                self.itl
                    .record_nanos(gap / u64::from(tokens), u64::from(tokens));
            }
        }
        watch.last = now;
        watch.tokens += tokens;
        watch.chunks += 1;
    }

    /// An answer is complete.
    pub(super) fn finish(&mut self, watch: &RequestTimer, claim: &Claim, now: Moment) {
        self.open -= u64::from(watch.counted);
        if !watch.label.measured {
            return;
        }
        let cached_tokens = watch.started.map_or(0, |started| started.cached_tokens);
        let tpot = watch.first.and_then(|(first, tokens)| {
            let later = watch
                .tokens
                .checked_sub(tokens)
                .filter(|&later| later > 0)?;
            Some((watch.last - first) / later)
        });
        let gap = std::time::Duration::from_nanos(watch.longest_gap_nanos);
        self.records.push(RequestRecord {
            tpot_ms: tpot.map(milliseconds),
            longest_gap_ms: (watch.chunks > 1).then(|| milliseconds(gap)),
            e2e_ms: Some(milliseconds(now - watch.sent)),
            prompt_tokens: Some(watch.prompt_tokens),
            cached_tokens: Some(cached_tokens),
            output_tokens: Some(watch.tokens),
            chunks: Some(watch.chunks),
            worker: Some(claim.worker.to_string()),
            server_timing: watch.started.map(|started| {
                serde_json::json!({
                    "prefill_wait_time_ms": milliseconds(started.wait()),
                    "prefill_time_ms": milliseconds(started.prefill),
                })
            }),
            routing: Some(Routing {
                mode: self.mode.to_owned(),
                reason: String::new(),
                blocks: 0,
                queued_ms: milliseconds(claim.waited),
                predicted_ttft_ms: milliseconds(claim.predicted_first_token),
                candidates: Vec::new(),
            }),
            ..self.record(watch, now)
        });
    }

    /// A request ends without its answer.
    pub(super) fn fail(&mut self, watch: &RequestTimer, failure: Failure, now: Moment) {
        self.open -= u64::from(watch.counted);
        if !watch.label.measured {
            return;
        }
        self.records.push(RequestRecord {
            error: Some(failure),
            ..self.record(watch, now)
        });
    }

    /// The run is over: what has not finished counts as failed, unless it was sent too late to
    /// be of interest.
    pub(super) fn give_up(&mut self, watch: &RequestTimer, now: Moment) {
        if watch.sent < self.window.end {
            let failure = Failure::new(FailureKind::Timeout, "not finished when the run ended");
            self.fail(watch, failure, now);
        }
    }

    /// Whether nothing more can change the figures.
    pub(super) fn is_settled(&self, now: Moment) -> bool {
        now >= self.window.end && self.open == 0
    }

    /// What is known of every request, answered or not.
    fn record(&self, watch: &RequestTimer, now: Moment) -> RequestRecord {
        let Label {
            conversation,
            turn,
            turns,
            attempt,
            measured: _,
        } = watch.label;
        let sent_s = seconds(watch.sent);
        RequestRecord {
            conversation_id: conversation.to_string(),
            conversation,
            turn,
            turns,
            turn_type: TurnType::of(turn),
            attempt,
            due_s: sent_s,
            sent_s,
            ended_s: seconds(now),
            dispatch_lag_ms: 0.0,
            ttft_ms: watch
                .first
                .map(|(first, _)| milliseconds(first - watch.sent)),
            tpot_ms: None,
            itl_p50_ms: None,
            longest_gap_ms: None,
            e2e_ms: None,
            prompt_tokens: None,
            cached_tokens: None,
            output_tokens: None,
            chunks: None,
            finish_reason: None,
            worker: None,
            server_timing: None,
            routing: None,
            error: None,
        }
    }
}

impl RequestTimer {
    /// The prompt has been computed, as far as it was not cached.
    pub(super) fn start(&mut self, started: Started) {
        self.started = Some(started);
    }
}
