//! What the frontend counts.
//!
//! The specification's `dynamo_frontend_*` families under the labels its dashboards use,
//! and `homing_frontend_*` for what they lack. One [`RequestRecord`] follows a request from
//! arrival to its end; dropping it before it was finished counts a client that went away,
//! so no request leaves without a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use contract::{Clock, ModelName, Moment, Started, WorkerCard};
use preprocess::CacheStats;
use spans::RequestTrace;
use telemetry::{Counter, Gauge, Histogram, Metric, Registry, Summary, catalog};

pub(crate) use crate::labels::{Endpoint, ErrorType};
use crate::traced;

/// The part of the way on which time was spent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    Prepare,
    Route,
    Dispatch,
}

/// When a request was moved to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migration {
    /// Before its first token.
    NewRequest,
    OngoingRequest,
}

#[derive(Debug)]
pub(crate) struct FrontendMetrics {
    registry: Registry,
    clock: Clock,
    model: ModelName,
    inflight: Gauge,
    queued: Gauge,
    disconnected: Gauge,
    ttft: Histogram,
    itl: Histogram,
    duration: Histogram,
    input_tokens: Histogram,
    output_length: Histogram,
    cached_tokens: Histogram,
    output_tokens: Counter,
    stages: [Histogram; 3],
    queue_wait: Histogram,
    ttft_window: Summary,
    tpot_window: Summary,
    retries: Counter,
    slow_readers: Counter,
    /// Migrations of new requests and of ongoing ones.
    migrations: [Counter; 2],
    tokenizer_cache: [MirroredTotal; 2],
}

/// A counter that follows a total kept elsewhere.
#[derive(Debug)]
struct MirroredTotal {
    counter: Counter,
    seen: AtomicU64,
}

impl MirroredTotal {
    fn new(counter: Counter) -> Self {
        Self {
            counter,
            seen: AtomicU64::new(0),
        }
    }

    fn follow(&self, total: u64) {
        let before = self.seen.fetch_max(total, Ordering::Relaxed);
        self.counter.add(total.saturating_sub(before));
    }
}

impl FrontendMetrics {
    pub(crate) fn new(registry: &Registry, clock: Clock, model: &ModelName) -> Arc<Self> {
        let labels = [model.as_str()];
        let histogram = |metric: &'static Metric| registry.histogram(metric, &labels);
        Arc::new(Self {
            registry: registry.clone(),
            clock,
            model: model.clone(),
            inflight: registry.gauge(&catalog::FRONTEND_INFLIGHT_REQUESTS, &labels),
            queued: registry.gauge(&catalog::FRONTEND_QUEUED_REQUESTS, &labels),
            disconnected: registry.gauge(&catalog::FRONTEND_DISCONNECTED_CLIENTS, &[]),
            ttft: histogram(&catalog::FRONTEND_TIME_TO_FIRST_TOKEN_SECONDS),
            itl: histogram(&catalog::FRONTEND_INTER_TOKEN_LATENCY_SECONDS),
            duration: histogram(&catalog::FRONTEND_REQUEST_DURATION_SECONDS),
            input_tokens: histogram(&catalog::FRONTEND_INPUT_SEQUENCE_TOKENS),
            output_length: histogram(&catalog::FRONTEND_OUTPUT_SEQUENCE_TOKENS),
            cached_tokens: histogram(&catalog::FRONTEND_CACHED_TOKENS),
            output_tokens: registry.counter(&catalog::FRONTEND_OUTPUT_TOKENS_TOTAL, &labels),
            stages: ["prepare", "route", "dispatch"]
                .map(|stage| registry.histogram(&catalog::FRONTEND_STAGE_SECONDS, &[stage])),
            queue_wait: histogram(&catalog::FRONTEND_QUEUE_WAIT_SECONDS),
            ttft_window: registry.summary(&catalog::FRONTEND_TTFT_WINDOW_SECONDS, &labels),
            tpot_window: registry.summary(&catalog::FRONTEND_TPOT_WINDOW_SECONDS, &labels),
            retries: registry.counter(&catalog::FRONTEND_RETRIES_TOTAL, &labels),
            slow_readers: registry.counter(&catalog::FRONTEND_SLOW_READERS_TOTAL, &labels),
            migrations: ["new_request", "ongoing_request"].map(|kind| {
                let labels = [model.as_str(), kind];
                registry.counter(&catalog::FRONTEND_MODEL_MIGRATION_TOTAL, &labels)
            }),
            tokenizer_cache: [
                &catalog::FRONTEND_TOKENIZER_CACHE_HITS_TOTAL,
                &catalog::FRONTEND_TOKENIZER_CACHE_MISSES_TOTAL,
            ]
            .map(|metric| MirroredTotal::new(registry.counter(metric, &labels))),
        })
    }

