//! The spans of a request: which requests have some, and how they are collected.
//!
//! Not every request is recorded, and one that is not costs a look at a header and a draw: it
//! carries the context that it came with, and every call here does nothing. A request that is
//! recorded collects its stages in memory of its own; when the last who works on it lets go, all of
//! them go into a bounded queue in one piece. Whoever reads that queue sends them to a collector
//! (the crate `otlp`); if it does not, spans are dropped and counted, and no request waits.
//!
//! ```text
//! Tracer::begin ──► RequestTrace (cloned along the request's way)
//!                      └─ stage("route") ─► Stage: ends when dropped ─► Recording
//!                                               last clone dropped ──► FinishedTrace ─► queue
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`attribute`] | what spans say besides names and times |
//! | [`sampling`] | which traces are recorded; ids |
//! | [`span`] | what has been recorded of a request |
//! | `queue` | traces that have ended, until somebody takes them |
//! | [`recording`] | the spans of one request while it runs |
//! | [`tracer`] | begins traces |

pub mod attribute;
mod queue;
pub mod recording;
pub mod sampling;
pub mod span;
pub mod tracer;

pub use attribute::{Attributes, Value};
pub use queue::Finished;
pub use recording::{RequestTrace, Stage};
pub use sampling::{RatioError, SampleRatio};
pub use span::{Failure, FinishedTrace, Span, SpanKind};
pub use tracer::Tracer;

#[cfg(test)]
mod tests;
