//! The task that sends spans: batches, attempts, pauses, and the last batch at the end.
//!
//! One batch is on its way at a time. While it waits for another attempt the queue fills up, and
//! what does not fit is dropped and counted where it comes from, so that a collector that is away
//! costs a bounded amount of memory.

use std::time::Duration;

use bytes::Bytes;
use contract::Clock;
use http::HeaderMap;
use http_body_util::{BodyExt as _, Limited};
use http_client::{HttpClient, HttpOptions, HttpVersion, reason};
use spans::{Finished, FinishedTrace};
use tasks::Backoff;
use telemetry::{Counter, Registry, catalog};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::encode::Resource;
use crate::protocol::{Collector, Outcome, Protocol};

/// A batch is sent when it has so many spans, or when its first has waited so long.
const BATCH_SPANS: usize = 512;
const BATCH_WAIT: Duration = Duration::from_secs(1);
/// An attempt that takes longer has failed.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Attempts for one batch, and the pauses between them: about 15 seconds altogether.
const MOST_ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time for what is left when the process ends.
const FLUSH_TIME: Duration = Duration::from_secs(5);
/// How long to wait then for a request that has just ended.
const LAST_REQUESTS: Duration = Duration::from_millis(100);
/// The longest answer that is read.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// What is counted.
#[derive(Clone, Debug)]
pub struct ExporterMetrics {
    exported: Counter,
    failed: Counter,
    rejected: Counter,
    retries: Counter,
}

impl ExporterMetrics {
    pub fn new(registry: &Registry) -> Self {
        let dropped = |reason| registry.counter(&catalog::TRACE_DROPPED_SPANS_TOTAL, &[reason]);
        Self {
            exported: registry.counter(&catalog::TRACE_EXPORTED_SPANS_TOTAL, &[]),
            failed: dropped("failed"),
            rejected: dropped("rejected"),
            retries: registry.counter(&catalog::TRACE_EXPORT_RETRIES_TOTAL, &[]),
        }
    }
}

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Exporter {
    collector: Collector,
    resource: Resource,
    client: HttpClient,
    clock: Clock,
    metrics: ExporterMetrics,
    /// The last attempt failed, and this has been said.
    failing: bool,
}

/// Spans that are sent together.
struct Batch {
    body: Bytes,
    spans: u64,
}

impl Exporter {
    pub fn new(
        collector: Collector,
        resource: Resource,
        clock: Clock,
        metrics: ExporterMetrics,
    ) -> Self {
        let client = HttpClient::network(HttpOptions {
            version: match collector.protocol() {
                Protocol::Grpc => HttpVersion::Http2,
                Protocol::Http => HttpVersion::Negotiated,
            },
            connect_timeout: CONNECT_TIMEOUT,
            ..HttpOptions::default()
        });
        Self {
            collector,
            resource,
            client,
            clock,
            metrics,
            failing: false,
        }
    }

    /// With connections of another kind.
    #[must_use]
    pub fn over(self, client: HttpClient) -> Self {
        Self { client, ..self }
    }

    /// Sends until `stop` fires, and then what is left, as far as there is time.
    pub async fn run(mut self, mut finished: Finished, stop: CancellationToken) {
        let too_late = async {
            stop.cancelled().await;
            tokio::time::sleep(FLUSH_TIME).await;
        };
        tokio::select! {
            () = self.send_all(&mut finished, &stop) => {}
            () = too_late => warn!("the collector did not take the last spans in time"),
        }
    }

    async fn send_all(&mut self, finished: &mut Finished, stop: &CancellationToken) {
        loop {
            let gathered = gather(finished, stop).await;
            if !gathered.is_empty() {
                let batch = self.batch(gathered);
                self.deliver(batch, stop).await;
            }
            if stop.is_cancelled() || finished.is_closed() && finished.is_empty() {
                break;
            }
        }
        self.flush(finished).await;
    }

