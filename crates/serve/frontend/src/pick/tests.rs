//! What the headers of a request that a proxy carries say of its urgency.

use http::HeaderValue;

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
        fallbacks: 0,
        objectives: [("urgent".to_owned(), 7)].into(),
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
