//! A console whose load generator is in another one, on a paused clock.

use std::time::Duration;

use contract::Access;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::LoadElsewhere;
use crate::Load;
use crate::tests::bench::{Bench, TOKEN, transport};

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

/// The console of a load generator, and another one before it.
struct Pair {
    there: Bench,
    here: Bench,
}

impl Pair {
    fn new(access: Access, token: Option<&str>) -> Self {
        let there = Bench::new(access, true);
        let transport = transport(there.console.service(), &there.tasks);
        let load = LoadElsewhere::new("http://loadgen:9000/", token, transport).unwrap();
        let here = Bench::with_load(Load::Elsewhere(load.clone()));
        here.tasks.spawn(load.poll(here.closing.clone()));
        Self { there, here }
    }
}

#[tokio::test(start_paused = true)]
async fn buttons_and_pages_work_as_if_it_were_here() {
    let pair = Pair::new(Access::Open, None);
    seconds(2).await;
    let state = pair.here.ok("GET /api/state", None).await;
    assert_eq!(
        state["load_at"],
        json!({ "kind": "elsewhere", "url": "http://loadgen:9000", "error": null })
    );
    assert_eq!(state["load"]["phase"], "stopped");
    let started = pair.here.ok("POST /api/load/start", None).await;
    assert_eq!(started["phase"], "running");
    let changed = json!({ "concurrency": 9, "starters": "unique" });
    let changed = pair
        .here
        .ok("PATCH /api/load/settings", Some(changed))
        .await;
    assert_eq!(changed["settings"]["concurrency"], 9);
    seconds(5).await;
    let both = [&pair.here, &pair.there].map(|bench| bench.ok("GET /api/state", None));
    let [here, there] = both;
    let (here, there) = (here.await, there.await);
    assert_eq!(here["load"]["conversations"]["active"], 9);
    assert_eq!(there["load"]["settings"]["starters"], "unique");
    let list = pair.here.ok("GET /api/conversations?limit=2", None).await;
    assert_eq!(list["conversations"].as_array().map(Vec::len), Some(2));
    let id = list["conversations"][0]["id"].as_str().unwrap();
    let one = pair
        .here
        .ok(&format!("GET /api/conversations/{id}"), None)
        .await;
    assert_eq!(one["id"], *id);
}

#[tokio::test(start_paused = true)]
async fn its_refusals_are_passed_on_with_the_field() {
    let pair = Pair::new(Access::Open, None);
    let change = Some(json!({ "concurrency": -1 }));
    let (status, answer) = pair
        .here
        .call("PATCH /api/load/settings", change, None)
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer["error"]["param"], "concurrency");
    let (status, _) = pair.here.call("POST /api/load/dance", None, None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = pair.here.call("POST /api/load/..%2Fx", None, None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = pair
        .here
        .call("GET /api/conversations/none", None, None)
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn it_is_shown_the_token_of_this_server_not_the_pages() {
    let access = Access::Token(TOKEN.to_owned());
    let pair = Pair::new(access.clone(), Some(TOKEN));
    let started = pair.here.ok("POST /api/load/start", None).await;
    assert_eq!(started["phase"], "running");
    let wrong = Pair::new(access, Some("another"));
    let (status, answer) = wrong.here.call("POST /api/load/start", None, None).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("--load-token-env"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_not_shown_as_it_was() {
    let silent = axum::Router::new().fallback(|| async { StatusCode::SERVICE_UNAVAILABLE });
    let bench = Bench::new(Access::Open, true);
    let load = LoadElsewhere::new("http://l", None, transport(silent, &bench.tasks)).unwrap();
    load.keep(Ok(bench.load.as_ref().unwrap().snapshot()));
    let here = Bench::with_load(Load::Elsewhere(load.clone()));
    let shown = here.ok("GET /api/state", None).await;
    assert_eq!(shown["load"]["phase"], "stopped");
    here.tasks.spawn(load.poll(here.closing.clone()));
    seconds(10).await;
    let shown = here.ok("GET /api/state", None).await;
    assert_eq!(shown["load"], Value::Null);
    let error = shown["load_at"]["error"].as_str().unwrap();
    assert!(error.contains("503"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn consoles_that_name_each_other_do_not_ask_in_circles() {
    let pair = Pair::new(Access::Open, None);
    let before = transport(pair.here.console.service(), &pair.here.tasks);
    let load = LoadElsewhere::new("http://here", None, before).unwrap();
    let front = Bench::with_load(Load::Elsewhere(load));
    for call in [
        "GET /api/conversations",
        "GET /api/conversations/one",
        "POST /api/load/start",
    ] {
        let (status, answer) = front.call(call, None, None).await;
        assert_eq!(status, StatusCode::LOOP_DETECTED, "{call}: {answer}");
    }
}

#[test]
fn addresses_are_checked() {
    let transport = || http_client::HttpClient::network(http_client::HttpOptions::default());
    for url in ["loadgen:9000", "ftp://x", "http://"] {
        assert!(LoadElsewhere::new(url, None, transport()).is_err(), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_cannot_keep_another_from_stopping_load() {
    let there = Bench::new(Access::Open, true);
    let silent = axum::routing::get(std::future::pending::<()>);
    let routes = axum::Router::new()
        .route("/api/conversations", silent)
        .fallback_service(there.console.service());
    let transport = transport(routes, &there.tasks);
    let load = LoadElsewhere::new("http://loadgen:9000/", None, transport).unwrap();
    let here = Bench::with_load(Load::Elsewhere(load));
    let reading = (0..100).map(|_| here.call("GET /api/conversations", None, None));
    let reading = futures_util::future::join_all(reading);
    let stopping = async {
        seconds(1).await;
        let asked = tokio::time::Instant::now();
        here.ok("POST /api/load/stop", None).await;
        asked.elapsed()
    };
    let (answers, stopped) = tokio::join!(reading, stopping);
    assert!(stopped < Duration::from_secs(1), "{stopped:?}");
    for (status, answer) in answers {
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{answer}");
    }
}