    /// What is left, each batch once.
    async fn flush(&mut self, finished: &mut Finished) {
        loop {
            let mut left = Vec::new();
            let mut spans = 0;
            while spans < BATCH_SPANS
                && let Ok(Some(trace)) = tokio::time::timeout(LAST_REQUESTS, finished.recv()).await
            {
                spans += trace.spans.len();
                left.push(*trace);
            }
            if left.is_empty() {
                return;
            }
            let batch = self.batch(left);
            let outcome = self.attempt(&batch.body).await;
            self.settle(&batch, outcome);
        }
    }

    fn batch(&self, traces: Vec<FinishedTrace>) -> Batch {
        let spans: usize = traces.iter().map(|trace| trace.spans.len()).sum();
        let message = self.resource.encode(traces, self.clock);
        Batch {
            body: self.collector.body(&message),
            spans: spans as u64,
        }
    }

    /// Until it is accepted, or given up. Once more, and no longer, if the process is to end.
    async fn deliver(&mut self, batch: Batch, stop: &CancellationToken) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for attempt in 1.. {
            let ending = stop.is_cancelled();
            let outcome = self.attempt(&batch.body).await;
            let Outcome::Again { after, .. } = &outcome else {
                return self.settle(&batch, outcome);
            };
            let pause = after.unwrap_or_else(|| backoff.pause());
            if attempt == MOST_ATTEMPTS || ending {
                return self.settle(&batch, outcome);
            }
            self.metrics.retries.inc();
            self.report(&outcome);
            let _ = tokio::time::timeout(pause, stop.cancelled()).await;
        }
    }

    async fn attempt(&self, body: &Bytes) -> Outcome {
        let again = |why| Outcome::Again { why, after: None };
        let exchange = async {
            let request = self.collector.request(body.clone());
            let answer = match self.client.send(request).await {
                Ok(answer) => answer,
                Err(error) => return again(reason(&error)),
            };
            let (head, body) = answer.into_parts();
            let mut headers: HeaderMap = head.headers;
            let body = match Limited::new(body, MOST_ANSWER_BYTES).collect().await {
                Ok(body) => body,
                Err(error) => return again(error.to_string()),
            };
            if let Some(trailers) = body.trailers() {
                headers.extend(trailers.clone());
            }
            self.collector
                .outcome(head.status, &headers, &body.to_bytes())
        };
        let outcome = tokio::time::timeout(ATTEMPT_TIMEOUT, exchange).await;
        outcome.unwrap_or_else(|_| again(format!("no answer within {ATTEMPT_TIMEOUT:?}")))
    }

    /// Counts what became of a batch in the end.
    fn settle(&mut self, batch: &Batch, outcome: Outcome) {
        self.report(&outcome);
        match outcome {
            Outcome::Accepted { rejected, .. } => {
                let rejected = rejected.min(batch.spans);
                self.metrics.exported.add(batch.spans - rejected);
                self.metrics.rejected.add(rejected);
            }
            Outcome::Again { .. } => self.metrics.failed.add(batch.spans),
            Outcome::Refused(_) => self.metrics.rejected.add(batch.spans),
        }
    }

    /// Says when it begins to fail, and when that is over; a line for each batch would fill the log.
    fn report(&mut self, outcome: &Outcome) {
        let why = match outcome {
            Outcome::Accepted { message, .. } if message.is_empty() => {
                if std::mem::take(&mut self.failing) {
                    info!("the collector takes spans again");
                }
                return;
            }
            Outcome::Accepted { message, .. } => message,
            Outcome::Again { why, .. } | Outcome::Refused(why) => why,
        };
        if !std::mem::replace(&mut self.failing, true) {
            warn!(%why, "the collector does not take spans");
        }
    }
}

/// The next batch; empty if there is none and the process is to end.
async fn gather(finished: &mut Finished, stop: &CancellationToken) -> Vec<FinishedTrace> {
    let mut traces = Vec::new();
    let Some(Some(first)) = stop.run_until_cancelled(finished.recv()).await else {
        return traces;
    };
    let mut spans = first.spans.len();
    traces.push(*first);
    let until = Instant::now() + BATCH_WAIT;
    while spans < BATCH_SPANS {
        let next = tokio::time::timeout_at(until, finished.recv());
        let Some(Ok(Some(trace))) = stop.run_until_cancelled(next).await else {
            break;
        };
        spans += trace.spans.len();
        traces.push(*trace);
    }
    traces
}
