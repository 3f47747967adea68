//! Frontends that divide an engine, over real connections.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, FrontendId, FrontendLoad, Lease, LocalHash, ModelName, Processed, WorkerId};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use remote::peers::sharing::{EngineKey, EngineLoad, Share};
use remote::peers::{PeersConfig, REPORT_EVERY, SharedEngines, start};
use remote::tls::{Tls, TlsFiles};
use remote::wire::PeerReport;
use remote::wire::peers_server::{Peers, PeersServer};
use tasks::Tasks;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

const SLOTS: u32 = 64;
/// Far beyond any pause: what has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A router with one engine.
#[derive(Debug)]
struct Router {
    books: Mutex<Books>,
    processed: broadcast::Sender<Processed>,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            books: Mutex::default(),
            processed: broadcast::channel(16).0,
        }
    }
}

#[derive(Debug, Default)]
struct Books {
    load: FrontendLoad,
    lease: Lease,
    others: Vec<(FrontendId, FrontendLoad)>,
    /// What engines have processed for others.
    heard: Vec<Processed>,
}

impl SharedEngines for Router {
    fn loads(&self) -> Vec<EngineLoad> {
        let books = self.books.lock();
        vec![EngineLoad {
            engine: EngineKey {
                model: ModelName::new("m"),
                worker: WorkerId(1),
            },
            slots: SLOTS,
            load: FrontendLoad {
                lease: Some(books.lease.number),
                ..books.load
            },
        }]
    }

    fn apply(&self, share: Share) {
        let mut books = self.books.lock();
        books.lease = share.lease;
        books.others = share.others;
    }

    fn processed(&self) -> broadcast::Receiver<Processed> {
        self.processed.subscribe()
    }

    fn hear(&self, processed: &Processed) {
        self.books.lock().heard.push(processed.clone());
    }
}

/// A frontend; it ends when it is dropped.
struct Frontend {
    router: Arc<Router>,
    address: String,
    _stop: tokio_util::sync::DropGuard,
}

impl Frontend {
    async fn start(id: u64, names: &[&str], tls: Option<Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Self::on(listener, address, id, names, tls)
    }

    fn on(
        listener: TcpListener,
        address: String,
        id: u64,
        names: &[&str],
        tls: Option<Tls>,
    ) -> Self {
        let (router, tasks) = (Arc::new(Router::default()), Tasks::new());
        let config = PeersConfig {
            id: FrontendId(id),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            tls,
        };
        let engines = Arc::clone(&router) as Arc<dyn SharedEngines>;
        let registry = Registry::new();
        start(
            config,
            Some(listener),
            engines,
            (Clock::start(), &registry),
            &tasks,
        );
        Self {
            router,
            address,
            _stop: tasks.stop.drop_guard(),
        }
    }

    fn slots(&self) -> u32 {
        self.router.books.lock().lease.slots
    }

    fn heard(&self) -> Vec<Processed> {
        self.router.books.lock().heard.clone()
    }

    fn others(&self) -> Vec<u64> {
        let books = self.router.books.lock();
        books.others.iter().map(|(id, _)| id.0).collect()
    }

    fn has(&self, in_flight: u32, waiting: u32) {
        let mut books = self.router.books.lock();
        books.load.in_flight = in_flight;
        books.load.waiting = waiting;
    }
}

/// Waits on a level, not on an edge.
async fn until(what: &str, reached: impl Fn() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited too long until {what}");
}

#[tokio::test]
async fn it_is_enough_if_one_knows_the_other() {
    let first = Frontend::start(1, &[], None).await;
    until("it has all", || first.slots() == SLOTS).await;
    let second = Frontend::start(2, &[&first.address], None).await;
    until("both have half", || {
        (first.slots(), second.slots()) == (SLOTS / 2, SLOTS / 2)
    })
    .await;
    assert_eq!((first.others(), second.others()), (vec![2], vec![1]));
    first.has(30, 40);
    until("need is heard", || first.slots() > SLOTS / 2).await;
    assert!(first.slots() + second.slots() <= SLOTS);
}

