//! The web console of a deployed system: in the frontend with its load generator elsewhere, and on
//! a load generator before a frontend.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{get, order};
use crate::system::{MODEL, Process, free_port, until_workers};

const TOKEN: &str = "of-the-booth";

/// Waits until the state that a page shows is as it should be, and returns it.
async fn shown(console: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    let mut latest = Value::Null;
    for _ in 0..1200 {
        let state = get(&format!("{console}/api/state")).await;
        latest = serde_json::from_str(&state).expect("JSON");
        if is_right(&latest) {
            return latest;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not shown: {latest:#}");
}

fn workers(state: &Value) -> usize {
    state["workers"].as_array().map_or(0, Vec::len)
}

fn answered(state: &Value) -> bool {
    state["load"]["totals"]["requests"].as_u64() > Some(5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frontends_console_drives_a_load_generator_elsewhere() {
    let [one, two] = [Process::worker(&[]), Process::worker(&[])];
    let list = format!("{},{}", one.address, two.address);
    // Both look for each other: the load generator needs a model, the console its address.
    let frontend = Process::frontend(&["--workers", &list]);
    until_workers(&frontend, 2).await;
    let loadgen = Process::loadgen(
        &frontend,
        TOKEN,
        &["--paused", "--concurrency", "2", "--max-tokens", "16"],
    );
    let mut console = Process::frontend_with(
        &[("HOMING_CONTROL_TOKEN", TOKEN), ("OF_LOAD", TOKEN)],
        &[
            "--workers",
            &list,
            "--console-port",
            "0",
            "--load",
            &loadgen.address,
            "--load-token-env",
            "OF_LOAD",
            "--baseline",
            "published",
            "--title",
            "A booth",
            "--part",
            "gateway=Envoy,in the same network",
        ],
    );
    let console = console.printed("console");

    let state = shown(&console, |state| {
        workers(state) == 2 && !state["load"].is_null()
    })
    .await;
    assert_eq!(state["title"], "A booth");
    assert_eq!(state["load"]["phase"], "stopped");
    assert_eq!(state["load_at"]["kind"], "elsewhere");
    assert_eq!(state["baseline"]["state"], "ready");
    assert_eq!(state["models"][0]["name"], MODEL);
    let kinds = state["parts"].as_array().expect("a list").iter();
    let kinds: Vec<&str> = kinds.filter_map(|part| part["kind"].as_str()).collect();
    assert_eq!(kinds, ["gateway", "discovery", "events", "requests"]);

    let start = format!("{console}/api/load/start");
    let (status, _) = order("POST", &start, "", &json!({})).await;
    assert_eq!(status, 401, "nobody starts load without the token");
    let (status, started) = order("POST", &start, TOKEN, &json!({})).await;
    assert_eq!((status, &started["phase"]), (200, &json!("running")));
    shown(&console, answered).await;
    let settings = format!("{console}/api/load/settings");
    let change = json!({ "concurrency": 3, "starters": "unique" });
    let (status, _) = order("PATCH", &settings, TOKEN, &change).await;
    assert_eq!(status, 200);
    shown(&loadgen.address, |state| {
        state["load"]["settings"]["concurrency"] == 3
    })
    .await;
    let list = get(&format!("{console}/api/conversations?limit=1")).await;
    assert!(list.contains("\"title\""), "{list}");

    let router = format!("{console}/api/router");
    let mode = json!({ "mode": "round-robin" });
    let (status, router) = order("PUT", &router, TOKEN, &mode).await;
    assert_eq!((status, &router["mode"]), (200, &json!("round-robin")));

    drop(loadgen);
    let state = shown(&console, |state| state["load"].is_null()).await;
    assert!(
        state["load_at"]["error"].is_string(),
        "{}",
        state["load_at"]
    );
    assert_eq!(workers(&state), 2, "the rest goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_generators_console_shows_what_its_target_tells() {
    let [one, two] = [Process::worker(&[]), Process::worker(&[])];
    let list = format!("{},{}", one.address, two.address);
    let options = ["--workers", &list, "--router-mode", "round-robin"];
    let frontend = Process::frontend(&options);
    until_workers(&frontend, 2).await;
    let loadgen = Process::loadgen(&frontend, "", &["--concurrency", "2", "--max-tokens", "16"]);
    let console = &loadgen.address;

    let state = shown(console, |state| workers(state) == 2 && answered(state)).await;
    assert_eq!(state["router"]["mode"], "round-robin");
    assert_eq!(state["load_at"]["kind"], "here");
    assert_eq!(state["models"][0]["workers"], 2);
    assert_eq!(state["simulated"], true);
    assert!(
        state["requests"]["in_flight"].is_u64(),
        "{}",
        state["requests"]
    );
    assert!(state["last_decision"]["number"].is_u64());
    let change = json!({ "mode": "kv" });
    let (status, _) = order("PUT", &format!("{console}/api/router"), "", &change).await;
    assert_eq!(status, 200);
    shown(console, |state| state["router"]["mode"] == "kv").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frontends_console_has_load_of_its_own() {
    let worker = Process::worker(&[]);
    let options = ["--workers", &worker.address, "--console-port", "0"];
    let load = ["--autostart", "--concurrency", "2", "--max-tokens", "16"];
    let mut frontend = Process::frontend(&[&options[..], &load].concat());
    let console = frontend.printed("console");
    let state = shown(&console, answered).await;
    assert_eq!(state["load_at"]["kind"], "here");
    assert_eq!(state["load"]["settings"]["max_tokens"], 16);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_waits_for_the_first_worker() {
    let port = free_port().to_string();
    let absent = format!("http://127.0.0.1:{port}");
    let options = ["--workers", &absent, "--console-port", "0"];
    let load = ["--autostart", "--concurrency", "2", "--max-tokens", "16"];
    let mut frontend = Process::frontend(&[&options[..], &load].concat());
    let console = frontend.printed("console");
    let waits = |state: &Value| state["load"]["phase"] == "waiting";
    let state = shown(&console, waits).await;
    assert_eq!(workers(&state), 0);
    let _worker = Process::worker(&["--port", &port]);
    let state = shown(&console, answered).await;
    assert_eq!(state["load"]["phase"], "running");
    assert_eq!(state["load"]["totals"]["failures"], 0);
}
