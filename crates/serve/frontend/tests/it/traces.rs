//! The spans of whole requests: all of them, under the right parents, and none where none is asked
//! for.

use std::sync::Arc;
use std::time::Duration;

use contract::{
    GenerateRequest, KvSnapshot, TokenChunk, TokenStream, TraceContext, WorkerId, token_stream,
};
use engine::sim::Profile;
use frontend::{Call, PickConfig};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use spans::{FinishedTrace, SampleRatio, Span, SpanKind, Tracer, Value};
use telemetry::Registry;
use testkit::passing::{LONGEST_BODY, traced_fleet};
use testkit::{Cluster, Setup, bytes, user};
use transport::{Change, FeedPublisher, LinkFuture, Member, WorkerLink, feed};

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

async fn cluster(setup: Setup) -> Cluster {
    Cluster::start(Setup {
        mode: "kv",
        ..setup
    })
    .await
}

/// The spans of the request that has just ended.
async fn ended(cluster: &Cluster) -> FinishedTrace {
    let found = Mutex::new(None);
    cluster
        .until("its spans are complete", |cluster| {
            let mut found = found.lock();
            *found = found.take().or_else(|| cluster.next_trace());
            found.is_some()
        })
        .await;
    found.into_inner().unwrap()
}

/// Every span under its parent, in the order of their begin, and of their end where they begin at the
/// same moment: `name(part part)`.
fn tree(trace: &FinishedTrace) -> String {
    fn draw(span: &Span, all: &[Span]) -> String {
        let mut parts: Vec<&Span> = all
            .iter()
            .filter(|one| one.parent == Some(span.id))
            .collect();
        parts.sort_by_key(|part| part.began);
        let parts: Vec<String> = parts.into_iter().map(|part| draw(part, all)).collect();
        match parts.is_empty() {
            true => span.name.to_string(),
            false => format!("{}({})", span.name, parts.join(" ")),
        }
    }
    draw(&trace.spans[0], &trace.spans)
}

fn find<'a>(trace: &'a FinishedTrace, name: &str) -> &'a Span {
    let mut found = trace.spans.iter().filter(|span| span.name == name);
    found.next().unwrap_or_else(|| panic!("no {name}"))
}

