//! Spans as the messages that a collector takes.

use contract::{Clock, Moment};
use spans::{FinishedTrace, Span, SpanKind, Value};

use crate::message::{
    Any, AnyValue, ExportRequest, KeyValue, Kind, List, ResourceMessage, ResourceSpans, Scope,
    ScopeSpans, SpanMessage, Status, StatusCode,
};

/// The flags say whether a span's parent is another process's.
const KNOWS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// The process that spans come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// `service.name` among them.
    pub attributes: Vec<(String, String)>,
    /// Of this program.
    pub version: &'static str,
}

impl Resource {
    /// One message for all of them.
    pub fn encode(&self, traces: Vec<FinishedTrace>, clock: Clock) -> ExportRequest {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| pair(name, Any::Text(value.clone())));
        let spans = traces
            .into_iter()
            .flat_map(|trace| encode_trace(trace, clock));
        ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(ResourceMessage {
                    attributes: attributes.collect(),
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(Scope {
                        name: "homing".to_owned(),
                        version: self.version.to_owned(),
                    }),
                    spans: spans.collect(),
                }],
            }],
        }
    }
}

fn encode_trace(trace: FinishedTrace, clock: Clock) -> Vec<SpanMessage> {
    let FinishedTrace {
        context,
        remote_parent,
        spans,
        left_out,
    } = trace;
    let mut encoded: Vec<SpanMessage> = spans
        .into_iter()
        .map(|span| {
            let mut message = encode_span(span, clock);
            message.trace_id = context.trace.to_bytes().to_vec();
            message.trace_state = context.state().unwrap_or_default().to_owned();
            message.flags = u32::from(context.flags()) | KNOWS_REMOTE;
            message
        })
        .collect();
    if let Some(request) = encoded.first_mut() {
        if remote_parent {
            request.flags |= IS_REMOTE;
        }
        if left_out > 0 {
            let count = Any::Integer(left_out.into());
            request
                .attributes
                .push(pair("homing.spans.left_out", count));
        }
    }
    encoded
}

fn encode_span(span: Span, clock: Clock) -> SpanMessage {
    let attributes = span.attributes.into_iter();
    let mut attributes: Vec<KeyValue> = attributes
        .map(|(name, value)| pair(name, any(value)))
        .collect();
    let mut status = None;
    if let Some(failure) = span.failure {
        attributes.push(pair("error.type", Any::Text(failure.kind.to_owned())));
        status = failure.fault.then(|| Status {
            message: failure.message,
            code: StatusCode::Error.into(),
        });
    }
    let parent = span.parent.map(|parent| parent.to_bytes().to_vec());
    SpanMessage {
        trace_id: Vec::new(),
        span_id: span.id.to_bytes().to_vec(),
        trace_state: String::new(),
        parent_span_id: parent.unwrap_or_default(),
        name: span.name.into_owned(),
        kind: match span.kind {
            SpanKind::Server => Kind::Server,
            SpanKind::Client => Kind::Client,
            SpanKind::Internal => Kind::Internal,
        }
        .into(),
        start_time_unix_nano: unix_nanos(span.began, clock),
        end_time_unix_nano: unix_nanos(span.ended, clock),
        attributes,
        status,
        flags: 0,
    }
}

fn unix_nanos(moment: Moment, clock: Clock) -> u64 {
    u64::try_from(clock.unix(moment).as_nanos()).unwrap_or(u64::MAX)
}

fn pair(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

fn any(value: Value) -> Any {
    match value {
        Value::Flag(flag) => Any::Flag(flag),
        Value::Integer(number) => Any::Integer(number),
        Value::Number(number) => Any::Number(number),
        Value::Text(text) => Any::Text(text),
        Value::Texts(texts) => Any::List(List {
            values: texts
                .into_iter()
                .map(|text| AnyValue {
                    value: Some(Any::Text(text)),
                })
                .collect(),
        }),
    }
}