#[tokio::test]
async fn what_an_engine_has_processed_is_told_once_to_each_of_the_others() {
    // Each knows the other's address, so that there is a connection in each direction.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let second = Frontend::start(2, &[&address], None).await;
    let first = Frontend::on(listener, address, 1, &[&second.address], None);
    until("they know each other", || {
        (first.others(), second.others()) == (vec![2], vec![1])
    })
    .await;
    until("each tells the other", || {
        [&first, &second]
            .iter()
            .all(|each| each.router.processed.receiver_count() > 0)
    })
    .await;
    tokio::time::sleep(4 * REPORT_EVERY).await;
    assert_eq!(first.router.processed.receiver_count(), 1);
    assert_eq!(second.router.processed.receiver_count(), 1);
    let processed = |blocks: &[u64]| Processed {
        model: ModelName::new("m"),
        worker: WorkerId(1),
        block_size: 32,
        blocks: blocks.iter().copied().map(LocalHash).collect(),
    };
    // A beginning is worth telling, and the end is not worth a message of any size.
    let long: Vec<u64> = (0..1_000_000).collect();
    let all = [
        processed(&[1, 2, 3]),
        processed(&long[..1 << 16]),
        processed(&[u64::MAX]),
    ];
    for one in [&all[0], &processed(&long), &all[2]] {
        second.router.processed.send(one.clone()).unwrap();
    }
    first.router.processed.send(processed(&[7])).unwrap();
    until("both have heard", || {
        first.heard().len() == 3 && second.heard().len() == 1
    })
    .await;
    assert_eq!(first.heard(), all);
    assert_eq!(second.heard(), [processed(&[7])]);
}

#[tokio::test]
async fn one_that_ends_is_forgotten_and_one_that_comes_again_is_found() {
    let first = Frontend::start(1, &[], None).await;
    let second = Frontend::start(2, &[&first.address], None).await;
    until("both have half", || {
        (first.slots(), second.slots()) == (SLOTS / 2, SLOTS / 2)
    })
    .await;
    let address = first.address.clone();
    drop(first);
    until("the other has all", || second.slots() == SLOTS).await;
    assert!(second.others().is_empty());
    let listener = TcpListener::bind(&address).await.unwrap();
    let again = Frontend::on(listener, address, 3, &[], None);
    until("both have half again", || {
        (again.slots(), second.slots()) == (SLOTS / 2, SLOTS / 2)
    })
    .await;
}

#[tokio::test]
async fn our_own_address_among_the_names_is_left_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let alone = Frontend::on(listener, address.clone(), 1, &[&address], None);
    until("it has all", || alone.slots() == SLOTS).await;
    assert!(alone.others().is_empty());
}

/// A server that takes reports and says nothing.
struct Mute;

#[tonic::async_trait]
impl Peers for Mute {
    type ExchangeStream = tokio_stream::Pending<Result<PeerReport, Status>>;

    async fn exchange(
        &self,
        _: Request<Streaming<PeerReport>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        Ok(Response::new(tokio_stream::pending()))
    }
}

#[tokio::test]
async fn one_that_says_nothing_keeps_nobody_from_serving() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mute = Server::builder()
        .add_service(PeersServer::new(Mute))
        .serve_with_incoming(TcpIncoming::from(listener));
    let alone = async {
        let alone = Frontend::start(1, &[&address], None).await;
        until("it has all", || alone.slots() == SLOTS).await;
    };
    tokio::select! {
        () = alone => {}
        ended = mute => panic!("the mute server ended: {ended:?}"),
    }
}

#[tokio::test]
async fn with_certificates_strangers_are_turned_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = TlsFiles {
        ca: write("ca.pem", authority.pem()),
        certificate: write("cert.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
    };
    let tls = Tls::read(&files).unwrap();
    let first = Frontend::start(1, &[], Some(tls.clone())).await;
    let second = Frontend::start(2, &[&first.address], Some(tls)).await;
    until("both have half", || {
        (first.slots(), second.slots()) == (SLOTS / 2, SLOTS / 2)
    })
    .await;
    let stranger = Frontend::start(3, &[&first.address], None).await;
    until("the stranger is alone", || stranger.slots() == SLOTS).await;
    assert_eq!(first.others(), [2]);
}
