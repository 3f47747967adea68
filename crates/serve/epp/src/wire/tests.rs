//! Messages as Envoy writes and reads them.

use prost::Message as _;
use prost_types::ListValue;

use super::processing_request::Request;
use super::*;

fn field(key: &str, value: &[u8]) -> Field {
    Field {
        key: key.to_owned(),
        value: String::new(),
        raw_value: Bytes::copy_from_slice(value),
    }
}

fn text(text: &str) -> Value {
    Value {
        kind: Some(Kind::StringValue(text.to_owned())),
    }
}

fn metadata(namespace: &str, name: &str, value: Value) -> Metadata {
    let fields = [(name.to_owned(), value)].into();
    Metadata {
        filter_metadata: [(namespace.to_owned(), Struct { fields })].into(),
    }
}

#[test]
fn headers_are_read_as_bytes_and_those_with_a_colon_are_apart() {
    let fields = vec![
        field(":method", b"PUT"),
        field(":path", b"/v1/x?y=1"),
        field("x-session-id", b"s\xff"),
        field("not a header", b"x"),
        field("bad", b"a\nb"),
        Field {
            key: "plain".to_owned(),
            value: "text".to_owned(),
            raw_value: Bytes::new(),
        },
    ];
    let headers = HttpHeaders {
        headers: Some(Fields { headers: fields }),
        end_of_stream: false,
    };
    let call = call(headers, None);
    assert_eq!(
        (call.method, call.path.as_str()),
        (Method::PUT, "/v1/x?y=1")
    );
    assert_eq!(call.headers["x-session-id"].as_bytes(), b"s\xff");
    assert_eq!(call.headers["plain"].as_bytes(), b"text");
    assert_eq!(call.headers.len(), 2);
    assert_eq!(call.subset, None);
}

#[test]
fn a_subset_is_a_list_or_a_text_and_may_be_empty() {
    let list = |texts: &[&str]| Value {
        kind: Some(Kind::ListValue(ListValue {
            values: texts.iter().map(|one| text(one)).collect(),
        })),
    };
    let number = Value {
        kind: Some(Kind::NumberValue(1.0)),
    };
    for (value, expected) in [
        (
            text("10.0.0.1:80, 10.0.0.2:80"),
            vec!["10.0.0.1:80", "10.0.0.2:80"],
        ),
        (
            list(&["10.0.0.1:80", "[fd00::1]:80"]),
            vec!["10.0.0.1:80", "[fd00::1]:80"],
        ),
        (list(&["10.0.0.1"]), vec!["10.0.0.1"]),
        (text(""), vec![]),
        (list(&[]), vec![]),
        (text("not an address"), vec![]),
        (number, vec![]),
    ] {
        let metadata = metadata(SUBSET_HINT, SUBSET, value);
        let subset = call(HttpHeaders::default(), Some(&metadata))
            .subset
            .unwrap();
        let expected: Vec<Offered> = expected
            .iter()
            .map(|text| Offered::parse(text).unwrap())
            .collect();
        assert_eq!(subset, expected);
    }
    let elsewhere = metadata("envoy.lb", SUBSET, text("10.0.0.1:80"));
    assert_eq!(call(HttpHeaders::default(), Some(&elsewhere)).subset, None);
}

#[test]
fn who_served_is_read_where_envoy_says_it() {
    let said = metadata(BALANCING, SERVED, text("10.0.0.2:8000"));
    assert_eq!(served(Some(&said)), Some("10.0.0.2:8000".parse().unwrap()));
    assert_eq!(served(None), None);
    assert_eq!(served(Some(&metadata(BALANCING, SERVED, text("?")))), None);
}

/// The numbers on the wire, byte by byte: they are Envoy's, not ours to change.
#[test]
fn numbers_are_envoys() {
    let message = echo(Side::Answer, &Bytes::from_static(b"ab"), true).remove(0);
    // response_body 4 { response 1 { body_mutation 3 { streamed_response 3 { body 1, end 2 } } } }
    let expected = [
        0x22, 0x0c, 0x0a, 0x0a, 0x1a, 0x08, 0x1a, 0x06, 0x0a, 0x02, b'a', b'b', 0x10, 0x01,
    ];
    assert_eq!(message.encode_to_vec(), expected);
    // request_body 4 { body 1, end 2 }, metadata_context 8 {}, attributes 9 (not known here)
    let sent = [
        0x22, 0x05, 0x0a, 0x01, b'x', 0x10, 0x01, 0x42, 0x00, 0x4a, 0x00,
    ];
    let read = ProcessingRequest::decode(&sent[..]).unwrap();
    let Some(Request::RequestBody(body)) = read.request else {
        panic!("{read:?}");
    };
    assert_eq!((&body.body[..], body.end_of_stream), (&b"x"[..], true));
    let immediate = immediate(Refused {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: None,
        retry_after_seconds: None,
        body: Vec::new(),
    });
    let bytes = immediate.encode_to_vec();
    // immediate_response 7 { status 1 { code 1: 503 } …
    assert_eq!(bytes[0], 0x3a);
    assert_eq!(&bytes[2..7], [0x0a, 0x03, 0x08, 0xf7, 0x03]);
}

#[test]
fn the_endpoint_is_in_header_and_metadata_alike() {
    let endpoints = [
        "10.0.0.1:8000".parse().unwrap(),
        "[fd00::1]:8000".parse().unwrap(),
    ];
    let message = destination(&endpoints, None);
    let Some(Response::RequestHeaders(headers)) = message.response else {
        panic!("not about headers");
    };
    let response = headers.response.unwrap();
    assert!(response.clear_route_cache);
    let options = response.header_mutation.unwrap().set_headers;
    let [option] = &options[..] else {
        panic!("{options:?}");
    };
    assert_eq!(option.append_action(), AppendAction::OverwriteIfExistsOrAdd);
    let header = option.header.as_ref().unwrap();
    assert_eq!(header.key, "x-gateway-destination-endpoint");
    assert_eq!(&header.raw_value[..], b"10.0.0.1:8000,[fd00::1]:8000");
    let metadata = message.dynamic_metadata.unwrap();
    let Some(Kind::StructValue(inner)) = &metadata.fields["envoy.lb"].kind else {
        panic!("{metadata:?}");
    };
    let value = &inner.fields["x-gateway-destination-endpoint"];
    assert_eq!(value, &text("10.0.0.1:8000,[fd00::1]:8000"));
}

#[test]
fn a_span_of_ours_replaces_the_context_of_the_request() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let asks: TraceContext = parent.parse().unwrap();
    let message = destination(&["10.0.0.1:8000".parse().unwrap()], Some(&asks));
    let Some(Response::RequestHeaders(headers)) = message.response else {
        panic!("not about headers");
    };
    let options = headers
        .response
        .unwrap()
        .header_mutation
        .unwrap()
        .set_headers;
    let [_, option] = &options[..] else {
        panic!("{options:?}");
    };
    assert_eq!(option.append_action(), AppendAction::OverwriteIfExistsOrAdd);
    let header = option.header.as_ref().unwrap();
    assert_eq!(header.key, "traceparent");
    assert_eq!(&header.raw_value[..], parent.as_bytes());
}
