//! What a process reports about the spans that it sends to a collector.

use super::{Metric, Stage, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Traces",
    about: "Spans of requests on their way to an OpenTelemetry collector (`--otlp-endpoint`).",
    metrics: ALL,
};

metrics! {
    TRACE_EXPORTED_SPANS_TOTAL = Metric::counter(
        "homing_trace_exported_spans_total",
        &[],
        "Spans that the collector accepted.",
    );
    TRACE_DROPPED_SPANS_TOTAL = Metric::counter(
        "homing_trace_dropped_spans_total",
        &["reason"],
        "Spans that were dropped: `queue_full` (the collector is too slow or away), `failed` (not accepted after all attempts) or `rejected` (the collector refused them).",
    );
    TRACE_EXPORT_RETRIES_TOTAL = Metric::counter(
        "homing_trace_export_retries_total",
        &[],
        "Attempts to send spans that failed and were repeated.",
    );
}
