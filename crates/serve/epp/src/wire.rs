//! The messages: what is read of Envoy's, and what is written.

use std::net::SocketAddr;

use bytes::Bytes;
use contract::TraceContext;
use contract::trace::TRACEPARENT;
use frontend::{Call, Offered, Refused};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use prost_types::value::Kind;
use prost_types::{Struct, Value};

#[allow(
    dead_code,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated"
)]
mod generated {
    tonic::include_proto!("envoy.service.ext_proc.v3");
}

#[allow(
    dead_code,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated"
)]
pub(crate) mod health {
    tonic::include_proto!("grpc.health.v1");
}

pub use self::generated::*;

use self::processing_response::Response;

/// The header and the metadata by which Envoy is told where a request is to go.
const DESTINATION: &str = "x-gateway-destination-endpoint";
/// The same for who has served it.
const SERVED: &str = "x-gateway-destination-endpoint-served";
/// The metadata of load balancing.
const BALANCING: &str = "envoy.lb";
/// Where the endpoints are that may be picked, if not all of them.
const SUBSET_HINT: &str = "envoy.lb.subset_hint";
const SUBSET: &str = "x-gateway-destination-endpoint-subset";
/// Why a request was not served; a name that people's dashboards have.
const DROPPED: &str = "x-llm-d-request-dropped-reason";

/// The largest part of a body that is sent at once: Envoy takes 64 KiB with the message around it.
pub const MOST_CHUNK: usize = 62_000;

/// The side of an exchange that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Request,
    Answer,
}

/// Headers, without those that begin with a colon.
#[derive(Debug, Default)]
struct Head {
    method: Option<Method>,
    path: String,
    status: Option<StatusCode>,
    headers: HeaderMap,
}

impl Head {
    /// What is no header in HTTP is left out.
    fn read(headers: HttpHeaders) -> Self {
        let mut head = Self::default();
        for Field {
            key,
            value,
            raw_value,
        } in headers.headers.unwrap_or_default().headers
        {
            let value = match raw_value.is_empty() {
                true => Bytes::from(value),
                false => raw_value,
            };
            match key.as_str() {
                ":method" => head.method = Method::from_bytes(&value).ok(),
                ":path" => head.path = String::from_utf8_lossy(&value).into_owned(),
                ":status" => head.status = StatusCode::from_bytes(&value).ok(),
                key => {
                    let name = HeaderName::from_bytes(key.as_bytes());
                    let value = HeaderValue::from_maybe_shared(value);
                    if let (Ok(name), Ok(value)) = (name, value) {
                        head.headers.append(name, value);
                    }
                }
            }
        }
        head
    }
}

/// The head of a request.
pub fn call(headers: HttpHeaders, metadata: Option<&Metadata>) -> Call {
    let head = Head::read(headers);
    Call {
        method: head.method.unwrap_or(Method::POST),
        path: head.path,
        headers: head.headers,
        subset: texts(metadata, SUBSET_HINT, SUBSET).map(|texts| {
            texts
                .iter()
                .filter_map(|text| Offered::parse(text))
                .collect()
        }),
    }
}

/// An answer's status.
pub fn status(headers: HttpHeaders) -> StatusCode {
    Head::read(headers).status.unwrap_or(StatusCode::OK)
}

/// Who has served a request, where Envoy says it.
pub fn served(metadata: Option<&Metadata>) -> Option<SocketAddr> {
    let texts = texts(metadata, BALANCING, SERVED)?;
    texts.first()?.parse().ok()
}

/// A metadata value: a list, or a text with commas.
fn texts(metadata: Option<&Metadata>, namespace: &str, name: &str) -> Option<Vec<String>> {
    let value = metadata?.filter_metadata.get(namespace)?.fields.get(name)?;
    let split = |text: &str| {
        let parts = text.split(',').map(|part| part.trim().to_owned());
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>()
    };
    Some(match value.kind.as_ref()? {
        Kind::StringValue(text) => split(text),
        Kind::ListValue(list) => {
            let texts = list.values.iter().filter_map(|value| match &value.kind {
                Some(Kind::StringValue(text)) => Some(split(text)),
                Some(
                    Kind::NullValue(_)
                    | Kind::NumberValue(_)
                    | Kind::BoolValue(_)
                    | Kind::StructValue(_)
                    | Kind::ListValue(_),
                )
                | None => None,
            });
            texts.flatten().collect()
        }
        Kind::NullValue(_) | Kind::NumberValue(_) | Kind::BoolValue(_) | Kind::StructValue(_) => {
            Vec::new()
        }
    })
}

