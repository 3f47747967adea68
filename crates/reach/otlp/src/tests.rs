//! What is sent, what answers mean, and what happens when none comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::{Clock, Moment, SpanId, TraceContext};
use http::{HeaderMap, StatusCode, Uri};
use http_client::{HttpClient, HttpOptions, Pipe};
use parking_lot::Mutex;
use prost::Message as _;
use spans::{
    Attributes, Failure, Finished, FinishedTrace, SampleRatio, Span, SpanKind, Tracer, Value,
};
use telemetry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::message::{
    Any, ExportRequest, ExportResponse, Kind, PartialSuccess, StatusCode as Code,
};
use crate::protocol::Outcome;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn collector(protocol: Protocol) -> Collector {
    Collector::new(protocol, "http://collector:4317/", &[]).unwrap()
}

fn span(id: u64, parent: Option<u64>) -> Span {
    let mut attributes = Attributes::default();
    attributes
        .set("flag", true)
        .set("number", 0.5)
        .set("text", "t");
    attributes.set("texts", ["a".to_owned()].into_iter().collect::<Value>());
    Span {
        id: SpanId::new(id).unwrap(),
        parent: parent.and_then(SpanId::new),
        name: "name".into(),
        kind: SpanKind::Client,
        began: Moment::from_nanos(5),
        ended: Moment::from_nanos(9),
        attributes,
        failure: Some(Failure {
            kind: "lost",
            message: "gone".to_owned(),
            fault: id == 1,
        }),
    }
}

fn trace(left_out: u32) -> FinishedTrace {
    let sent: TraceContext = PARENT.parse().unwrap();
    FinishedTrace {
        context: sent.with_state([&b"a=1"[..]].into_iter()),
        remote_parent: true,
        spans: vec![span(1, Some(7)), span(2, Some(1))],
        left_out,
    }
}