fn integer(span: &Span, name: &str) -> i64 {
    match span.attributes.get(name) {
        Some(Value::Integer(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

fn text<'a>(span: &'a Span, name: &str) -> &'a str {
    match span.attributes.get(name) {
        Some(Value::Text(text)) => text,
        other => panic!("{name}: {other:?}"),
    }
}

fn kind(span: &Span) -> &'static str {
    span.failure.as_ref().map_or("", |failure| failure.kind)
}

#[tokio::test(start_paused = true)]
async fn a_request_has_a_span_for_each_stage_under_the_client_s_own() {
    let cluster = cluster(Setup {
        traced: Some(SampleRatio::NONE),
        ..Setup::default()
    })
    .await;
    for streaming in [true, false] {
        let chat = cluster
            .chat(&[user("where does the time go?")])
            .header("traceparent", SAMPLED)
            .header("x-request-id", "mine")
            .with("max_tokens", 20)
            .with("stream", streaming);
        let response = chat.send().await;
        assert_eq!(response.status(), StatusCode::OK);
        bytes(response).await;
        let trace = ended(&cluster).await;
        assert_eq!(
            tree(&trace),
            "POST /v1/chat/completions(admission read prepare route worker(dispatch first_token stream))"
        );
        let sent: TraceContext = SAMPLED.parse().unwrap();
        let [request, ..] = &trace.spans[..] else {
            unreachable!()
        };
        assert_eq!(trace.context.trace, sent.trace);
        assert_eq!(request.parent, Some(sent.span));
        assert_eq!((request.kind, kind(request)), (SpanKind::Server, ""));
        assert_eq!(integer(request, "http.response.status_code"), 200);
        assert_eq!(integer(request, "gen_ai.usage.output_tokens"), 20);
        assert!(integer(request, "gen_ai.usage.input_tokens") > 5);
        assert_eq!(text(request, "gen_ai.request.model"), cluster.model);
        assert_eq!(text(request, "gen_ai.operation.name"), "chat");
        assert_eq!(text(request, "homing.request.id"), "mine");
        let route = find(&trace, "route");
        assert_eq!(text(route, "homing.router.mode"), "kv");
        assert_eq!(integer(route, "homing.router.candidates"), 3);
        for name in ["homing.router.cost", "homing.router.cost.ttft_ms"] {
            assert!(route.attributes.get(name).is_some(), "{name}");
        }
        let worker = find(&trace, "worker");
        assert_eq!(worker.kind, SpanKind::Client);
        assert_eq!(
            worker.attributes.get("homing.worker.id"),
            route.attributes.get("homing.worker.id")
        );
        for span in &trace.spans {
            assert!(request.began <= span.began && span.began <= span.ended);
            assert_eq!(kind(span), "", "{}", span.name);
        }
        let stream = find(&trace, "stream");
        assert_eq!(integer(stream, "gen_ai.usage.output_tokens"), 20);
        assert!(stream.ended > stream.began, "twenty tokens take time");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_recorded_when_it_is_off_or_not_sampled() {
    for (traced, header) in [
        (None, Some(SAMPLED)),
        (Some(SampleRatio::NONE), None),
        (Some(SampleRatio::ALL), Some(UNSAMPLED)),
        // No context at all, so that the share decides.
        (
            Some(SampleRatio::NONE),
            Some("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ),
        (
            Some(SampleRatio::NONE),
            Some("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        ),
        (
            Some(SampleRatio::NONE),
            Some("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
        ),
    ] {
        let cluster = cluster(Setup {
            traced,
            ..Setup::default()
        })
        .await;
        let mut chat = cluster.chat(&[user("hello")]).with("max_tokens", 3);
        if let Some(header) = header {
            chat = chat.header("traceparent", header);
        }
        chat.answer().await;
        let free = |c: &Cluster| c.frontend.in_flight() == 0;
        cluster.until("it is over", free).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(cluster.next_trace(), None, "{traced:?} {header:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_of_absurd_length_costs_nothing_but_the_context() {
    let cluster = cluster(Setup {
        traced: Some(SampleRatio::ALL),
        ..Setup::default()
    })
    .await;
    let long = format!("{SAMPLED}{}", "-a".repeat(30_000));
    let chat = cluster.chat(&[user("hello")]).with("max_tokens", 3);
    chat.header("traceparent", &long).answer().await;
    let trace = ended(&cluster).await;
    assert_eq!(trace.spans[0].parent, None, "a trace of our own");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_a_slot_has_a_span_of_its_wait() {
    let cluster = cluster(Setup {
        workers: 1,
        traced: Some(SampleRatio::NONE),
        ..Setup::default()
    })
    .await;
    let mut running = Vec::new();
    for _ in 0..cluster.views()[0].card.slots {
        let long = cluster.chat(&[user("a long answer, please")]);
        let long = long.with("ignore_eos", true).with("max_tokens", 300);
        running.push(long.with("stream", true).send().await);
    }
    let late = cluster.chat(&[user("me too")]).with("max_tokens", 2);
    let late = late.header("traceparent", SAMPLED);
    let free_one = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.pop();
    };
    tokio::join!(late.answer(), free_one);
    let trace = ended(&cluster).await;
    assert!(tree(&trace).contains("route(queue)"), "{}", tree(&trace));
    let queue = find(&trace, "queue");
    assert!(queue.ended - queue.began >= Duration::from_secs(1));
    assert!(find(&trace, "route").ended >= queue.ended);
}

/// A worker that gives some tokens and dies.
#[derive(Debug)]
struct Mortal {
    id: WorkerId,
    tokens: u32,
    /// The contexts that it was asked with.
    asked: Arc<Mutex<Vec<TraceContext>>>,
}

impl WorkerLink for Mortal {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        self.asked.lock().extend(request.trace);
        let (mut sender, stream) = token_stream(self.id);
        for token in 0..self.tokens {
            sender.send(TokenChunk {
                tokens: [100 + token].into_iter().collect(),
                ..TokenChunk::default()
            });
        }
        Box::pin(async move { Ok(stream) })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async { Ok(KvSnapshot::default()) })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

async fn join(cluster: &Cluster, link: Mortal) -> FeedPublisher {
    let profile = Profile::named(engine::sim::DEFAULT_PROFILE).unwrap();
    let (publisher, feed) = feed(cluster.router.clock());
    let before = cluster.views().len();
    let member = Member {
        card: profile.card(link.id, "mortal"),
        link: Arc::new(link),
        feed,
        warm: false,
        lease: None,
    };
    let joined = Change::Joined(Box::new(member));
    cluster.roster.announce(joined).await;
    let is_in = |c: &Cluster| c.views().len() == before + 1;
    cluster.until("it has joined", is_in).await;
    publisher
}

#[tokio::test(start_paused = true)]
async fn each_move_to_another_worker_has_a_span_and_the_failure_is_said() {
    for (tokens, parts) in [
        (0, "dispatch first_token"),
        (3, "dispatch first_token stream"),
    ] {
        let cluster = Cluster::start(Setup {
            mode: "round-robin",
            workers: 1,
            traced: Some(SampleRatio::NONE),
            ..Setup::default()
        })
        .await;
        let asked = Arc::default();
        let mortal = Mortal {
            id: WorkerId(7),
            tokens,
            asked: Arc::clone(&asked),
        };
        let _feed = join(&cluster, mortal).await;
        let moved = loop {
            let chat = cluster.chat(&[user("go on")]).with("max_tokens", 9);
            chat.header("traceparent", SAMPLED).answer().await;
            let trace = ended(&cluster).await;
            if tree(&trace).contains("migration") {
                break trace;
            }
        };
        assert_eq!(
            tree(&moved),
            format!(
                "POST /v1/chat/completions(admission read prepare route worker({parts}) route \
                 migration worker(dispatch first_token stream))"
            )
        );
        let [request, ..] = &moved.spans[..] else {
            unreachable!()
        };
        assert_eq!(kind(request), "", "the client noticed nothing");
        let migration = find(&moved, "migration");
        assert_eq!(text(migration, "homing.migration.from"), "7");
        assert_eq!(text(migration, "homing.migration.to"), "0");
        assert_eq!(
            integer(migration, "homing.migration.answered_tokens"),
            i64::from(tokens)
        );
        let failed: Vec<&Span> = moved
            .spans
            .iter()
            .filter(|span| span.failure.is_some())
            .collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(&*failed[0].name, "worker");
        // What the worker was told names the span of this very exchange.
        let told = asked.lock().pop().unwrap();
        assert_eq!((told.trace, told.span), (moved.context.trace, failed[0].id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_said_whose_ever_it_is() {
    let cluster = cluster(Setup {
        workers: 0,
        traced: Some(SampleRatio::ALL),
        ..Setup::default()
    })
    .await;
    let refused = cluster.chat(&[user("anyone?")]).send().await;
    let status = i64::from(refused.status().as_u16());
    let trace = ended(&cluster).await;
    let failure = trace.spans[0].failure.clone().unwrap();
    assert_eq!((failure.kind, failure.fault), ("unavailable", true));
    assert_eq!(
        integer(&trace.spans[0], "http.response.status_code"),
        status
    );
    assert_eq!(kind(find(&trace, "route")), "no_worker");
    // A client's own mistake is said, and does not count as a failure of the server.
    let refused = cluster.chat(&[]).send().await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let trace = ended(&cluster).await;
    let failure = trace.spans[0].failure.clone().unwrap();
    assert_eq!((failure.kind, failure.fault), ("validation", false));
    assert_eq!(failure.message, "", "it may quote what a user wrote");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_leaves_what_was_recorded_until_then() {
    let cluster = cluster(Setup {
        traced: Some(SampleRatio::ALL),
        ..Setup::default()
    })
    .await;
    let chat = cluster.chat(&[user("a long answer")]).with("stream", true);
    let response = chat.with("max_tokens", 500).send().await;
    drop(response);
    let trace = ended(&cluster).await;
    assert_eq!(kind(&trace.spans[0]), "cancelled");
    assert!(tree(&trace).contains("worker(dispatch first_token stream)"));
}

#[tokio::test(start_paused = true)]
async fn several_answers_share_one_trace() {
    let cluster = cluster(Setup {
        traced: Some(SampleRatio::ALL),
        ..Setup::default()
    })
    .await;
    let chat = cluster.chat(&[user("twice")]).with("n", 2);
    bytes(chat.with("max_tokens", 4).send().await).await;
    let trace = ended(&cluster).await;
    let workers = trace.spans.iter().filter(|span| span.name == "worker");
    assert_eq!(workers.count(), 2);
    assert_eq!(integer(&trace.spans[0], "gen_ai.usage.output_tokens"), 8);
    assert_eq!(cluster.next_trace(), None);
}

fn call(parent: Option<&str>) -> Call {
    let mut headers = HeaderMap::new();
    if let Some(parent) = parent {
        headers.insert("traceparent", parent.parse().unwrap());
    }
    Call {
        method: http::Method::POST,
        path: "/v1/chat/completions".to_owned(),
        headers,
        subset: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_proxy_carries_is_traced_and_the_endpoint_is_told() {
    let registry = Registry::new();
    let clock = contract::Clock::start();
    let (tracer, mut finished) = Tracer::new(SampleRatio::NONE, 7, clock, &registry);
    let fleet = traced_fleet(10, LONGEST_BODY, tracer).await;
    let picker = fleet.frontend.picker(PickConfig {
        fallbacks: 2,
        ..PickConfig::default()
    });
    let body = br#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
    for (parent, moves) in [(Some(SAMPLED), false), (Some(SAMPLED), true), (None, false)] {
        let mut incoming = picker.open(call(parent)).unwrap();
        incoming.add(body).await.unwrap();
        let (mut pick, _held) = incoming.pick().await.unwrap();
        let asks = pick.asks();
        assert_eq!(
            asks.is_some(),
            parent.is_some(),
            "untouched if not recorded"
        );
        let served = pick.endpoints()[usize::from(moves)];
        pick.begins(StatusCode::OK, Some(served));
        pick.read(b"a token");
        pick.read(b"another");
        pick.completes();
        let Some(asks) = asks else {
            assert!(finished.try_recv().is_err());
            continue;
        };
        let trace = finished.try_recv().unwrap();
        let parts = "worker(first_token stream)";
        let expected = match moves {
            false => format!("admission prepare route {parts}"),
            true => format!("admission prepare route worker(first_token) migration {parts}"),
        };
        assert_eq!(
            tree(&trace),
            format!("POST /v1/chat/completions({expected})")
        );
        assert_eq!(asks.trace, trace.context.trace);
        assert_eq!(asks.span, find(&trace, "worker").id);
        assert_eq!(integer(&trace.spans[0], "http.response.status_code"), 200);
    }
}
