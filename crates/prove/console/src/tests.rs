//! The console as a page sees it, on a paused clock.

pub(crate) mod bench;

use std::time::Duration;

use contract::Access;
use futures_util::StreamExt as _;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use self::bench::{Bench, TOKEN};

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn before_load_the_state_shows_the_system() {
    let bench = Bench::open();
    let before = bench.ok("GET /api/state", None).await;
    assert_eq!(before["load"]["phase"], "stopped");
    assert_eq!(before["load"]["window"]["ttft_ms"]["p95"], Value::Null);
    assert_eq!(
        (&before["title"], &before["subtitle"]),
        (&json!("A title"), &json!("And more"))
    );
    assert_eq!(
        (&before["simulated"], &before["model"]),
        (&json!(true), &json!("m"))
    );
    assert_eq!(
        before["slos"],
        json!({ "ttft_p95_ms": 600.0, "tpot_p95_ms": 60.0 })
    );
    assert_eq!(
        before["control"],
        json!({ "token_required": false, "granted": true })
    );
    assert_eq!(
        (&before["at_ms"], &before["block_size"]),
        (&json!(1_000_000), &json!(32))
    );
    assert_eq!(before["gpu"], json!({ "kind": "process" }));
    assert_eq!(before["last_decision"]["number"], 1);
    let worker = &before["workers"][2];
    assert_eq!(worker["speculation"]["acceptance_pct"], Value::Null);
    assert_eq!(
        (&worker["name"], &worker["utilization"]),
        (&json!("worker-2"), &json!(0.5))
    );
    assert_eq!(
        (&worker["in_flight"], &worker["cache"]["hit_pct"]),
        (&json!(2), &json!(25.0))
    );
    assert_eq!(before["workers"][0]["cache"]["hit_pct"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn load_follows_the_buttons() {
    let bench = Bench::open();
    assert_eq!(
        bench.ok("POST /api/load/start", None).await["phase"],
        "running"
    );
    seconds(10).await;
    let load = bench.ok("GET /api/state", None).await["load"].take();
    assert_eq!(
        (&load["phase"], &load["conversations"]["active"]),
        (&json!("running"), &json!(4))
    );
    assert_eq!(load["window"]["ttft_ms"]["p95"], 300.0);
    assert_eq!(load["window"]["cached_pct"], 25.0);

    let change = json!({ "concurrency": 9, "max_tokens": 64 });
    let settings = bench.ok("PATCH /api/load/settings", Some(change)).await["settings"].take();
    assert_eq!(
        (&settings["concurrency"], &settings["max_tokens"]),
        (&json!(9), &json!(64))
    );
    assert_eq!(settings["turns"], json!({ "start": 3, "end": 3 }));
    seconds(2).await;
    let state = bench.ok("GET /api/state", None).await;
    assert_eq!(state["load"]["conversations"]["active"], 9);

    assert_eq!(
        bench.ok("POST /api/load/pause", None).await["phase"],
        "paused"
    );
    seconds(2).await;
    let requests = bench.ok("GET /api/state", None).await["load"]["totals"]["requests"].take();
    seconds(5).await;
    let state = bench.ok("GET /api/state", None).await;
    assert_eq!(
        state["load"]["totals"]["requests"], requests,
        "nothing is sent"
    );
    assert_eq!(
        bench.ok("POST /api/load/resume", None).await["phase"],
        "running"
    );
    bench.ok("POST /api/load/stop", None).await;
    bench.load.as_ref().unwrap().stopped().await;
    let load = bench.ok("GET /api/state", None).await["load"].take();
    assert_eq!(
        (&load["phase"], &load["conversations"]["active"]),
        (&json!("stopped"), &json!(0))
    );
}

#[tokio::test(start_paused = true)]
async fn conversations_are_listed_and_told() {
    let bench = Bench::open();
    bench.ok("POST /api/load/start", None).await;
    seconds(5).await;
    bench.ok("POST /api/load/drain", None).await;
    bench.load.as_ref().unwrap().stopped().await;
    let path = "GET /api/conversations?limit=2&status=completed&sort=oldest";
    let list = bench.ok(path, None).await;
    let lines = list["conversations"].as_array().unwrap();
    assert_eq!(lines.len(), 2);
    assert!(list["total"].as_u64() > Some(4), "{list}");
    assert_eq!(
        (&lines[0]["number"], &lines[0]["title"]),
        (&json!(0), &json!("Tides"))
    );
    assert_eq!(lines[0]["status"], "completed");
    let id = lines[0]["id"].as_str().unwrap();
    let told = bench
        .ok(&format!("GET /api/conversations/{id}"), None)
        .await;
    let turns = told["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    for turn in turns {
        assert_eq!(turn["assistant"], "Twice a day.");
        assert_eq!(turn["answered"]["worker"], "1");
        assert_eq!(turn["answered"]["ttft_ms"], 300.0);
    }
    let (status, error) = bench.call("GET /api/conversations/other", None, None).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("unknown_conversation"))
    );
    let (status, error) = bench
        .call("GET /api/conversations?sort=best", None, None)
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        error["error"]["message"].as_str().unwrap().contains("sort"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_router_is_switched() {
    let bench = Bench::open();
    let router = bench
        .ok("PUT /api/router", Some(json!({ "mode": "random" })))
        .await;
    assert_eq!(router["mode"], "random");
    assert_eq!(bench.ok("GET /api/state", None).await["router"], router);
    let wrong = Some(json!({ "mode": "best" }));
    let (status, error) = bench.call("PUT /api/router", wrong, None).await;
    assert_eq!(
        (status, &error["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("mode"))
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_changes_something_needs_the_token() {
    let bench = Bench::new(Access::Token(TOKEN.to_owned()), true);
    let settings = Some(json!({ "concurrency": 5 }));
    let mode = Some(json!({ "mode": "random" }));
    for (call, body) in [
        ("POST /api/load/start", None),
        ("POST /api/load/stop", None),
        ("PATCH /api/load/settings", settings),
        ("PUT /api/router", mode),
    ] {
        for token in [None, Some("other")] {
            let (status, error) = bench.call(call, body.clone(), token).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{call}");
            assert_eq!(error["error"]["code"], "control_token_required");
        }
        let (status, answer) = bench.call(call, body, Some(TOKEN)).await;
        assert_eq!(status, StatusCode::OK, "{call}: {answer}");
    }
    for (token, granted) in [(None, false), (Some(TOKEN), true)] {
        let (status, state) = bench.call("GET /api/state", None, token).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            state["control"],
            json!({ "token_required": true, "granted": granted })
        );
    }
}

#[tokio::test(start_paused = true)]
async fn where_clients_have_keys_a_decision_is_not_for_everybody() {
    let bench = Bench::with_keys();
    for (token, number) in [(None, Value::Null), (Some(TOKEN), json!(1))] {
        let (_, state) = bench.call("GET /api/state", None, token).await;
        assert_eq!(state["last_decision"]["number"], number);
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_is_told() {
    let bench = Bench::new(Access::Open, false);
    assert_eq!(bench.ok("GET /api/state", None).await["load"], Value::Null);
    for (call, status) in [
        ("POST /api/load/start", StatusCode::NOT_FOUND),
        ("GET /api/conversations", StatusCode::NOT_FOUND),
        ("GET /api/nothing", StatusCode::NOT_FOUND),
        ("GET /api/load/start", StatusCode::METHOD_NOT_ALLOWED),
        ("GET /api/stream", StatusCode::BAD_REQUEST),
    ] {
        let (answered, error) = bench.call(call, None, None).await;
        assert_eq!(answered, status, "{call}");
        assert!(error["error"]["message"].is_string(), "{error}");
    }
    let bench = Bench::open();
    let change = Some(json!({ "turns": { "start": 9, "end": 1 } }));
    let (status, error) = bench.call("PATCH /api/load/settings", change, None).await;
    assert_eq!(
        (status, &error["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("turns"))
    );
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_whether_anybody_looks_or_not() {
    let bench = Bench::open();
    bench.tasks.spawn(bench.console.clone().keep_history());
    bench.ok("POST /api/load/start", None).await;
    tokio::time::sleep(Duration::from_millis(20_500)).await;
    let history = bench.ok("GET /api/history", None).await;
    let points = history["points"].as_array().unwrap();
    assert_eq!(points.len(), 21);
    let last = points.last().unwrap();
    assert_eq!(last["at_ms"], 1_020_000);
    assert_eq!(
        (&last["mode"], &last["conversations"]),
        (&json!("kv"), &json!(4))
    );
    assert_eq!(last["ttft_ms_p95"], 300.0);
    assert_eq!(
        last["in_flight"][2],
        json!({ "worker": "2", "in_flight": 2 })
    );
    assert_eq!(points[0]["ttft_ms_p95"], Value::Null);
    bench.closing.cancel();
    seconds(10).await;
    let later = bench.ok("GET /api/history", None).await;
    assert_eq!(later, history, "it ends with the console");
}

#[tokio::test(start_paused = true)]
async fn a_baseline_comes_when_it_is_ready() {
    let bench = Bench::open();
    let missing = async |message: &str| {
        let (status, error) = bench.call("GET /api/baseline", None, None).await;
        let error = &error["error"];
        assert_eq!(
            (status, &error["code"]),
            (StatusCode::NOT_FOUND, &json!("no_baseline"))
        );
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(message), "{said}");
        bench.ok("GET /api/state", None).await["baseline"].take()
    };
    let board = &bench.console.inner.config.baseline;
    assert_eq!(missing("has no baseline").await, json!({ "state": "none" }));
    board.computing(3, 14);
    let computing = json!({ "state": "computing", "done": 3, "total": 14 });
    assert_eq!(missing("3 of 14").await, computing);
    board.failed("too few blocks");
    let failed = json!({ "state": "failed", "message": "too few blocks" });
    assert_eq!(missing("too few blocks").await, failed);
    let text = json!({
        "schema": 1, "run_id": "virtual-1", "created_ms": 5, "source": "a test", "simulated": true,
        "profile": "p", "workload": "w", "workers": 3, "seed": 7, "repeats": 1,
        "warmup_s": 60.0, "window_s": 300.0, "levels": [],
    });
    board.ready(loadgen::baseline::Baseline::parse(&text.to_string()).unwrap());
    assert_eq!(bench.ok("GET /api/baseline", None).await, text);
    let state = bench.ok("GET /api/state", None).await;
    assert_eq!(
        state["baseline"],
        json!({ "state": "ready", "run_id": "virtual-1" })
    );
}

/// A browser offers its token among the subprotocols.
#[tokio::test(start_paused = true)]
async fn a_page_shows_its_token_to_the_stream() {
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
    let bench = Bench::new(Access::Token(TOKEN.to_owned()), true);
    for (offered, granted) in [("homing", false), ("homing, token.secret", true)] {
        let mut request = "ws://console/api/stream".into_client_request().unwrap();
        let header = "sec-websocket-protocol";
        request
            .headers_mut()
            .insert(header, offered.parse().unwrap());
        let (mut viewer, answer) = client_async(request, bench.connect(1 << 16)).await.unwrap();
        assert_eq!(answer.headers()[header], "homing");
        assert_eq!(next(&mut viewer).await["control"]["granted"], granted);
    }
}

/// A viewer at the end of a pipe.
async fn view(bench: &Bench, bytes: usize) -> WebSocketStream<DuplexStream> {
    let pipe = bench.connect(bytes);
    client_async("ws://console/api/stream", pipe)
        .await
        .unwrap()
        .0
}

async fn next<S>(viewer: &mut WebSocketStream<S>) -> Value
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let message = viewer.next().await.unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_at_once_then_every_second_and_at_changes() {
    let bench = Bench::open();
    seconds(1).await;
    let mut viewer = view(&bench, 1 << 16).await;
    let first = next(&mut viewer).await;
    assert_eq!(first["load"]["phase"], "stopped");
    assert_eq!(first["workers"].as_array().unwrap().len(), 3);
    bench.ok("POST /api/load/start", None).await;
    let started = next(&mut viewer).await;
    assert_eq!(started["load"]["phase"], "running");
    let times = [next(&mut viewer).await, next(&mut viewer).await];
    let [one, two] = times.map(|state| state["load"]["at_s"].as_f64().unwrap());
    assert!((0.9..1.1).contains(&(two - one)), "{one} {two}");
    bench.closing.cancel();
    while let Some(Ok(message)) = viewer.next().await {
        assert!(matches!(message, Message::Text(_) | Message::Close(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn without_load_a_stream_keeps_time_itself() {
    let bench = Bench::new(Access::Open, false);
    let mut viewer = view(&bench, 1 << 16).await;
    for _ in 0..3 {
        let state = next(&mut viewer).await;
        assert_eq!(
            (&state["load"], &state["model"]),
            (&Value::Null, &json!("m"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_skips_to_the_newest() {
    let bench = Bench::open();
    // Less than a state: each has to be read before the next can leave.
    let mut viewer = view(&bench, 512).await;
    bench.ok("POST /api/load/start", None).await;
    seconds(60).await;
    let at = |state: &Value| state["load"]["at_s"].as_f64().unwrap();
    let stale = next(&mut viewer).await;
    assert!(at(&stale) < 2.0, "it was under way all the time");
    let newest = next(&mut viewer).await;
    assert!(at(&newest) >= 59.0, "and none between: {}", at(&newest));
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_left_frees_its_place() {
    let bench = Bench::open();
    let free = || bench.console.inner.streams.available_permits();
    let viewer = view(&bench, 1 << 16).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(free(), crate::MOST_STREAMS - 1);
    drop(viewer);
    seconds(2).await;
    assert_eq!(free(), crate::MOST_STREAMS);
}

/// Over a real socket, as a browser comes.
#[tokio::test]
async fn a_stream_works_over_a_socket() {
    let bench = Bench::open();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = bench.console.service();
    bench
        .tasks
        .spawn(async move { axum::serve(listener, service).await });
    let socket = TcpStream::connect(address).await.unwrap();
    let url = format!("ws://{address}/api/stream");
    let (mut viewer, _) = client_async(url, socket).await.unwrap();
    assert_eq!(next(&mut viewer).await["load"]["phase"], "stopped");
}
