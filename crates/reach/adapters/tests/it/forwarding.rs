//! Requests in the client's own words, to stand-ins with a server of their own. `tests/engines` does
//! the same with genuine engines.

use adapters::EngineKind;
use serde_json::{Value, json};

use crate::harness::Service;
use crate::standin::{Build, Mood, StandIn, TEXT};

const CHAT: &str = "/v1/chat/completions";

fn with_tools(more: &Value) -> Value {
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let mut body = json!({
        "model": "served",
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [tool],
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn two() -> (StandIn, StandIn, Service) {
    let left = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let right = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[left.spec(""), right.spec("")]).await;
    (left, right, service)
}

#[tokio::test]
async fn what_needs_the_engine_s_own_server_goes_there_as_it_came() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    let sent = with_tools(&json!({"temperature": 0.25, "top_k": 3}));
    let (head, answer) = service.post(CHAT, &sent).await;
    assert_eq!(head.status, 200, "{answer}");
    assert_eq!(head.headers["x-homing-forwarded"], "tools");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["id"], "own");
    assert_eq!(
        answer["model"], "served",
        "by the name that the client knows"
    );
    let mut expected = sent;
    expected["model"] = json!("org/model");
    assert_eq!(engine.last().body, expected);
    let decision = &service.router.decisions(1)[0];
    assert_eq!(decision.forwarded.as_deref(), Some("tools"));
    assert_eq!(decision.actual_cached_tokens, Some(32));
    assert!(decision.prompt_tokens > 10, "routed by its prompt");
}

#[tokio::test]
async fn what_does_not_need_it_is_sent_in_tokens() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    service
        .chat(&[json!({"role": "user", "content": "Hello"})], 5)
        .await;
    assert!(engine.last().body["prompt"].is_array());
    assert_eq!(service.router.decisions(1)[0].forwarded, None);
    let unneeded = with_tools(&json!({"tool_choice": "none", "tools": [], "max_tokens": 5}));
    service.post(CHAT, &unneeded).await;
    assert!(engine.last().body["prompt"].is_array());
}

#[tokio::test]
async fn a_stream_is_passed_on_and_the_usage_only_if_it_was_asked_for() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    for asked in [false, true] {
        let options = json!({"stream": true, "stream_options": {"include_usage": asked}});
        let (head, answer) = service.post(CHAT, &with_tools(&options)).await;
        assert_eq!(head.headers["content-type"], "text/event-stream");
        assert!(answer.ends_with("data: [DONE]\n\n"), "{answer}");
        assert_eq!(answer.contains("\"usage\":{"), asked, "{answer}");
        for text in TEXT {
            assert!(answer.contains(&json!(text).to_string()), "{answer}");
        }
        let sent = engine.last().body;
        assert_eq!(sent["stream_options"], json!({"include_usage": true}));
    }
}

#[tokio::test]
async fn before_the_first_token_another_engine_is_tried() {
    let (left, right, service) = two().await;
    for status in [503, 500] {
        left.feels(Mood::Refusing(status));
        right.feels(Mood::Well);
        let before = right.seen().len();
        // Enough requests that the router sends one to the left first.
        for _ in 0..4 {
            let (head, answer) = service.post(CHAT, &with_tools(&json!({}))).await;
            assert_eq!(head.status, 200, "{answer}");
        }
        assert_eq!(right.seen().len(), before + 4);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_with_an_error_event() {
    let (left, right, service) = two().await;
    left.feels(Mood::DyingAfter(2));
    right.feels(Mood::DyingAfter(2));
    let (head, answer) = service
        .post(CHAT, &with_tools(&json!({"stream": true})))
        .await;
    assert_eq!(head.status, 200);
    assert!(answer.contains(" quick"), "{answer}");
    assert!(answer.contains("stream_interrupted"), "{answer}");
    assert!(answer.ends_with("data: [DONE]\n\n"), "{answer}");
    assert_eq!(
        left.seen().len() + right.seen().len(),
        1,
        "never tried twice"
    );
}

#[tokio::test]
async fn the_engine_s_refusal_reaches_the_client_and_blames_nobody() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    for status in [400, 404, 422] {
        engine.feels(Mood::Refusing(status));
        let (head, answer) = service.post(CHAT, &with_tools(&json!({}))).await;
        assert_eq!(head.status, 400, "{answer}");
        assert!(answer.contains("capacity exceeded"), "{answer}");
    }
    engine.feels(Mood::Well);
    let (head, _) = service.post(CHAT, &with_tools(&json!({}))).await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn what_nobody_can_do_is_refused() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    for (path, body, status, words) in [
        (
            CHAT,
            with_tools(&json!({"nobody": 1})),
            400,
            "`nobody` is not known",
        ),
        (
            CHAT,
            with_tools(&json!({"nvext": {"extra_fields": ["timing"]}})),
            400,
            "cannot be combined with `tools`",
        ),
        (
            CHAT,
            with_tools(&json!({"model": "other"})),
            404,
            "does not exist",
        ),
        (
            "/v1/embeddings",
            json!({"model": "served", "input": "a"}),
            404,
            "do not serve /v1/embeddings",
        ),
        (
            "/tokenize",
            json!({"prompt": "a"}),
            404,
            "do not serve /tokenize",
        ),
    ] {
        let (head, answer) = service.post(path, &body).await;
        assert_eq!(head.status, status, "{answer}");
        assert!(answer.contains(words), "{answer}");
    }
    assert!(engine.seen().is_empty());
}

#[tokio::test]
async fn a_salt_reaches_the_engine_as_ours() {
    let engine = StandIn::start(Build::new(EngineKind::Vllm)).await;
    let service = Service::start(&[engine.spec("")]).await;
    service
        .post(CHAT, &with_tools(&json!({"cache_salt": "a"})))
        .await;
    let first = engine.last().body["cache_salt"].clone();
    assert!(first.is_string() && first != "a");
    service
        .post(CHAT, &with_tools(&json!({"nvext": {"cache_salt": "a"}})))
        .await;
    assert_eq!(engine.last().body["cache_salt"], first);
    assert!(engine.last().body.get("nvext").is_none());
    service
        .post(CHAT, &with_tools(&json!({"cache_salt": "b"})))
        .await;
    assert_ne!(engine.last().body["cache_salt"], first);
}
