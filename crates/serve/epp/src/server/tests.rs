//! The server over real sockets, and clients that do what an Envoy would, or should not.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use frontend::PickConfig;
use testkit::passing::{PassingFleet, address, passing_fleet};
use tokio::sync::mpsc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

use super::*;
use crate::wire::external_processor_client::ExternalProcessorClient;
use crate::wire::health::HealthCheckRequest;
use crate::wire::health::health_client::HealthClient;
use crate::wire::processing_request::Request as Sent;
use crate::wire::processing_response::Response as Got;
use crate::wire::{
    Field, Fields, HttpBody, HttpHeaders, HttpTrailers, ProcessingResponse, body_mutation,
};

const LONGEST_BODY: usize = 12 << 20;
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    fleet: PassingFleet,
    address: SocketAddr,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<Result<(), ServeError>>,
}

async fn running(identity: Option<Identity>) -> Running {
    running_with(identity, PickConfig::default()).await
}

async fn running_with(identity: Option<Identity>, config: PickConfig) -> Running {
    let fleet = passing_fleet(1000, LONGEST_BODY).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let service = Service {
        picker: fleet.frontend.picker(config),
        frontend: fleet.frontend.clone(),
        streams: TaskTracker::new(),
        stop: stop.clone(),
    };
    let streams = service.streams.clone();
    let served = streams.spawn(async move { serve(service, listener, identity.as_ref()).await });
    Running {
        fleet,
        address,
        stop,
        served,
    }
}

impl Running {
    async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        endpoint.unwrap().connect().await.unwrap()
    }

    async fn talk(&self, channel: &Channel) -> Talk {
        let (sender, receiver) = mpsc::channel(64);
        let mut client = ExternalProcessorClient::new(channel.clone());
        let replies = client.process(ReceiverStream::new(receiver)).await.unwrap();
        Talk {
            sender,
            replies: replies.into_inner(),
        }
    }

    /// Waits until nothing is held.
    async fn idle(&self) {
        let level = async {
            while self.fleet.frontend.in_flight() + self.fleet.router.in_flight() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, level).await.unwrap();
    }
}

/// One stream, from Envoy's side.
struct Talk {
    sender: mpsc::Sender<ProcessingRequest>,
    replies: Streaming<ProcessingResponse>,
}

impl Talk {
    async fn send(&self, request: Sent) {
        let message = ProcessingRequest {
            request: Some(request),
            ..ProcessingRequest::default()
        };
        self.sender.send(message).await.unwrap();
    }

    async fn next(&mut self) -> Result<Option<Got>, Status> {
        let reply = tokio::time::timeout(PATIENCE, self.replies.message()).await;
        let reply = reply.expect("a reply in time")?;
        Ok(reply.and_then(|reply| reply.response))
    }

    /// All replies to a request with this body: the endpoint, and the body that comes back.
    async fn picked(&mut self) -> (String, Vec<u8>) {
        let Some(Got::RequestHeaders(headers)) = self.next().await.unwrap() else {
            panic!("not an endpoint");
        };
        let mutation = headers.response.unwrap().header_mutation.unwrap();
        let endpoint = mutation.set_headers[0].header.clone().unwrap().raw_value;
        let mut body = Vec::new();
        loop {
            let Some(Got::RequestBody(part)) = self.next().await.unwrap() else {
                panic!("not a body");
            };
            let mutation = part.response.unwrap().body_mutation.unwrap().mutation;
            let Some(body_mutation::Mutation::StreamedResponse(part)) = mutation else {
                panic!("not a streamed body");
            };
            assert!(part.body.len() <= crate::wire::MOST_CHUNK);
            body.extend_from_slice(&part.body);
            if part.end_of_stream {
                return (String::from_utf8(endpoint.to_vec()).unwrap(), body);
            }
        }
    }
}

fn headers(fields: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let field = |(key, value): &(&str, &str)| Field {
        key: (*key).to_owned(),
        value: String::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    };
    HttpHeaders {
        headers: Some(Fields {
            headers: fields.iter().map(field).collect(),
        }),
        end_of_stream,
    }
}

