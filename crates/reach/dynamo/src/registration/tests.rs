//! Values as workers of several versions register them.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn read(value: &str) -> Registration {
    decode(value.as_bytes()).unwrap().expect("a kind we need")
}

#[test]
fn endpoints_of_known_versions_are_read() {
    // 1.6: the path names everything, the codec is msgpack.
    let value = r#"{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":7216921776586614218,"transport":{"tcp":"10.0.0.2:41781/6427a81e7139e5ca/dynamo/backend/generate"},"device_type":"cuda","request_plane_codec":"msgpack"}"#;
    let Registration::Endpoint(endpoint) = read(value) else {
        panic!("an endpoint was written");
    };
    assert_eq!(endpoint.name.to_string(), "dynamo/backend/generate");
    assert_eq!(endpoint.instance, 7_216_921_776_586_614_218);
    let address = endpoint.address.unwrap();
    let target = Target::Tcp {
        host: "10.0.0.2:41781".to_owned(),
        path: "6427a81e7139e5ca/dynamo/backend/generate".to_owned(),
    };
    assert_eq!(address.target, target);
    assert_eq!(address.codec, Codec::Msgpack);
    // 1.1: no codec.
    let value = r#"{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":1,"transport":{"tcp":"h:1/1/generate"}}"#;
    let Registration::Endpoint(endpoint) = read(value) else {
        panic!("an endpoint was written");
    };
    assert_eq!(endpoint.address.unwrap().codec, Codec::Json);
}

#[test]
fn an_endpoint_is_reached_over_tcp_or_nats() {
    let target = |transport: &str| {
        let value = format!(
            r#"{{"type":"Endpoint","component":"backend","endpoint":"generate","namespace":"dynamo","instance_id":1,"transport":{transport}}}"#
        );
        let Registration::Endpoint(endpoint) = read(&value) else {
            panic!("an endpoint was written");
        };
        endpoint.address.map(|address| address.target.to_string())
    };
    let check = |transport: &str, expected: Option<&str>| {
        assert_eq!(target(transport).as_deref(), expected, "{transport}");
    };
    check(r#"{"tcp":"h:1/1/generate"}"#, Some("h:1/1/generate"));
    check(
        r#"{"nats_tcp":"dynamo_backend.generate-694da1f2c9dc5c43"}"#,
        Some("dynamo_backend.generate-694da1f2c9dc5c43 on NATS"),
    );
    check(r#"{"tcp":"h:1"}"#, None);
    check(r#"{"nats_tcp":"dynamo_backend.>"}"#, None);
    check(r#"{"nats_tcp":""}"#, None);
    check(r#"{"nats_tcp":7}"#, None);
    check(r#"{"http":"h:1"}"#, None);
    check("{}", None);
}

#[test]
fn channels_of_known_versions_are_read() {
    let channel = |value: &str| decode(value.as_bytes()).unwrap();
    let expected = Registration::Channel(Channel {
        namespace: Some("dynamo".to_owned()),
        publisher: 3,
        address: ChannelAddress::Zmq("tcp://10.0.0.2:46185".to_owned()),
    });
    // 1.4 and later.
    let value = r#"{"type":"EventChannel","scope":{"kind":"endpoint","endpoint":{"namespace":"dynamo","component":"backend","name":"generate"}},"topic":"kv-events","instance_id":3,"transport":{"kind":"Zmq","config":{"endpoint":"tcp://10.0.0.2:46185"}}}"#;
    assert_eq!(channel(value), Some(expected.clone()));
    // 1.1 to 1.3.
    let value = r#"{"type":"EventChannel","namespace":"dynamo","component":"backend","topic":"kv-events","instance_id":3,"transport":{"kind":"Zmq","config":{"endpoint":"tcp://10.0.0.2:46185"}}}"#;
    assert_eq!(channel(value), Some(expected));
    let other = value.replace("kv-events", "kv_metrics");
    assert_eq!(channel(&other), None);
    let broker = value.replace("tcp://10.0.0.2:46185", "ipc://x");
    assert_eq!(channel(&broker), None);
}

#[test]
fn channels_over_nats_are_named_by_their_subject() {
    let channel = |prefix: &str, topic: &str| {
        let value = format!(
            r#"{{"type":"EventChannel","scope":{{"kind":"endpoint","endpoint":{{"namespace":"dynamo","component":"backend","name":"generate"}}}},"topic":"{topic}","instance_id":3,"transport":{{"kind":"Nats","config":{{"subject_prefix":"{prefix}"}}}}}}"#
        );
        let registration = decode(value.as_bytes()).unwrap()?;
        let Registration::Channel(channel) = registration else {
            panic!("{registration:?}");
        };
        Some(channel.address.to_string())
    };
    let prefix = "namespace.dynamo.component.backend.endpoint.generate";
    let subject = format!("{prefix}.kv-events on NATS");
    assert_eq!(channel(prefix, "kv-events"), Some(subject));
    assert_eq!(channel(prefix, "kv_metrics"), None);
    for bad in ["", "a..b", ">", "a.*", "a b", "a.b\\r\\nPUB c", "ä"] {
        assert_eq!(channel(bad, "kv-events"), None, "{bad}");
    }
}

#[test]
fn a_source_says_for_whom_is_published() {
    let value = r#"{"type":"EventSource","topic":"kv-events","publisher_id":5175857504502543,"metadata":{"worker":{"worker_id":1986024272176095462,"dp_rank":0},"publisher_id":5175857504502543}}"#;
    let expected = Source {
        publisher: 5_175_857_504_502_543,
        worker: 1_986_024_272_176_095_462,
    };
    assert_eq!(read(value), Registration::Source(expected));
}

#[test]
fn kinds_that_we_do_not_need_are_skipped() {
    for value in [
        r#"{"type":"EventSource","topic":"other","publisher_id":1,"metadata":{}}"#,
        r#"{"type":"SomethingNew","of":["a","later"],"version":1}"#,
    ] {
        assert_eq!(decode(value.as_bytes()), Ok(None));
    }
    let adapter = r#"{"type":"Model","namespace":"n","component":"c","endpoint":"e","instance_id":1,"card_json":{"display_name":"m","lora":{"name":"a"}}}"#;
    assert_eq!(decode(adapter.as_bytes()), Ok(None));
}

#[test]
fn malformed_values_are_refused() {
    for bad in [
        "",
        "null",
        "[]",
        r#"{"type":"Endpoint"}"#,
        r#"{"type":"Endpoint","component":"c","endpoint":"e","namespace":"n","instance_id":-1,"transport":{}}"#,
        r#"{"type":"Endpoint","component":"c","endpoint":"e","namespace":"n","instance_id":1,"transport":{},"request_plane_codec":"xml"}"#,
        r#"{"type":"Model","namespace":"n","component":"c","endpoint":"e","instance_id":1,"card_json":{"display_name":7}}"#,
    ] {
        assert!(decode(bad.as_bytes()).is_err(), "{bad}");
    }
    let large = vec![b' '; LARGEST_VALUE + 1];
    assert!(matches!(decode(&large), Err(DecodeError::TooLarge { .. })));
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}
