//! OTLP's two forms: what is sent for a batch, and what an answer means for it.
//!
//! A gRPC call with one message each way is an HTTP/2 request with five bytes before the message, and
//! a status in the trailers. Written out, it needs no second client, and certificates are checked as
//! everywhere else.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, RETRY_AFTER, TE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri};
use http_body_util::Full;
use prost::Message as _;

use crate::message::{ExportRequest, ExportResponse};

/// gRPC's method, and the path over HTTP.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const HTTP_PATH: &str = "/v1/traces";
/// Bytes before a message: whether it is compressed, and its length.
const GRPC_HEAD: usize = 5;
/// A collector cannot put off the next attempt any longer.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How a collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    /// HTTP with protobuf.
    Http,
}

/// Where a collector is.
#[derive(Clone, Debug)]
pub struct Collector {
    protocol: Protocol,
    /// With the path.
    address: Uri,
    headers: HeaderMap,
}

/// Why there is no such collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    #[error("`{0}` is not a URL like http://127.0.0.1:4317")]
    Address(String),
    #[error("`{0}` is not a header like NAME=VALUE")]
    Header(String),
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All but so many spans were accepted; why not those.
    Accepted { rejected: u64, message: String },
    /// May succeed later, and not before that time if one is given.
    Again {
        why: String,
        after: Option<Duration>,
    },
    /// Will never succeed.
    Refused(String),
}

impl Collector {
    /// At a URL of the form `http://HOST:PORT`, perhaps with a path before the protocol's own.
    pub fn new(
        protocol: Protocol,
        url: &str,
        headers: &[(String, String)],
    ) -> Result<Self, CollectorError> {
        let wrong = || CollectorError::Address(url.to_owned());
        let base: Uri = url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let known = matches!(base.scheme_str(), Some("http" | "https"));
        if !known || base.authority().is_none() || base.query().is_some() {
            return Err(wrong());
        }
        let path = match protocol {
            Protocol::Grpc => GRPC_PATH,
            Protocol::Http => HTTP_PATH,
        };
        let address = format!("{}{path}", url.trim_end_matches('/'));
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || CollectorError::Header(name.clone());
            let name: HeaderName = name.to_ascii_lowercase().parse().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            sent.append(name, value);
        }
        Ok(Self {
            protocol,
            address: address.parse().map_err(|_| wrong())?,
            headers: sent,
        })
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The body of a request for a batch: made once, however often it is sent.
    pub fn body(&self, batch: &ExportRequest) -> Bytes {
        let length = batch.encoded_len();
        let mut body = BytesMut::with_capacity(GRPC_HEAD + length);
        if self.protocol == Protocol::Grpc {
            body.put_u8(0);
            body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        }
        batch
            .encode(&mut body)
            .expect("memory takes what it has room for");
        body.freeze()
    }

    pub fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.address.clone();
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static("homing"));
        let kind = match self.protocol {
            Protocol::Grpc => "application/grpc",
            Protocol::Http => "application/x-protobuf",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if self.protocol == Protocol::Grpc {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        request
    }

    /// What an answer means. `headers` are those of the answer, and its trailers.
    pub fn outcome(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Outcome {
        if status != StatusCode::OK {
            return refused_over_http(status, headers);
        }
        match self.protocol {
            Protocol::Http => accepted(body),
            Protocol::Grpc => match grpc_status(headers) {
                Some(0) => accepted(body.get(GRPC_HEAD..).unwrap_or_default()),
                Some(code) => refused_over_grpc(code, headers),
                None => Outcome::Again {
                    why: "the answer has no grpc-status".to_owned(),
                    after: None,
                },
            },
        }
    }
}

/// Whoever sends what we cannot read has accepted the spans all the same.
fn accepted(body: &[u8]) -> Outcome {
    let response = ExportResponse::decode(body).unwrap_or_default();
    let partial = response.partial_success.unwrap_or_default();
    Outcome::Accepted {
        rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
        message: partial.error_message,
    }
}

fn refused_over_http(status: StatusCode, headers: &HeaderMap) -> Outcome {
    let why = status.to_string();
    match status.as_u16() {
        429 | 502 | 503 | 504 => {
            let after = headers.get(RETRY_AFTER);
            let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
            let after = after.map(|seconds| Duration::from_secs(seconds).min(LONGEST_WAIT));
            Outcome::Again { why, after }
        }
        _ => Outcome::Refused(why),
    }
}

fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

fn refused_over_grpc(code: u32, headers: &HeaderMap) -> Outcome {
    let message = headers
        .get("grpc-message")
        .and_then(|text| text.to_str().ok());
    let why = format!("gRPC status {code}: {}", message.unwrap_or("(no message)"));
    match code {
        // Cancelled, deadline exceeded, resource exhausted, aborted, out of range, unavailable,
        // data loss.
        1 | 4 | 8 | 10 | 11 | 14 | 15 => Outcome::Again { why, after: None },
        _ => Outcome::Refused(why),
    }
}
