//! Trace contexts on their way to engines: ours where a request is recorded, the client's otherwise.

use adapters::EngineKind;
use contract::{Clock, TraceContext};
use serde_json::{Value, json};
use spans::{SampleRatio, Tracer};
use telemetry::Registry;

use crate::harness::Service;
use crate::standin::{Build, Seen, StandIn};

const CHAT: &str = "/v1/chat/completions";
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// One that is sent in tokens, and one in the client's own words.
fn bodies() -> [Value; 2] {
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let messages = json!([{"role": "user", "content": "Hello"}]);
    [
        json!({"model": "served", "messages": messages, "max_tokens": 5}),
        json!({"model": "served", "messages": messages, "tools": [tool]}),
    ]
}

fn header<'a>(seen: &'a Seen, name: &str) -> Option<&'a str> {
    seen.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn an_engine_is_told_our_span_however_it_is_asked() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let (tracer, mut finished) =
        Tracer::new(SampleRatio::NONE, 7, Clock::start(), &Registry::new());
    let service = Service::start_traced(&[engine.spec("")], tracer).await;
    for body in bodies() {
        let headers = [("traceparent", SAMPLED), ("tracestate", "vendor=1")];
        let (head, answer) = service.post_with(CHAT, &headers, &body).await;
        assert_eq!(head.status, 200, "{answer}");
        let trace = finished.recv().await.unwrap();
        let worker = trace.spans.iter().find(|span| span.name == "worker");
        let told: TraceContext = header(&engine.last(), "traceparent")
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(
            (told.trace, told.span),
            (trace.context.trace, worker.unwrap().id)
        );
        assert!(told.is_sampled());
        assert_eq!(header(&engine.last(), "tracestate"), Some("vendor=1"));
        let (head, _) = service
            .post_with(CHAT, &[("traceparent", UNSAMPLED)], &body)
            .await;
        assert_eq!(head.status, 200);
        assert_eq!(header(&engine.last(), "traceparent"), Some(UNSAMPLED));
        // One that we began and do not record: the engine is not to record it either.
        service.post(CHAT, &body).await;
        let told: TraceContext = header(&engine.last(), "traceparent")
            .unwrap()
            .parse()
            .unwrap();
        assert!(!told.is_sampled());
    }
}

#[tokio::test]
async fn without_traces_of_ours_the_client_s_context_is_passed_on() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    for body in bodies() {
        service
            .post_with(CHAT, &[("traceparent", SAMPLED)], &body)
            .await;
        assert_eq!(header(&engine.last(), "traceparent"), Some(SAMPLED));
        service
            .post_with(
                CHAT,
                &[("traceparent", "nonsense"), ("tracestate", "a=1")],
                &body,
            )
            .await;
        assert_eq!(header(&engine.last(), "traceparent"), None);
        assert_eq!(header(&engine.last(), "tracestate"), None);
    }
}