    pub(crate) fn stage(&self, stage: Stage, took: Duration) {
        self.stages[stage as usize].observe(took.as_secs_f64());
    }

    pub(crate) fn model(&self) -> &ModelName {
        &self.model
    }

    pub(crate) fn migrated(&self, migration: Migration) {
        let [new, ongoing] = &self.migrations;
        match migration {
            Migration::NewRequest => {
                self.retries.inc();
                new.inc();
            }
            Migration::OngoingRequest => ongoing.inc(),
        }
    }

    /// An answer was given up because its client did not read it.
    pub(crate) fn slow_reader(&self) {
        self.slow_readers.inc();
    }

    pub(crate) fn set_queued(&self, requests: u64) {
        self.queued.set(requests as f64);
    }

    pub(crate) fn set_tokenizer_cache(&self, stats: CacheStats) {
        let [hits, misses] = &self.tokenizer_cache;
        hits.follow(stats.hits);
        misses.follow(stats.misses);
    }

    /// The limits of the served model, as its workers announce them.
    pub(crate) fn describe_model(&self, card: &WorkerCard) {
        let labels = [self.model.as_str()];
        let set = |metric: &'static Metric, value: u32| {
            self.registry.gauge(metric, &labels).set(f64::from(value));
        };
        set(&catalog::FRONTEND_MODEL_TOTAL_KV_BLOCKS, card.total_blocks);
        set(&catalog::FRONTEND_MODEL_MAX_NUM_SEQS, card.slots);
        set(
            &catalog::FRONTEND_MODEL_MAX_NUM_BATCHED_TOKENS,
            card.max_step_tokens,
        );
        set(
            &catalog::FRONTEND_MODEL_CONTEXT_LENGTH,
            card.max_context_tokens,
        );
        set(
            &catalog::FRONTEND_MODEL_KV_CACHE_BLOCK_SIZE,
            card.blocks.size,
        );
    }

    fn count(&self, endpoint: Endpoint, streaming: bool, error: Option<ErrorType>) {
        let request_type = if streaming { "stream" } else { "unary" };
        let (status, error_type) = match error {
            None => ("success", ""),
            Some(error) => ("error", error.label()),
        };
        let labels = [
            self.model.as_str(),
            endpoint.label(),
            request_type,
            status,
            error_type,
        ];
        self.registry
            .counter(&catalog::FRONTEND_REQUESTS_TOTAL, &labels)
            .inc();
    }
}

/// A request came with the key of that name.
pub(crate) fn key_asked(registry: &Registry, name: &str, admitted: bool) {
    let outcome = if admitted { "admitted" } else { "limited" };
    registry
        .counter(&catalog::FRONTEND_KEY_REQUESTS_TOTAL, &[name, outcome])
        .inc();
}

/// Follows a request from its first byte until it is known what it asks, so that one that
/// goes away meanwhile is counted.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Those of the first model, until it is known which is asked for; none if none is served.
    pub(crate) metrics: Option<Arc<FrontendMetrics>>,
    endpoint: Endpoint,
    settled: bool,
}

impl Arrival {
    pub(crate) fn begin(metrics: Option<Arc<FrontendMetrics>>, endpoint: Endpoint) -> Self {
        Self {
            metrics,
            endpoint,
            settled: false,
        }
    }

    /// Somebody else follows the request from here.
    pub(crate) fn admitted(mut self) {
        self.settled = true;
    }

    pub(crate) fn refused(mut self, streaming: bool, error: ErrorType) {
        self.settled = true;
        self.count(streaming, error);
    }

    fn count(&self, streaming: bool, error: ErrorType) {
        let Some(metrics) = &self.metrics else { return };
        if error == ErrorType::Cancelled {
            metrics.disconnected.add(1.0);
        }
        metrics.count(self.endpoint, streaming, Some(error));
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if !self.settled {
            self.count(false, ErrorType::of_unfinished());
        }
    }
}

/// Follows one request, from its arrival to the end of its last answer. Shared by the task that
/// reads from the worker and the one that writes to the client.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    metrics: Arc<FrontendMetrics>,
    pub(crate) trace: RequestTrace,
    endpoint: Endpoint,
    streaming: bool,
    pub(crate) arrived: Moment,
    /// Whether any of its answers has begun.
    begun: AtomicBool,
    output_tokens: AtomicU64,
    ended: AtomicBool,
}

