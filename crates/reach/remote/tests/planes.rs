//! A member served on one side and used on the other, over loopback.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

use std::sync::Arc;
use std::time::Duration;

use contract::{
    Abilities, BlockFormat, BlockHash, Clock, FeedMessage, FinishReason, FrontendId, FrontendLoad,
    GenerateRequest, GpuSpec, HashSeed, KvBatch, KvEvent, KvSnapshot, LinkError, LocalHash,
    ModelName, OutputLimits, RequestId, Sampling, StoredBlock, TokenChunk, TokenStream, WorkerCard,
    WorkerId, token_stream,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use remote::connect::{ConnectConfig, Connector};
use remote::discovery;
use remote::events::{Plane, Publisher, topic};
use remote::registration::{Expected, Registration};
use remote::serve::{ServeConfig, Service};
use remote::tls::{Tls, TlsFiles};
use remote::wire::Sender;
use tasks::Tasks;
use telemetry::Registry;
use tokio::net::TcpListener;
use transport::{Change, Changes, FeedPublisher, LinkFuture, Member, WorkerLink, feed, roster};

const WORKER: WorkerId = WorkerId(7);
const EPOCH: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers every request with the numbers up to its limit, and holds two blocks.
#[derive(Debug)]
struct Counting;

impl WorkerLink for Counting {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(async move {
            if request.prompt.len() > 100 {
                let detail = "too long".to_owned();
                let worker = WORKER;
                return Err(LinkError::TooLarge { worker, detail });
            }
            let (mut sender, stream) = token_stream(WORKER);
            let begin = request.answered.len() as u32;
            for token in begin..request.limits.max_tokens {
                let last = token + 1 == request.limits.max_tokens;
                sender.send(TokenChunk {
                    tokens: [token].into_iter().collect(),
                    finish: last.then_some(FinishReason::Length),
                    ..TokenChunk::default()
                });
            }
            Ok(stream)
        })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async {
            Ok(KvSnapshot {
                epoch: EPOCH,
                next_sequence: 9,
                blocks: vec![BlockHash(1), BlockHash(2)],
            })
        })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn request(prompt: usize, answered: &[u32]) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("r"),
        nonce: 0,
        trace: None,
        prompt: vec![1; prompt].into(),
        answered: answered.into(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: 5,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: Arc::default(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

fn card() -> WorkerCard {
    WorkerCard {
        id: WORKER,
        name: "seven".to_owned(),
        model: ModelName::new("m"),
        blocks: BlockFormat::new(32),
        total_blocks: 100,
        slots: 4,
        max_step_tokens: 100,
        max_context_tokens: 1000,
        gpu: GpuSpec {
            kind: "none".to_owned(),
            count: 0,
            memory_bytes: 0,
        },
        engine: "counting".to_owned(),
        simulated: true,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        forwards: Vec::new(),
        adapters: Vec::new(),
    }
}

/// Both sides, connected.
struct Pair {
    tasks: Tasks,
    clock: Clock,
    worker: Option<FeedPublisher>,
    address: String,
}

impl Pair {
    async fn serve(plane: Plane, tls: Option<Tls>) -> Self {
        let tasks = Tasks::new();
        let clock = Clock::start();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let port = listener.local_addr().unwrap().port();
        let address = format!("{scheme}://localhost:{port}");
        let sender = Sender {
            worker: WORKER,
            epoch: EPOCH,
        };
        let topic = topic("default", sender);
        let publisher = Publisher::open(&plane, &topic, &tasks).await.unwrap();
        let registration = Registration {
            cluster: "default".to_owned(),
            card: card(),
            epoch: EPOCH,
            address: address.clone(),
            events: publisher.address().clone(),
        };
        let (worker, feed) = feed(clock);
        let member = Member {
            card: card(),
            link: Arc::new(Counting),
            feed,
            warm: false,
            lease: None,
        };
        let config = ServeConfig {
            registration,
            clock,
            max_requests: 100,
            tls,
        };
        let service = Service::start(config, member, publisher, &tasks.tracker);
        tasks.spawn(service.listen(listener));
        Self {
            tasks,
            clock,
            worker: Some(worker),
            address,
        }
    }

    async fn connect(&self, model: &str, tls: Option<Tls>) -> (Changes, Registry) {
        let (roster, changes) = roster();
        let registry = Registry::new();
        let config = ConnectConfig {
            frontend: FrontendId(1),
            expected: Expected {
                cluster: "default".to_owned(),
                model: model.to_owned(),
                blocks: BlockFormat::new(32),
            },
            clock: self.clock,
            nats: None,
            tls,
        };
        let tasks = &self.tasks;
        let connector = Connector::new(config, roster, &registry, tasks)
            .await
            .unwrap();
        let addresses = discovery::list([self.address.clone()].into());
        discovery::follow(connector, addresses);
        (changes, registry)
    }

    fn publish(&self, sequence: u64) {
        let event = KvEvent::Stored {
            parent: None,
            blocks: vec![StoredBlock {
                hash: BlockHash(sequence),
                local: LocalHash(sequence),
            }],
        };
        let batch = KvBatch {
            worker: WORKER,
            epoch: EPOCH,
            sequence,
            events: vec![event],
        };
        let worker = self.worker.as_ref().unwrap();
        worker.publish(FeedMessage::Kv(batch));
    }
}

async fn joined(changes: &mut Changes) -> Member {
    let change = tokio::time::timeout(PATIENCE, changes.next()).await;
    match change.expect("a worker joins in time") {
        Some(Change::Joined(member)) => *member,
        other => panic!("{other:?}"),
    }
}

async fn tokens(member: &Member, request: GenerateRequest) -> Vec<u32> {
    let mut stream = member.link.generate(request).await.unwrap();
    let mut tokens = Vec::new();
    while let Some(chunk) = stream.next().await {
        tokens.extend(chunk.unwrap().tokens);
    }
    tokens
}

/// Everything that crosses the gap.
async fn works(pair: &mut Pair, changes: &mut Changes) {
    let mut member = joined(changes).await;
    assert_eq!(member.card, card());
    assert_eq!(member.lease.map(|lease| lease.slots), Some(4));
    assert_eq!(tokens(&member, request(3, &[])).await, [0, 1, 2, 3, 4]);
    assert_eq!(tokens(&member, request(3, &[0, 1, 2])).await, [3, 4]);
    let refused = member.link.generate(request(101, &[])).await.unwrap_err();
    let detail = "too long".to_owned();
    let worker = WORKER;
    assert_eq!(refused, LinkError::TooLarge { worker, detail });
    let snapshot = member.link.snapshot().await.unwrap();
    assert_eq!(snapshot, Counting.snapshot().await.unwrap());
    member.link.reset_cache().await.unwrap();

    // Events arrive in order, and what this frontend has comes back to it.
    member.link.tell_load(FrontendLoad {
        in_flight: 2,
        ..FrontendLoad::default()
    });
    let (mut sequences, mut heard) = (Vec::new(), false);
    let mut next = 0;
    while sequences.len() < 3 || !heard {
        if next < 3 {
            pair.publish(next);
            next += 1;
        }
        let delivery = tokio::time::timeout(PATIENCE, member.feed.next()).await;
        match delivery
            .expect("something is told")
            .expect("it lives")
            .message
        {
            FeedMessage::Kv(batch) => sequences.push(batch.sequence),
            FeedMessage::Loads(loads) => {
                heard |= loads
                    .iter()
                    .any(|(id, load)| id.0 == 1 && load.in_flight == 2);
            }
            FeedMessage::Status(_)
            | FeedMessage::Head { .. }
            | FeedMessage::Lease(_)
            | FeedMessage::Draining => {}
        }
    }
    assert_eq!(sequences, [0, 1, 2]);

    // The engine ends; so does the feed, and whoever still asks is told.
    pair.worker = None;
    while member.feed.next().await.is_some() {}
    let gone = member.link.generate(request(3, &[])).await.unwrap_err();
    assert!(matches!(gone, LinkError::Lost { .. }), "{gone}");
}

#[tokio::test]
async fn a_member_over_grpc_is_a_member() {
    let mut pair = Pair::serve(Plane::Grpc, None).await;
    let (mut changes, _) = pair.connect("m", None).await;
    works(&mut pair, &mut changes).await;
}

#[tokio::test]
async fn a_member_over_zeromq_is_a_member() {
    let host = || "127.0.0.1".to_owned();
    let plane = Plane::Zmq {
        bind: host(),
        advertise: host(),
        port: 0,
    };
    let mut pair = Pair::serve(plane, None).await;
    let (mut changes, _) = pair.connect("m", None).await;
    works(&mut pair, &mut changes).await;
}

/// An authority, and a certificate for `localhost` that it signed.
fn certificates(folder: &std::path::Path) -> Tls {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(authority, authority_key);
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = own.signed_by(&key, &issuer).unwrap();
    let files = TlsFiles {
        ca: folder.join("ca.pem"),
        certificate: folder.join("own.pem"),
        key: folder.join("own.key"),
    };
    std::fs::write(&files.ca, authority_pem).unwrap();
    std::fs::write(&files.certificate, signed.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    Tls::read(&files).unwrap()
}

#[tokio::test]
async fn with_certificates_both_sides_must_have_one_of_the_same_authority() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let ours = certificates(folders[0].path());
    let theirs = certificates(folders[1].path());
    let mut pair = Pair::serve(Plane::Grpc, Some(ours.clone())).await;
    let (mut strangers, _) = pair.connect("m", Some(theirs)).await;
    let (mut changes, _) = pair.connect("m", Some(ours)).await;
    works(&mut pair, &mut changes).await;
    let stranger = tokio::time::timeout(Duration::from_millis(10), strangers.next()).await;
    assert!(stranger.is_err(), "{stranger:?}");
}

#[tokio::test]
async fn who_serves_another_model_is_refused_and_counted() {
    let pair = Pair::serve(Plane::Grpc, None).await;
    let (mut changes, registry) = pair.connect("other", None).await;
    let counted = async {
        while !registry
            .render(Duration::ZERO)
            .contains("homing_net_refusals_total 1")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted)
        .await
        .expect("it is refused");
    let change = tokio::time::timeout(Duration::from_millis(10), changes.next()).await;
    assert!(change.is_err(), "{change:?}");
}
