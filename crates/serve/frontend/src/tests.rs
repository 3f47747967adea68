//! The service without workers: who may look, who may change, what is said to whom.

use axum::body::Body;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use openai::UnknownFields;
use preprocess::{PreprocessConfig, Preprocessor};
use router::{Router, RouterConfig};
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use tasks::Tasks;

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

fn service(access: Access, api_keys: Option<ApiKeys>) -> axum::Router {
    frontend(access, api_keys).service()
}

pub(crate) fn frontend(access: Access, api_keys: Option<ApiKeys>) -> Frontend {
    let (clock, registry) = (Clock::start(), Registry::new());
    let parts = Parts {
        registry: registry.clone(),
        clock,
        id: FrontendId(0),
        fleet_commands: None,
        shares_engines: false,
        tracer: Tracer::off(),
        recorder: Recorder::off(),
    };
    let config = FrontendConfig {
        max_requests: 10,
        max_body_bytes: 1 << 20,
        max_buffered_bytes: 1 << 20,
        max_queue_wait: None,
        trust_priority: false,
        unknown_fields: UnknownFields::Refuse,
        normalize_agents: true,
        stored_responses: StoreLimits {
            entries: 100,
            bytes: 1 << 20,
        },
        access,
        api_keys: api_keys.map(KeyRing::new),
        faults: FaultLimits::default(),
        slow_reader_timeout: Duration::from_secs(30),
        forward: crate::ForwardPolicy::default(),
    };
    let (_roster, changes) = transport::roster();
    let tasks = Tasks::new();
    let frontend = Frontend::new(config, parts);
    let model = ModelParts {
        name: ModelName::new("m"),
        preprocessor: Preprocessor::embedded(PreprocessConfig::default()),
        router: Router::new(RouterConfig::new(32), &registry, clock),
        adapters: Vec::new(),
        changes,
    };
    frontend.serve_model(model, &tasks);
    frontend
}

async fn ask(
    service: &axum::Router,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn with_keys_looking_takes_a_key_and_changing_the_token() {
    let keys = ApiKeys::parse("sk-one").unwrap();
    let service = service(Access::Token("secret".to_owned()), Some(keys));
    let (nobody, key, token) = (
        None,
        Some((header::AUTHORIZATION.as_str(), "Bearer sk-one")),
        Some((header::AUTHORIZATION.as_str(), "Bearer secret")),
    );
    for (line, who, status) in [
        ("GET /live", nobody, 200),
        ("GET /metrics", nobody, 200),
        ("GET /health", nobody, 503),
        ("GET /v1/models", nobody, 401),
        ("GET /v1/models", key, 200),
        ("GET /workers", nobody, 401),
        ("GET /workers", key, 200),
        ("GET /workers", token, 200),
        ("GET /decisions", nobody, 401),
        ("GET /decisions", key, 200),
        ("GET /decisions", token, 200),
        ("GET /router", nobody, 401),
        ("GET /router", token, 200),
        ("PUT /router", nobody, 401),
        ("PUT /router", key, 401),
        ("PUT /router", token, 200),
        ("POST /workers", key, 401),
        ("PUT /workers", nobody, 401),
        ("PUT /workers", key, 401),
        ("PUT /workers", token, 400),
        ("DELETE /workers/1", key, 401),
        ("POST /reset_prefix_cache", nobody, 401),
        ("POST /reset_prefix_cache", key, 401),
        ("POST /reset_prefix_cache", token, 200),
    ] {
        let headers: Vec<_> = who.into_iter().collect();
        let (answered, _) = ask(&service, line, &headers, "{}").await;
        assert_eq!(answered, status, "{line} {who:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_keys_everybody_may_look() {
    let service = service(Access::Open, None);
    for line in [
        "GET /workers",
        "GET /decisions",
        "GET /router",
        "PUT /router",
    ] {
        assert_eq!(ask(&service, line, &[], "{}").await.0, 200, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_has_to_say_that_it_sends_json() {
    let service = service(Access::Open, None);
    let origin = ("origin", "http://localhost");
    let json = ("content-type", "application/json");
    // Without workers, what is let in is unavailable.
    for (headers, status) in [
        (vec![], StatusCode::SERVICE_UNAVAILABLE),
        (vec![origin, json], StatusCode::SERVICE_UNAVAILABLE),
        (vec![origin], StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (
            vec![("content-type", "text/plain")],
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
    ] {
        let line = "POST /v1/chat/completions";
        let (answered, _) = ask(&service, line, &headers, BODY).await;
        assert_eq!(answered, status.as_u16(), "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_model_is_not_told_at_length() {
    let service = service(Access::Open, None);
    let body = BODY.replace("\"m\"", &format!("\"{}\"", "é".repeat(100_000)));
    let (status, answer) = ask(&service, "POST /v1/chat/completions", &[], &body).await;
    assert_eq!(status, 404);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.len() < 400, "{}", message.len());
    assert!(message.contains("ééé"), "{message}");
}
