//! Sends the spans of requests to an OpenTelemetry collector, over OTLP: gRPC, or HTTP with protobuf.
//!
//! ```text
//! spans::Finished (bounded queue) ──► exporter: batch ──► message ──► protocol: request ──► collector
//!                                        ▲ again, after a pause ◄── protocol: outcome ◄──────┘
//! ```
//!
//! | module | what it does | |
//! |---|---|---|
//! | [`message`] | the messages of the protocol, as far as they are sent | pure |
//! | [`encode`] | spans to messages | pure |
//! | [`protocol`] | messages to requests, and what a response means | pure |
//! | [`exporter`] | batches, attempts, pauses, the last batch at the end | |
//!
//! A collector that is away, slow or refuses costs spans and nothing else: what waits is bounded,
//! what is dropped is counted, and no request knows.

pub mod encode;
pub mod exporter;
pub mod message;
pub mod protocol;

pub use encode::Resource;
pub use exporter::{Exporter, ExporterMetrics};
pub use protocol::{Collector, CollectorError, Protocol};

#[cfg(test)]
mod tests;
