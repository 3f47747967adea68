//! Pages' questions before a stand-in for Prometheus, on a paused clock.

use std::collections::BTreeMap;

use axum::extract::Query;
use axum::response::IntoResponse as _;
use axum::routing::get;
use serde_json::{Value, json};

use super::*;
use crate::Dashboard;
use crate::tests::bench::{Bench, DASHBOARD, transport};

type Asked = Query<BTreeMap<String, String>>;

/// Answers with what it was asked, or as badly as it was asked to.
async fn stand_in(Query(asked): Asked) -> axum::response::Response {
    let refused = |status: StatusCode, error: &str| {
        let body = json!({ "status": "error", "errorType": "bad_data", "error": error });
        (status, axum::Json(body)).into_response()
    };
    match asked["query"].as_str() {
        "wrong(" => refused(StatusCode::BAD_REQUEST, "parse error: unclosed"),
        "odd" => refused(StatusCode::OK, "an error that went well"),
        "page" => "<html>".into_response(),
        "gone" => (StatusCode::NOT_FOUND, "nothing here").into_response(),
        "large" => vec![b' '; MOST_BYTES + 1].into_response(),
        "slow" => {
            tokio::time::sleep(2 * PATIENCE).await;
            "late".into_response()
        }
        _ => axum::Json(json!({ "status": "success", "data": asked })).into_response(),
    }
}

fn bench() -> Bench {
    let routes = axum::Router::new()
        .route("/prom/api/v1/query", get(stand_in))
        .route("/prom/api/v1/query_range", get(stand_in));
    Bench::before(|tasks| {
        let transport = transport(routes, tasks);
        Prometheus::new("http://prometheus:9090/prom/", transport).unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn questions_arrive_as_they_were_asked() {
    let bench = bench();
    let call = "GET /api/prometheus/query?query=up%7Ba%3D%22%C3%A4%20%26%22%7D%2B1";
    let answer = bench.ok(call, None).await;
    assert_eq!(answer["status"], "success");
    assert_eq!(answer["data"], json!({ "query": "up{a=\"ä &\"}+1" }));
    let call = "GET /api/prometheus/query?query=up&time=1700000000.5&other=1";
    let answer = bench.ok(call, None).await;
    assert_eq!(
        answer["data"],
        json!({ "query": "up", "time": "1700000000.5" })
    );
    let call = "GET /api/prometheus/query_range?query=up&start=1700000000&end=1700001800&step=15";
    let answer = bench.ok(call, None).await;
    let expected = json!({
        "query": "up", "start": "1700000000", "end": "1700001800", "step": "15",
    });
    assert_eq!(answer["data"], expected);
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_is_told_in_place() {
    let bench = bench();
    let long = "a".repeat(LONGEST_QUERY + 1);
    for (question, status, message) in [
        ("query?query=wrong(", 400, "parse error: unclosed"),
        ("query?query=odd", 502, "an error that went well"),
        ("query?query=page", 502, "not an answer of Prometheus"),
        ("query?query=gone", 502, "status 404"),
        ("query?query=large", 502, "too long"),
        ("query?query=slow", 504, "no answer within 5s"),
        ("query", 400, "query"),
        ("query?query=up&time=NaN", 400, "`time` is not a number"),
        ("query_range?query=up&start=1&end=2", 400, "step"),
        ("query_range?query=up&start=x&end=2&step=1", 400, "start"),
        (&format!("query?query={long}"), 400, "4096 bytes"),
        ("labels", 404, "There is no GET"),
    ] {
        let call = format!("GET /api/prometheus/{question}");
        let (answered, error) = bench.call(&call, None, None).await;
        let said = error["error"]["message"].as_str().unwrap();
        assert_eq!(answered.as_u16(), status, "{question}: {said}");
        assert!(said.contains(message), "{question}: {said}");
    }
    let (status, _) = bench.call("POST /api/prometheus/query", None, None).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn without_prometheus_it_is_said_how_to_start_one() {
    let bench = Bench::open();
    for question in [
        "query?query=up",
        "query_range?query=up&start=1&end=2&step=1",
    ] {
        let call = format!("GET /api/prometheus/{question}");
        let (status, error) = bench.call(&call, None, None).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(error["error"]["code"], "no_prometheus");
        let said = error["error"]["message"].as_str().unwrap();
        assert!(said.contains("--prometheus-url"), "{said}");
    }
    let list = bench.ok("GET /api/dashboards", None).await;
    assert_eq!(list, json!({ "dashboards": [], "prometheus": Value::Null }));
}

#[tokio::test(start_paused = true)]
async fn dashboards_are_listed_and_served_as_they_are() {
    let bench = bench();
    let expected = json!({
        "dashboards": [{ "uid": "one", "title": "One" }],
        "prometheus": "http://prometheus:9090/prom",
    });
    assert_eq!(bench.ok("GET /api/dashboards", None).await, expected);
    let served = bench.ok("GET /api/dashboards/one", None).await;
    assert_eq!(served, serde_json::from_str::<Value>(DASHBOARD).unwrap());
    let (status, error) = bench.call("GET /api/dashboards/two", None, None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(error["error"]["code"], "unknown_dashboard");
}

#[test]
fn a_dashboard_says_what_it_is_called() {
    assert!(Dashboard::parse(DASHBOARD).is_ok());
    for wrong in ["", "[]", r#"{ "uid": "one" }"#] {
        assert!(Dashboard::parse(wrong).is_err(), "{wrong}");
    }
}