/// The answer to a request's headers: where it is to go, best first, and under which span of ours.
/// Without one, the trace context of the request stays as it is. `tracestate` stays in any case.
pub fn destination(endpoints: &[SocketAddr], asks: Option<&TraceContext>) -> ProcessingResponse {
    let endpoints: Vec<String> = endpoints.iter().map(SocketAddr::to_string).collect();
    let endpoints = endpoints.join(",");
    let text = |text: String| Value {
        kind: Some(Kind::StringValue(text)),
    };
    let named = |name: &str, value: Value| Struct {
        fields: std::iter::once((name.to_owned(), value)).collect(),
    };
    let inner = named(DESTINATION, text(endpoints.clone()));
    let metadata = named(
        BALANCING,
        Value {
            kind: Some(Kind::StructValue(inner)),
        },
    );
    let mut changed = vec![(DESTINATION, endpoints)];
    changed.extend(asks.map(|asks| (TRACEPARENT, asks.parent())));
    let headers = HeadersResponse {
        response: Some(CommonResponse {
            header_mutation: Some(set(changed)),
            body_mutation: None,
            // The route may depend on the header.
            clear_route_cache: true,
        }),
    };
    ProcessingResponse {
        response: Some(Response::RequestHeaders(headers)),
        dynamic_metadata: Some(metadata),
    }
}

fn set(headers: Vec<(&str, String)>) -> HeaderMutation {
    let option = |(key, value): (&str, String)| HeaderValueOption {
        header: Some(Field {
            key: key.to_owned(),
            value: String::new(),
            raw_value: value.into(),
        }),
        append_action: AppendAction::OverwriteIfExistsOrAdd.into(),
    };
    HeaderMutation {
        set_headers: headers.into_iter().map(option).collect(),
        remove_headers: Vec::new(),
    }
}

fn message(response: Response) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(response),
        dynamic_metadata: None,
    }
}

/// Headers of an answer, as they came.
pub fn same_headers() -> ProcessingResponse {
    message(Response::ResponseHeaders(HeadersResponse {
        response: Some(CommonResponse::default()),
    }))
}

/// Trailers as they came.
pub fn same_trailers(side: Side) -> ProcessingResponse {
    let trailers = TrailersResponse {
        header_mutation: None,
    };
    message(match side {
        Side::Request => Response::RequestTrailers(trailers),
        Side::Answer => Response::ResponseTrailers(trailers),
    })
}

/// A part of a body as it came, where Envoy still has it.
pub fn same_body(side: Side) -> ProcessingResponse {
    body(side, None)
}

/// A body as it came, where Envoy has handed it over: in parts that it takes, and never none if the
/// body ends with it.
pub fn echo(side: Side, bytes: &Bytes, ends: bool) -> Vec<ProcessingResponse> {
    let mut parts: Vec<Bytes> = (0..bytes.len())
        .step_by(MOST_CHUNK)
        .map(|from| bytes.slice(from..bytes.len().min(from + MOST_CHUNK)))
        .collect();
    if parts.is_empty() && ends {
        parts.push(Bytes::new());
    }
    let last = parts.len().saturating_sub(1);
    let parts = parts.into_iter().enumerate().map(|(place, part)| {
        let streamed = StreamedBodyResponse {
            body: part,
            end_of_stream: ends && place == last,
        };
        let mutation = body_mutation::Mutation::StreamedResponse(streamed);
        let mutation = BodyMutation {
            mutation: Some(mutation),
        };
        body(side, Some(mutation))
    });
    parts.collect()
}

fn body(side: Side, body_mutation: Option<BodyMutation>) -> ProcessingResponse {
    let body = BodyResponse {
        response: Some(CommonResponse {
            body_mutation,
            ..CommonResponse::default()
        }),
    };
    message(match side {
        Side::Request => Response::RequestBody(body),
        Side::Answer => Response::ResponseBody(body),
    })
}

/// An answer in place of the endpoint's.
pub fn immediate(refused: Refused) -> ProcessingResponse {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    if let Some(seconds) = refused.retry_after_seconds {
        headers.push(("retry-after", seconds.to_string()));
    }
    if let Some(code) = refused.code {
        headers.push((DROPPED, code.to_owned()));
    }
    message(Response::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus {
            code: i32::from(refused.status.as_u16()),
        }),
        headers: Some(set(headers)),
        body: refused.body.into(),
        details: format!("homing_{}", refused.code.unwrap_or("refused")),
    }))
}

#[cfg(test)]
mod tests;