fn post() -> Sent {
    let fields = [(":method", "POST"), (":path", "/v1/chat/completions")];
    Sent::RequestHeaders(headers(&fields, false))
}

fn body(bytes: Vec<u8>, end_of_stream: bool) -> HttpBody {
    HttpBody {
        body: bytes.into(),
        end_of_stream,
    }
}

fn ok() -> Sent {
    Sent::ResponseHeaders(headers(&[(":status", "200")], false))
}

fn chat(text: &str) -> Vec<u8> {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#).into_bytes()
}

#[tokio::test]
async fn a_body_of_ten_megabytes_comes_back_whole() {
    let running = running(None).await;
    let channel = running.channel().await;
    let mut talk = running.talk(&channel).await;
    talk.send(post()).await;
    let whole = chat(&"word ".repeat(2 << 20));
    assert!(whole.len() > 10 << 20);
    let sending = async {
        for part in whole.chunks(500_000) {
            talk.sender
                .send(ProcessingRequest {
                    request: Some(Sent::RequestBody(body(part.to_vec(), false))),
                    ..ProcessingRequest::default()
                })
                .await
                .unwrap();
        }
    };
    sending.await;
    talk.send(Sent::RequestBody(body(Vec::new(), true))).await;
    let (_, echoed) = talk.picked().await;
    assert!(echoed == whole, "{} of {} bytes", echoed.len(), whole.len());
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let running = running(None).await;
    let channel = running.channel().await;
    let mut talk = running.talk(&channel).await;
    talk.send(post()).await;
    // The server may hang up before all of it was sent.
    for _ in 0..20 {
        let message = ProcessingRequest {
            request: Some(Sent::RequestBody(body(vec![b' '; 1 << 20], false))),
            ..ProcessingRequest::default()
        };
        if talk.sender.send(message).await.is_err() {
            break;
        }
    }
    let Some(Got::ImmediateResponse(answer)) = talk.next().await.unwrap() else {
        panic!("not refused");
    };
    assert_eq!(answer.status.unwrap().code, 413);
    running.idle().await;
}

