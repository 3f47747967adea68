//! The console of `homing demo`, as a page uses it: its own process and sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::loadgen::Demo;

/// A status and a body.
fn call(demo: &Demo, call: &str, body: &str, token: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&demo.console).unwrap();
    let request = format!(
        "{call} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        demo.console,
        body.len(),
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn json(demo: &Demo, line: &str, body: &str) -> Value {
    let (status, body) = call(demo, line, body, "secret");
    assert_eq!(status, 200, "{line}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Asks until the answer is as it should become.
fn until(demo: &Demo, line: &str, condition: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let answer = json(demo, line, "");
        if condition(&answer) {
            return answer;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("{line} did not become as it should");
}

#[test]
fn a_page_drives_load_at_the_demos_own_api() {
    let demo = Demo::start("--concurrency 3 --control-token secret");
    let state = json(&demo, "GET /api/state", "");
    assert_eq!(state["simulated"], true);
    assert_eq!(state["router"]["mode"], "kv");
    assert_eq!(state["workers"].as_array().unwrap().len(), 3);
    assert_eq!(state["load"]["phase"], "stopped");
    assert_eq!(state["load"]["settings"]["concurrency"], 3);
    assert_eq!(state["load"]["workload"]["starters"], 10);
    assert_eq!(call(&demo, "POST /api/load/start", "", "other").0, 401);

    let settings = r#"{ "max_tokens": 8, "starts_per_second": 0, "concurrency": 5 }"#;
    json(&demo, "PATCH /api/load/settings", settings);
    json(&demo, "POST /api/load/start", "");
    let line = "GET /api/conversations?status=completed&sort=turns";
    let list = until(&demo, line, |list| list["total"].as_u64() > Some(2));
    let id = list["conversations"][0]["id"].as_str().unwrap();
    let told = json(&demo, &format!("GET /api/conversations/{id}"), "");
    let turns = told["turns"].as_array().unwrap();
    assert!((3..=5).contains(&turns.len()), "{told}");
    for turn in turns {
        assert_eq!(turn["failed"], json!([]));
        assert!(turn["answered"]["worker"].is_string(), "{turn}");
    }
    let state = json(&demo, "GET /api/state", "");
    assert_eq!(state["load"]["conversations"]["active"], 5);
    assert_eq!(state["load"]["totals"]["failures"], 0);

    let router = json(&demo, "PUT /api/router", r#"{ "mode": "kv_blocks" }"#);
    assert_eq!(router["overlap_score_weight"], 1.0);
    let (status, error) = call(&demo, "PUT /api/router", r#"{ "mode": "best" }"#, "secret");
    assert!(
        status == 400 && error.contains(r#""param":"mode""#),
        "{error}"
    );
    let (_, metrics) = call(&demo, "GET /metrics", "", "");
    assert!(
        metrics.contains("loadgen_target_conversations 5\n"),
        "{metrics}"
    );
    let (_, page) = call(&demo, "GET /", "", "");
    let built = page.contains(r#"<div id="root">"#);
    assert!(built || page.contains("was not built"), "{page}");
    let (_, workers) = call(&demo, "GET /workers", "", "");
    assert!(workers.contains("worker-2"), "{workers}");

    json(&demo, "POST /api/load/stop", "");
    until(&demo, "GET /api/state", |state| {
        state["load"]["phase"] == "stopped" && state["requests"]["in_flight"] == 0
    });
}

#[test]
fn workers_can_be_added_up_to_a_limit() {
    let demo = Demo::start("--workers 1 --max-workers 2 --no-load --control-token secret");
    let (status, body) = call(&demo, "POST /workers", "", "secret");
    assert_eq!(status, 201, "{body}");
    let (status, body) = call(&demo, "POST /workers", "", "secret");
    assert_eq!(status, 409, "{body}");
    assert!(body.contains("--max-workers"), "{body}");
    assert_eq!(call(&demo, "DELETE /workers/1", "", "secret").0, 202);
    // One that is leaving counts until it has left.
    for _ in 0..600 {
        match call(&demo, "POST /workers", "", "secret").0 {
            201 => return,
            409 => sleep(Duration::from_millis(100)),
            status => panic!("{status}"),
        }
    }
    panic!("a worker that has left makes no room");
}

/// What the story's page does: other engines under running load, and no request is lost.
#[test]
fn workers_are_replaced_by_some_that_draft() {
    let demo = Demo::start("--concurrency 3 --control-token secret --max-tokens 64 --autostart");
    let state = until(&demo, "GET /api/state", |state| {
        state["load"]["totals"]["requests"].as_u64() > Some(2)
    });
    assert_eq!(state["load"]["totals"]["failures"], 0);
    let profiles = state["profiles"].as_array().unwrap();
    let eagle3 = json!("h200-llama-70b-fp8-eagle3");
    assert!(profiles.contains(&eagle3), "{profiles:?}");
    assert_eq!(state["workers"][0]["drafter"], "none");

    let change = json!({ "profile": eagle3 }).to_string();
    assert_eq!(call(&demo, "PUT /workers", &change, "other").0, 401);
    let (status, said) = call(&demo, "PUT /workers", r#"{ "profile": "none" }"#, "secret");
    assert!(
        status == 400 && said.contains("no profile `none`"),
        "{said}"
    );
    let new = json(&demo, "PUT /workers", &change);
    let new = new["workers"].as_array().unwrap().len();
    // Pressed twice: nothing is left to do.
    let again = json(&demo, "PUT /workers", &change);
    let ids = again["workers"].as_array().unwrap().iter();
    let ids: Vec<_> = ids.map(|worker| worker["id"].clone()).collect();
    assert_eq!(ids, ["3", "4", "5"]);
    let state = until(&demo, "GET /api/state", |state| {
        let workers = state["workers"].as_array().unwrap();
        let drafted = |worker: &Value| worker["speculation"]["accepted_tokens"].as_u64() > Some(0);
        workers.len() == new && workers.iter().any(drafted)
    });
    assert_eq!(new, 3);
    for worker in state["workers"].as_array().unwrap() {
        assert_eq!(
            (&worker["engine"], &worker["drafter"]),
            (&eagle3, &json!("eagle3"))
        );
    }
    assert_eq!(state["load"]["totals"]["failures"], 0);
    assert_eq!(
        state["model"], "Llama-3.1-70B-Instruct-FP8",
        "as clients know it"
    );
    // Back to what ran at first, which no shipped profile has to be.
    let first = json!({ "profile": state["profiles"][0] }).to_string();
    assert_eq!(call(&demo, "PUT /workers", &first, "secret").0, 200);
}
