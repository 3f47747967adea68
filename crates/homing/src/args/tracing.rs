//! Options of traces.

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

/// Spans of requests, for a collector.
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
}
