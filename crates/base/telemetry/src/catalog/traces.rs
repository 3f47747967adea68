//! What a process reports about what it records of requests: spans for a collector, and lines of a
//! request trace.

use super::{Metric, Stage, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Traces",
    about: "Spans of requests on their way to an OpenTelemetry collector (`--otlp-endpoint`), and lines of the request trace (`--request-trace`).",
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
    REQUEST_TRACE_LINES_TOTAL = Metric::counter(
        "homing_request_trace_lines_total",
        &[],
        "Requests that were written to the request trace.",
    );
    REQUEST_TRACE_DROPPED_LINES_TOTAL = Metric::counter(
        "homing_request_trace_dropped_lines_total",
        &["reason"],
        "Requests that are missing in the request trace: `queue_full` (the disk is too slow), `file_full` (the file has reached its limit) or `failed` (it could not be written).",
    );
}
