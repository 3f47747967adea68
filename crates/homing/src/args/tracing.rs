//! Options of what is recorded of requests: spans, and a request trace.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spans::SampleRatio;

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OtlpProtocolChoice {
    #[value(name = "grpc")]
    Grpc,
    #[value(name = "http/protobuf")]
    HttpProtobuf,
}

/// Spans of requests, for a collector; and lines about requests, for a replay.
#[derive(Clone, Debug, Args)]
pub(crate) struct TracingArgs {
    /// Send spans of requests to this OpenTelemetry collector, http://HOST:4317 for example
    ///
    /// Off by default. With --otlp-protocol http/protobuf the usual port is 4318, and /v1/traces is
    /// appended. A collector that is away costs spans, never requests. docs/tracing.md
    #[arg(long, value_name = "URL", help_heading = "Tracing")]
    pub(crate) otlp_endpoint: Option<String>,
    /// How the collector is spoken to: grpc, http/protobuf
    #[arg(long, value_enum, default_value_t = OtlpProtocolChoice::Grpc, value_name = "PROTOCOL", hide_possible_values = true, help_heading = "Tracing")]
    pub(crate) otlp_protocol: OtlpProtocolChoice,
    /// Headers sent to the collector, NAME=VALUE, separated by commas; values as in URLs (%20)
    ///
    /// For keys, use the environment: a command line can be read by every user of the machine.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HEADERS",
        help_heading = "Tracing"
    )]
    pub(crate) otlp_headers: Vec<String>,
    /// Share of the requests whose spans are recorded, from 0 to 1
    ///
    /// Decided by the trace id. A client that sends `traceparent` has decided itself: its spans are
    /// recorded if it says that its trace is, and are not if it says that it is not.
    #[arg(
        long,
        default_value = "0.1",
        value_name = "RATIO",
        help_heading = "Tracing"
    )]
    pub(crate) trace_sample: SampleRatio,
    /// The name of this service in traces
    #[arg(
        long,
        default_value = "homing",
        value_name = "NAME",
        help_heading = "Tracing"
    )]
    pub(crate) trace_service_name: String,
    /// What else traces say of this process, NAME=VALUE, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ATTRIBUTES",
        help_heading = "Tracing"
    )]
    pub(crate) trace_resource: Vec<String>,
    /// Append a line for each answered request to this file, in the format of Dynamo's request traces
    ///
    /// Times, lengths and hashes of blocks: what `homing replay --format dynamo` and Dynamo's own replay
    /// need to send the same load again, without a word of what was said. docs/tracing.md
    #[arg(long, value_name = "FILE", help_heading = "Tracing")]
    pub(crate) request_trace: Option<PathBuf>,
    /// MiB to which the request trace may grow; what comes after is dropped and counted
    #[arg(long, default_value_t = 1024, value_name = "MIB", help_heading = "Tracing", value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    pub(crate) request_trace_limit: u64,
}