/// When one answer's tokens came from its worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenTimes {
    first: Option<Moment>,
    last: Moment,
    tokens: u64,
}

impl TokenTimes {
    /// Mean time per output token after the first.
    pub(crate) fn per_output_token(&self) -> Option<Duration> {
        let following = u32::try_from(self.tokens.checked_sub(1)?).ok()?;
        (self.last - self.first?).checked_div(following)
    }
}

impl RequestRecord {
    pub(crate) fn begin(
        metrics: &Arc<FrontendMetrics>,
        endpoint: Endpoint,
        streaming: bool,
        arrived: Moment,
        trace: RequestTrace,
    ) -> Arc<Self> {
        metrics.inflight.add(1.0);
        traced::asks(&trace, metrics.model.as_str(), streaming);
        Arc::new(Self {
            trace,
            metrics: Arc::clone(metrics),
            endpoint,
            streaming,
            arrived,
            begun: AtomicBool::new(false),
            output_tokens: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// Records what the engine reported when it began one of the request's answers.
    pub(crate) fn prompt(&self, prompt_tokens: u32, started: Option<&Started>) {
        self.metrics.input_tokens.observe(f64::from(prompt_tokens));
        let cached_tokens = started.map_or(0, |started| started.cached_tokens);
        self.metrics.cached_tokens.observe(f64::from(cached_tokens));
        if let Some(started) = started {
            self.metrics
                .queue_wait
                .observe(started.queue_wait.as_secs_f64());
        }
    }

    /// `count` more tokens of one answer have come, now.
    pub(crate) fn tokens(&self, times: &mut TokenTimes, count: u32) -> Moment {
        let now = self.metrics.clock.now();
        if count == 0 {
            return now;
        }
        if times.first.is_none() {
            times.first = Some(now);
            // Several prompts have one time to first token: the client's.
            if !self.begun.swap(true, Ordering::AcqRel) {
                let ttft = (now - self.arrived).as_secs_f64();
                self.metrics.ttft.observe(ttft);
                self.metrics.ttft_window.observe(now - Moment::ZERO, ttft);
            }
        } else {
            // A step that yields several tokens yields each of them in its share of the gap.
            let gap = (now - times.last).as_secs_f64() / f64::from(count);
            self.metrics.itl.observe_many(gap, u64::from(count));
        }
        times.last = now;
        times.tokens += u64::from(count);
        self.output_tokens
            .fetch_add(u64::from(count), Ordering::Relaxed);
        self.metrics.output_tokens.add(u64::from(count));
        now
    }

    /// An answer of so many tokens has come in one piece: when they came is not known.
    pub(crate) fn whole_answer(&self, tokens: u32) -> Moment {
        self.output_tokens
            .fetch_add(u64::from(tokens), Ordering::Relaxed);
        self.metrics.output_tokens.add(u64::from(tokens));
        self.metrics.clock.now()
    }

    /// One of the request's answers has all its tokens, or will get no more.
    pub(crate) fn answer_ended(&self, times: &TokenTimes) {
        if let Some(tpot) = times.per_output_token() {
            let now = self.metrics.clock.now() - Moment::ZERO;
            self.metrics.tpot_window.observe(now, tpot.as_secs_f64());
        }
    }

    pub(crate) fn finish(&self) {
        self.end(None);
    }

    pub(crate) fn fail(&self, error: ErrorType) {
        self.end(Some(error));
    }

    pub(crate) fn time_to_first_token(&self, times: &TokenTimes) -> Option<Duration> {
        times.first.map(|first| first - self.arrived)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.metrics.clock.now() - self.arrived
    }

    /// Counts how it ended. The first word on that is the last.
    fn end(&self, error: Option<ErrorType>) -> bool {
        if self.ended.swap(true, Ordering::AcqRel) {
            return false;
        }
        let metrics = &self.metrics;
        metrics.inflight.add(-1.0);
        metrics.duration.observe(self.elapsed().as_secs_f64());
        let output_tokens = self.output_tokens.load(Ordering::Relaxed);
        metrics.output_length.observe(output_tokens as f64);
        metrics.count(self.endpoint, self.streaming, error);
        self.trace
            .describe(|attributes| traced::output(attributes, output_tokens));
        self.trace.end(|| error.map(traced::failure));
        true
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let error = ErrorType::of_unfinished();
        if self.end(Some(error)) && error == ErrorType::Cancelled {
            self.metrics.disconnected.add(1.0);
        }
    }
}