#[tokio::test(start_paused = true)]
async fn spans_become_messages() {
    let clock = Clock::start();
    let resource = Resource {
        attributes: vec![("service.name".to_owned(), "homing".to_owned())],
        version: "1",
    };
    let message = resource.encode(vec![trace(3)], clock);
    let read = ExportRequest::decode(&message.encode_to_vec()[..]).unwrap();
    assert_eq!(read, message);
    let of_process = &message.resource_spans[0];
    let named = &of_process.resource.as_ref().unwrap().attributes[0];
    assert_eq!(named.key, "service.name");
    let [first, second] = &of_process.scope_spans[0].spans[..] else {
        panic!("two spans")
    };
    assert_eq!(first.trace_id.len(), 16);
    assert_eq!(first.trace_id, second.trace_id);
    assert_eq!(first.trace_state, "a=1");
    assert_eq!(first.parent_span_id, [0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(second.parent_span_id, first.span_id);
    assert_eq!((first.flags, second.flags), (0x301, 0x101));
    assert_eq!(first.kind(), Kind::Client);
    assert_eq!(first.end_time_unix_nano - first.start_time_unix_nano, 4);
    let status = first.status.as_ref().unwrap();
    assert_eq!(
        (status.code(), status.message.as_str()),
        (Code::Error, "gone")
    );
    assert_eq!(second.status, None, "a failure that is not the server's");
    let find = |name: &str| {
        let found = first.attributes.iter().find(|one| one.key == name);
        found.unwrap().value.clone().unwrap().value.unwrap()
    };
    assert_eq!(find("error.type"), Any::Text("lost".to_owned()));
    assert_eq!(find("homing.spans.left_out"), Any::Integer(3));
    assert_eq!(find("flag"), Any::Flag(true));
    assert_eq!(find("number"), Any::Number(0.5));
    assert!(matches!(find("texts"), Any::List(list) if list.values.len() == 1));
}

#[test]
fn each_protocol_has_its_path_and_its_head() {
    let batch = ExportRequest::default();
    for (protocol, path, kind, head) in [
        (
            Protocol::Grpc,
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            "application/grpc",
            5,
        ),
        (Protocol::Http, "/v1/traces", "application/x-protobuf", 0),
    ] {
        let collector = collector(protocol);
        let body = collector.body(&batch);
        assert_eq!(body.len(), head);
        let request = collector.request(body);
        assert_eq!(request.uri().path(), path);
        assert_eq!(request.uri().authority().unwrap(), "collector:4317");
        assert_eq!(request.headers()["content-type"], kind);
    }
    let below = Collector::new(Protocol::Http, "https://host/otlp", &[]).unwrap();
    let request = below.request(Bytes::new());
    assert_eq!(request.uri(), "https://host/otlp/v1/traces");
    let keyed = [("Authorization".to_owned(), "Basic abc".to_owned())];
    let keyed = Collector::new(Protocol::Http, "http://host:1", &keyed).unwrap();
    assert_eq!(
        keyed.request(Bytes::new()).headers()["authorization"],
        "Basic abc"
    );
    assert!(
        !format!("{keyed:?}").contains("abc"),
        "keys are not printed"
    );
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted { rejected, .. } => format!("accepted, {rejected} rejected"),
        Outcome::Again { after, .. } => format!("again {after:?}"),
        Outcome::Refused(_) => "refused".to_owned(),
    }
}

#[track_caller]
fn check(protocol: Protocol, status: u16, headers: &[(&'static str, &str)], expected: &str) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().unwrap());
    }
    let status = StatusCode::from_u16(status).unwrap();
    let outcome = collector(protocol).outcome(status, &map, b"");
    assert_eq!(word(&outcome), expected, "{status} {headers:?}");
}

#[test]
fn answers_say_what_became_of_a_batch() {
    use Protocol::{Grpc, Http};
    check(Http, 200, &[], "accepted, 0 rejected");
    check(Http, 400, &[], "refused");
    check(Http, 401, &[], "refused");
    check(Http, 404, &[], "refused");
    check(Http, 429, &[("retry-after", "7")], "again Some(7s)");
    check(
        Http,
        503,
        &[("retry-after", "999999999")],
        "again Some(60s)",
    );
    check(Http, 503, &[("retry-after", "tomorrow")], "again None");
    check(Http, 502, &[], "again None");
    check(Http, 500, &[], "refused");
    check(Grpc, 200, &[("grpc-status", "0")], "accepted, 0 rejected");
    check(Grpc, 200, &[("grpc-status", "14")], "again None");
    check(Grpc, 200, &[("grpc-status", "8")], "again None");
    check(Grpc, 200, &[("grpc-status", "16")], "refused");
    check(Grpc, 200, &[("grpc-status", "12")], "refused");
    check(Grpc, 200, &[("grpc-status", "many")], "again None");
    check(Grpc, 200, &[], "again None");
    check(Grpc, 503, &[], "again None");
    check(Grpc, 415, &[], "refused");
}

#[test]
fn a_collector_may_take_a_part() {
    let response = ExportResponse {
        partial_success: Some(PartialSuccess {
            rejected_spans: 2,
            error_message: "too old".to_owned(),
        }),
    };
    let outcome = collector(Protocol::Http).outcome(
        StatusCode::OK,
        &HeaderMap::new(),
        &response.encode_to_vec(),
    );
    let expected = Outcome::Accepted {
        rejected: 2,
        message: "too old".to_owned(),
    };
    assert_eq!(outcome, expected);
    let nonsense = collector(Protocol::Http).outcome(StatusCode::OK, &HeaderMap::new(), b"\xff");
    assert_eq!(word(&nonsense), "accepted, 0 rejected");
}

/// What a stand-in does with a connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Answers(&'static str),
    /// Reads and says nothing.
    Silent,
    HangsUp,
}

/// A collector over HTTP/1.1 on connections that are no sockets, each of which it treats in its own
/// manner; the last manner is kept.
#[derive(Clone, Debug)]
struct StandIn {
    manners: Arc<Mutex<VecDeque<Manner>>>,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    tasks: TaskTracker,
}

impl StandIn {
    fn new(manners: &[Manner]) -> Self {
        Self {
            manners: Arc::new(Mutex::new(manners.iter().copied().collect())),
            bodies: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    fn client(&self) -> HttpClient {
        let this = self.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let (near, far) = tokio::io::duplex(1 << 20);
            let manner = {
                let mut manners = this.manners.lock();
                match manners.len() {
                    1 => manners[0],
                    _ => manners.pop_front().unwrap(),
                }
            };
            let bodies = Arc::clone(&this.bodies);
            this.tasks.spawn(serve(far, manner, bodies));
            std::future::ready(Ok::<_, std::io::Error>(Pipe::new(near)))
        });
        HttpClient::over(connector, HttpOptions::default())
    }
}

async fn serve(mut stream: DuplexStream, manner: Manner, bodies: Arc<Mutex<Vec<Vec<u8>>>>) {
    let answer = match manner {
        Manner::HangsUp => return,
        Manner::Silent => {
            std::future::pending::<()>().await;
            return;
        }
        Manner::Answers(status) => status,
    };
    let mut read = Vec::new();
    while stream
        .read_buf(&mut read)
        .await
        .is_ok_and(|count| count > 0)
    {
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap_or("0");
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if read.len() < end + 4 + length {
            continue;
        }
        bodies.lock().push(read[end + 4..].to_vec());
        read.clear();
        let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct Rig {
    tracer: Tracer,
    registry: Registry,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Rig {
    fn new(standin: &StandIn) -> Self {
        let (clock, registry) = (Clock::start(), Registry::new());
        let (tracer, finished) = Tracer::new(SampleRatio::ALL, 7, clock, &registry);
        let rig = Self {
            tracer,
            registry: registry.clone(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        rig.export(standin, clock, finished);
        rig
    }

    fn export(&self, standin: &StandIn, clock: Clock, finished: Finished) {
        let metrics = ExporterMetrics::new(&self.registry);
        let resource = Resource::default();
        let exporter = Exporter::new(collector(Protocol::Http), resource, clock, metrics);
        let exporter = exporter.over(standin.client());
        self.tasks.spawn(exporter.run(finished, self.stop.clone()));
    }

    /// So many requests of two spans each.
    fn requests(&self, count: usize) {
        for _ in 0..count {
            let trace = self.tracer.begin(None, || "request".into());
            drop(trace.stage("route"));
            trace.end(|| None);
        }
    }

    fn count(&self, row: &str) -> u64 {
        let text = self.registry.render(Duration::ZERO);
        let found = text.lines().find(|line| line.starts_with(row));
        found.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    }

    async fn until(&self, row: &str, expected: u64) {
        for _ in 0..10_000 {
            if self.count(row) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{row} is {} and not {expected}", self.count(row));
    }

    async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

const EXPORTED: &str = "homing_trace_exported_spans_total";
const RETRIES: &str = "homing_trace_export_retries_total";
const FULL: &str = "homing_trace_dropped_spans_total{reason=\"queue_full\"}";
const FAILED: &str = "homing_trace_dropped_spans_total{reason=\"failed\"}";
const REJECTED: &str = "homing_trace_dropped_spans_total{reason=\"rejected\"}";

#[tokio::test(start_paused = true)]
async fn requests_that_end_together_are_sent_together() {
    let standin = StandIn::new(&[Manner::Answers("200 OK")]);
    let rig = Rig::new(&standin);
    rig.requests(10);
    rig.until(EXPORTED, 20).await;
    assert_eq!(standin.bodies.lock().len(), 1);
    rig.requests(600);
    rig.until(EXPORTED, 1220).await;
    assert_eq!(standin.bodies.lock().len(), 4, "256 requests fill a batch");
    let batch = ExportRequest::decode(&standin.bodies.lock()[0][..]).unwrap();
    assert_eq!(batch.resource_spans[0].scope_spans[0].spans.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_sent_again_where_that_may_help_and_not_where_it_cannot() {
    let standin = StandIn::new(&[Manner::HangsUp, Manner::Silent, Manner::Answers("200 OK")]);
    let rig = Rig::new(&standin);
    rig.requests(1);
    rig.until(EXPORTED, 2).await;
    assert_eq!(rig.count(RETRIES), 2);
    let standin = StandIn::new(&[Manner::Answers("503 Service Unavailable")]);
    let rig = Rig::new(&standin);
    rig.requests(1);
    rig.until(FAILED, 2).await;
    assert_eq!((rig.count(RETRIES), standin.bodies.lock().len()), (4, 5));
    let refusing = StandIn::new(&[Manner::Answers("400 Bad Request")]);
    let rig = Rig::new(&refusing);
    rig.requests(3);
    rig.until(REJECTED, 6).await;
    assert_eq!((rig.count(RETRIES), refusing.bodies.lock().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_costs_spans_and_no_request_waits() {
    for manner in [Manner::HangsUp, Manner::Silent] {
        let standin = StandIn::new(&[manner]);
        let rig = Rig::new(&standin);
        let began = tokio::time::Instant::now();
        for _ in 0..10 {
            rig.requests(1000);
            tokio::task::yield_now().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody waited");
        // One batch on its way, and a full queue.
        let kept = 20_000 - rig.count(FULL);
        assert!((2 * 2048..=2 * 2048 + 514).contains(&kept), "{kept}");
        rig.end().await;
        let lost = rig.count(FULL) + rig.count(FAILED);
        assert!(rig.count(EXPORTED) == 0 && lost <= 20_000);
        assert!(
            began.elapsed() <= Duration::from_secs(6),
            "it ends all the same"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_sent_at_the_end() {
    let standin = StandIn::new(&[Manner::Answers("200 OK")]);
    let rig = Rig::new(&standin);
    rig.requests(700);
    rig.end().await;
    assert_eq!(rig.count(EXPORTED), 1400);
}