#[tokio::test]
async fn a_body_that_does_not_go_on_is_refused_and_its_place_is_free() {
    let config = PickConfig {
        read_timeout: Duration::from_millis(100),
        ..PickConfig::default()
    };
    let running = running_with(None, config).await;
    let channel = running.channel().await;
    // Before the first byte of the body, and after it.
    for begun in [false, true] {
        let mut talk = running.talk(&channel).await;
        talk.send(post()).await;
        if begun {
            talk.send(Sent::RequestBody(body(b"{".to_vec(), false)))
                .await;
        }
        let Some(Got::ImmediateResponse(answer)) = talk.next().await.unwrap() else {
            panic!("not refused");
        };
        assert_eq!(answer.status.unwrap().code, 408);
        assert_eq!(answer.details, "homing_request_timeout");
        let error = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(error.starts_with(r#"{"error":"#), "{error}");
        assert!(talk.next().await.unwrap().is_none());
        running.idle().await;
    }
}

#[tokio::test]
async fn a_hundred_streams_on_one_connection_are_answered_and_give_back() {
    let running = running(None).await;
    let channel = running.channel().await;
    // Six have a slot, the others wait for one.
    let streams = (0..100).map(|number| {
        let (running, channel) = (&running, &channel);
        async move {
            let mut talk = running.talk(channel).await;
            talk.send(post()).await;
            let asked = chat(&format!("number {number}"));
            talk.send(Sent::RequestBody(body(asked.clone(), true)))
                .await;
            let (endpoint, echoed) = talk.picked().await;
            assert_eq!(echoed, asked);
            talk.send(ok()).await;
            assert!(matches!(
                talk.next().await.unwrap(),
                Some(Got::ResponseHeaders(_))
            ));
            talk.send(Sent::ResponseBody(body(b"answer".to_vec(), true)))
                .await;
            assert!(matches!(
                talk.next().await.unwrap(),
                Some(Got::ResponseBody(_))
            ));
            endpoint
        }
    });
    let endpoints = futures_util::future::join_all(streams).await;
    for worker in 1..=3 {
        assert!(endpoints.contains(&address(worker).to_string()));
    }
    running.idle().await;
    let heard = running.fleet.heard.iter();
    let heard: usize = heard.map(|one| one.lock().len()).sum();
    assert_eq!(heard, 100 * b"answer".len());
}

#[tokio::test]
async fn whoever_goes_away_gives_its_place_back() {
    let running = running(None).await;
    let channel = running.channel().await;
    // In the midst of the body, after the pick, and in the midst of the answer.
    for steps in 0..3 {
        let mut talk = running.talk(&channel).await;
        talk.send(post()).await;
        talk.send(Sent::RequestBody(body(b"{".to_vec(), false)))
            .await;
        if steps > 0 {
            talk.send(Sent::RequestBody(body(b"}".to_vec(), true)))
                .await;
            talk.picked().await;
            assert_eq!(running.fleet.router.in_flight(), 1);
        }
        if steps > 1 {
            talk.send(ok()).await;
            talk.next().await.unwrap();
        }
        drop(talk);
        running.idle().await;
    }
    // One that waits for a slot.
    let mut holders = Vec::new();
    for _ in 0..6 {
        let mut talk = running.talk(&channel).await;
        talk.send(post()).await;
        talk.send(Sent::RequestBody(body(b"{}".to_vec(), true)))
            .await;
        talk.picked().await;
        holders.push(talk);
    }
    let waiting = running.talk(&channel).await;
    waiting.send(post()).await;
    waiting
        .send(Sent::RequestBody(body(b"{}".to_vec(), true)))
        .await;
    let level = async {
        while running.fleet.router.total_queued() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, level).await.unwrap();
    drop(waiting);
    let level = async {
        while running.fleet.router.total_queued() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, level).await.unwrap();
    drop(holders);
    running.idle().await;
}

#[tokio::test]
async fn trailers_end_a_request_and_nonsense_ends_a_stream() {
    let running = running(None).await;
    let channel = running.channel().await;
    let mut talk = running.talk(&channel).await;
    talk.send(post()).await;
    talk.send(Sent::RequestTrailers(HttpTrailers::default()))
        .await;
    assert!(matches!(
        talk.next().await.unwrap(),
        Some(Got::RequestHeaders(_))
    ));
    assert!(matches!(
        talk.next().await.unwrap(),
        Some(Got::RequestTrailers(_))
    ));
    let mut confused = running.talk(&channel).await;
    confused
        .send(Sent::ResponseBody(body(Vec::new(), true)))
        .await;
    let status = confused.next().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}

#[tokio::test]
async fn health_says_whether_there_is_an_endpoint_and_ends_with_the_service() {
    let running = running(None).await;
    let mut client = HealthClient::new(running.channel().await);
    let asked = |service: &str| {
        Request::new(HealthCheckRequest {
            service: service.to_owned(),
        })
    };
    for service in [
        "",
        "liveness",
        "readiness",
        "envoy.service.ext_proc.v3.ExternalProcessor",
    ] {
        let answer = client.check(asked(service)).await.unwrap();
        assert_eq!(answer.get_ref().status, 1, "{service}");
    }
    let unknown = client.check(asked("another")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let mut watch = client.watch(asked("")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
    for worker in 1..=3 {
        running.fleet.router.drain(contract::WorkerId(worker));
    }
    let told = tokio::time::timeout(PATIENCE, watch.message()).await;
    assert_eq!(told.unwrap().unwrap().unwrap().status, 2);
    drop((client, watch));
    running.stop.cancel();
    let served = tokio::time::timeout(PATIENCE, running.served).await;
    served.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_certificate_that_was_made_here_is_shown() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let running = running(Some(Identity::read(&certificate, &key).unwrap())).await;
    let trust = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(made.cert.pem()))
        .domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", running.address)).unwrap();
    let channel = endpoint.tls_config(trust).unwrap().connect().await.unwrap();
    let mut talk = running.talk(&channel).await;
    talk.send(post()).await;
    talk.send(Sent::RequestBody(body(b"{}".to_vec(), true)))
        .await;
    talk.picked().await;
    Identity::self_signed().unwrap();
}
