//! What has been recorded of a request.

use std::borrow::Cow;

use contract::{Moment, SpanId, TraceContext};

use crate::attribute::Attributes;

/// From whose point of view a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that we answer.
    Server,
    /// One that we send.
    Client,
    Internal,
}

/// Why something did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One of a few names: `error.type`.
    pub kind: &'static str,
    /// For people. Nothing that a user wrote.
    pub message: String,
    /// Whether it lies with the server, so that the span counts as failed.
    pub fault: bool,
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub began: Moment,
    pub ended: Moment,
    pub attributes: Attributes,
    pub failure: Option<Failure>,
}

/// All spans of a request, the request's own first.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedTrace {
    /// The request's own span, in its trace.
    pub context: TraceContext,
    /// Whether the first span's parent is another process's.
    pub remote_parent: bool,
    pub spans: Vec<Span>,
    /// Spans beyond those that are kept.
    pub left_out: u32,
}
