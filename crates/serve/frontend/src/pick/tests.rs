//! What the headers of a request that a proxy carries say of its urgency, and how long its body is
//! waited for.

use std::future::pending;

use http::{HeaderValue, StatusCode};
use tokio::time::sleep;

use super::*;
use crate::Access;
use crate::tests::frontend;

fn call(line: &str) -> Call {
    let (method, path) = line.split_once(' ').unwrap();
    Call {
        method: method.parse().unwrap(),
        path: path.to_owned(),
        headers: HeaderMap::new(),
        subset: None,
    }
}

#[tokio::test(start_paused = true)]
async fn objectives_and_fairness_are_read_from_headers() {
    let picker = frontend(Access::Open, None).picker(PickConfig {
        objectives: Objectives::new([("urgent".to_owned(), 7)].into()),
        ..PickConfig::default()
    });
    let urgency = |name: &'static str, value: &'static str| {
        let mut call = call("POST /v1/completions");
        let value = HeaderValue::from_static(value);
        call.headers.insert(HeaderName::from_static(name), value);
        picker.open(call).unwrap().urgency
    };
    for name in [
        "x-llm-d-inference-objective",
        "x-gateway-inference-objective",
    ] {
        assert_eq!(urgency(name, "urgent").priority, 7);
        assert_eq!(urgency(name, "unknown").priority, 0);
    }
    for name in [
        "x-llm-d-inference-fairness-id",
        "x-gateway-inference-fairness-id",
    ] {
        let identity = urgency(name, "team").identity;
        assert_eq!((identity.tenant, identity.session), (named(b"team"), 0));
    }
    let session = urgency("x-session-affinity", "s").identity;
    assert_eq!((session.tenant, session.session), (0, named(b"s")));
}

#[tokio::test(start_paused = true)]
async fn what_may_be_shed_waits_no_longer_than_its_first_token_is_wanted() {
    let picker = frontend(Access::Open, None).picker(PickConfig {
        objectives: Objectives::new([("batch".to_owned(), -1)].into()),
        ..PickConfig::default()
    });
    let opened = |objective: &'static str, headers: &[(&'static str, &'static str)]| {
        let mut call = call("POST /v1/completions");
        let objective = HeaderValue::from_static(objective);
        call.headers
            .insert("x-llm-d-inference-objective", objective);
        for (name, value) in headers {
            call.headers.insert(*name, HeaderValue::from_static(value));
        }
        let opened = picker.open(call);
        opened.map(|incoming| incoming.urgency.patience)
    };
    let milliseconds = |number| Some(Duration::from_millis(number));
    for name in ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"] {
        assert_eq!(
            opened("batch", &[(name, "400")]).unwrap(),
            milliseconds(400)
        );
        assert_eq!(opened("other", &[(name, "400")]).unwrap(), None);
        let refused = opened("batch", &[(name, "soon")]).unwrap_err();
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        let shorter = [(name, "400"), ("x-request-timeout-ms", "300")];
        assert_eq!(opened("batch", &shorter).unwrap(), milliseconds(300));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_refused_and_gives_its_place_back() {
    let frontend = frontend(Access::Open, None);
    let read_timeout = Duration::from_secs(10);
    let picker = frontend.picker(PickConfig {
        read_timeout,
        ..PickConfig::default()
    });
    let began = Instant::now();
    let mut incoming = picker.open(call("POST /v1/chat/completions")).unwrap();
    let refused = loop {
        if let Err(refused) = incoming.wait(sleep(Duration::from_secs(1))).await {
            break refused;
        }
        incoming.add(b"x").await.unwrap();
    };
    assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(refused.code, Some("request_timeout"));
    // A byte earns less than a millisecond.
    assert_eq!(began.elapsed().as_secs(), read_timeout.as_secs());
    assert_eq!(frontend.in_flight(), 1);
    drop(incoming);
    assert_eq!(frontend.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_keeps_coming_is_waited_for_and_one_that_stops_is_not() {
    let picker = frontend(Access::Open, None).picker(PickConfig::default());
    let mut incoming = picker.open(call("POST /v1/messages")).unwrap();
    for _ in 0..100 {
        incoming.wait(sleep(Duration::from_secs(1))).await.unwrap();
        incoming.add(&[b' '; 5000]).await.unwrap();
    }
    let refused = incoming.wait(pending::<()>()).await.unwrap_err();
    assert_eq!(refused.status, StatusCode::REQUEST_TIMEOUT);
    // As Anthropic's API says it.
    let body = String::from_utf8(refused.body).unwrap();
    assert!(body.starts_with(r#"{"type":"error""#), "{body}");
}
