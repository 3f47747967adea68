//! Streams of a gateway that asks where requests are to go.

use std::io;

use bytes::Bytes;
use epp::wire::processing_request::Request;
use epp::wire::{
    BodySendMode, Field, Fields, HttpBody, HttpHeaders, HttpTrailers, Metadata, ProcessingRequest,
    ProtocolConfiguration,
};
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Struct, Value};

use crate::write;

pub(crate) fn streams() -> io::Result<()> {
    let duplex = BodySendMode::FullDuplexStreamed;
    let whole = [
        opening(duplex, false),
        plain(Request::RequestBody(body(br#"{"messages":["#, false))),
        plain(Request::RequestBody(body(b"]}", true))),
        answered("10.0.0.2:8000"),
        plain(Request::ResponseBody(body(b"data: {}\n\n", false))),
        plain(Request::ResponseBody(body(b"", true))),
    ];
    write("ext_proc", "whole", &[1], &framed(&whole))?;
    write("ext_proc", "refused", &[0], &framed(&whole))?;
    let trailers = [
        opening(duplex, false),
        plain(Request::RequestBody(body(b"{}", false))),
        plain(Request::RequestTrailers(HttpTrailers::default())),
        answered("unreadable"),
        plain(Request::ResponseBody(body(b"text", false))),
        plain(Request::ResponseTrailers(HttpTrailers::default())),
    ];
    write("ext_proc", "trailers", &[3], &framed(&trailers))?;
    let kept = [
        opening(BodySendMode::Buffered, false),
        plain(Request::RequestBody(body(b"{}", true))),
        answered(""),
        plain(Request::ResponseBody(body(b"text", true))),
    ];
    write("ext_proc", "kept", &[2], &framed(&kept))?;
    let short = [opening(duplex, true), answered("10.0.0.1:8000,10.0.0.2")];
    write("ext_proc", "headers-only", &[1], &framed(&short))
}

fn framed(messages: &[ProcessingRequest]) -> Vec<u8> {
    let mut frames = Vec::new();
    for message in messages {
        let bytes = message.encode_to_vec();
        frames.extend((bytes.len() as u16).to_be_bytes());
        frames.extend(bytes);
    }
    frames
}

fn plain(request: Request) -> ProcessingRequest {
    ProcessingRequest {
        request: Some(request),
        ..ProcessingRequest::default()
    }
}

fn opening(mode: BodySendMode, ends: bool) -> ProcessingRequest {
    let fields = [
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        ("x-session-id", "s"),
    ];
    let hint = metadata(
        "envoy.lb.subset_hint",
        "x-gateway-destination-endpoint-subset",
        "10.0.0.1:8000, 10.0.0.2",
    );
    ProcessingRequest {
        request: Some(Request::RequestHeaders(headers(&fields, ends))),
        metadata_context: Some(hint),
        protocol_config: Some(ProtocolConfiguration {
            request_body_mode: mode.into(),
            response_body_mode: mode.into(),
        }),
        ..ProcessingRequest::default()
    }
}

fn answered(served: &str) -> ProcessingRequest {
    let fields = [(":status", "200"), ("content-type", "text/event-stream")];
    ProcessingRequest {
        request: Some(Request::ResponseHeaders(headers(&fields, false))),
        metadata_context: Some(metadata(
            "envoy.lb",
            "x-gateway-destination-endpoint-served",
            served,
        )),
        ..ProcessingRequest::default()
    }
}

fn headers(fields: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let field = |(key, value): &(&str, &str)| Field {
        key: (*key).to_owned(),
        value: String::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    };
    HttpHeaders {
        headers: Some(Fields {
            headers: fields.iter().map(field).collect(),
        }),
        end_of_stream,
    }
}

fn body(bytes: &'static [u8], end_of_stream: bool) -> HttpBody {
    HttpBody {
        body: Bytes::from_static(bytes),
        end_of_stream,
    }
}

fn metadata(namespace: &str, name: &str, text: &str) -> Metadata {
    let value = Value {
        kind: Some(Kind::StringValue(text.to_owned())),
    };
    let fields = [(name.to_owned(), value)].into();
    Metadata {
        filter_metadata: [(namespace.to_owned(), Struct { fields })].into(),
    }
}
