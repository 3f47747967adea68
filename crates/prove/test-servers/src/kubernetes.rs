//! A stand-in for the API server: any resource, listed and watched, in the public format.
//!
//! It has a runtime of its own, so that stopping it closes every connection as the end of a
//! process would.

#![expect(clippy::unwrap_used, reason = "it serves tests, which may panic")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use axum::{Json, Router};
use futures_util::stream;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};
use tokio_rustls::server::TlsStream;

/// The server. Dropped, it stops.
#[derive(Debug)]
pub struct StandIn {
    runtime: Option<Runtime>,
    address: SocketAddr,
    tls: Option<Tls>,
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

#[derive(Debug)]
struct Shared {
    store: Mutex<Store>,
    changed: watch::Sender<()>,
    token: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Store {
    version: u64,
    /// By plural and name.
    objects: BTreeMap<(String, String), Value>,
    /// What watches say, and since which version. `None` ends them.
    log: Vec<(u64, Option<Value>)>,
    asked: Vec<String>,
    forbidden: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    #[serde(default)]
    label_selector: String,
    #[serde(default)]
    watch: bool,
    resource_version: Option<u64>,
}

impl StandIn {
    pub fn start() -> Self {
        Self::open(None, None)
    }

    /// With a certificate for loopback. Returns the authority's too.
    pub fn start_with_tls(token: &'static str) -> (Self, String) {
        let (acceptor, authority) = acceptor();
        (Self::open(Some(Tls(acceptor)), Some(token)), authority)
    }

    fn open(tls: Option<Tls>, token: Option<&'static str>) -> Self {
        let mut server = Self {
            runtime: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            tls,
            shared: Arc::new(Shared {
                store: Mutex::default(),
                changed: watch::Sender::default(),
                token,
            }),
        };
        server.resume();
        server
    }

    /// Listens, where it did before.
    pub fn resume(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let listener = listen(self.address);
        self.address = listener.local_addr().unwrap();
        let path = "/apis/{group}/{version}/namespaces/{namespace}/{plural}";
        let core = "/api/{version}/namespaces/{namespace}/{plural}";
        let routes = Router::new()
            .route(path, get(answer))
            .route(core, get(answer))
            .with_state(Arc::clone(&self.shared));
        match self.tls.clone() {
            None => runtime.spawn(async { axum::serve(listener, routes).await }),
            Some(Tls(acceptor)) => {
                let listener = Secured { listener, acceptor };
                runtime.spawn(async { axum::serve(listener, routes).await })
            }
        };
        self.runtime = Some(runtime);
    }

    /// Closes everything.
    pub async fn stop(&mut self) {
        let runtime = self.runtime.take();
        // A runtime waits for its threads when it is dropped.
        let stopped = tokio::task::spawn_blocking(move || drop(runtime));
        stopped.await.unwrap();
    }

    /// Closes the next connection, as a server that is not up yet.
    pub async fn turn_away(&self) {
        let _ = listen(self.address).accept().await;
    }

    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Stores an object, which says its `apiVersion` and `kind`.
    pub fn put(&self, object: Value) {
        let mut store = self.shared.store.lock();
        let known = store.objects.contains_key(&key(&object));
        let object = store.put(object);
        store.say(if known { "MODIFIED" } else { "ADDED" }, object);
        self.shared.changed.send_replace(());
    }

    /// Changes something without telling those who watch.
    pub fn put_unseen(&self, object: Value) {
        self.shared.store.lock().put(object);
    }

    /// Forgets the object of this plural and name.
    pub fn delete(&self, plural: &str, name: &str) {
        let mut store = self.shared.store.lock();
        store.version += 1;
        let key = (plural.to_owned(), name.to_owned());
        let mut object = store.objects.remove(&key).unwrap();
        object["metadata"]["resourceVersion"] = json!(store.version.to_string());
        store.say("DELETED", object);
        self.shared.changed.send_replace(());
    }

    /// Says a version and nothing else to those who watch EndpointSlices.
    pub fn bookmark(&self) {
        let mut store = self.shared.store.lock();
        store.version += 1;
        let version = store.version.to_string();
        let mark = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": { "resourceVersion": version, "creationTimestamp": null }
        });
        store.say("BOOKMARK", mark);
        self.shared.changed.send_replace(());
    }

    /// Ends watches as the server does when their time is up.
    pub fn end_watches(&self) {
        let mut store = self.shared.store.lock();
        store.version += 1;
        let version = store.version;
        store.log.push((version, None));
        self.shared.changed.send_replace(());
    }

    /// Ends watches as the server does when they are too far behind.
    pub fn expire(&self) {
        let mut store = self.shared.store.lock();
        store.version += 1;
        let version = store.version;
        let message = format!("too old resource version: 1 ({version})");
        store.say("ERROR", status(410, "Expired", &message));
        store.log.push((version, None));
        self.shared.changed.send_replace(());
    }

    pub fn forbid(&self, forbidden: bool) {
        self.shared.store.lock().forbidden = forbidden;
    }

    /// What was asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.shared.store.lock().asked.clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store {
    fn put(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(key(&object), object.clone());
        object
    }

    fn say(&mut self, kind: &str, object: Value) {
        let event = json!({ "type": kind, "object": object });
        self.log.push((self.version, Some(event)));
    }
}

fn key(object: &Value) -> (String, String) {
    let name = object["metadata"]["name"].as_str().unwrap();
    (plural(object), name.to_owned())
}

/// Enough of English for the resources in question.
fn plural(object: &Value) -> String {
    format!("{}s", object["kind"].as_str().unwrap().to_lowercase())
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code
    })
}

fn refusal(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = status(code.as_u16(), reason, message);
    (code, Json(status)).into_response()
}

#[derive(Deserialize)]
struct ResourcePath {
    /// Without one, of the oldest kinds.
    #[serde(default)]
    group: String,
    version: String,
    namespace: String,
    plural: String,
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Path(place): Path<ResourcePath>,
    Query(question): Query<Question>,
    headers: HeaderMap,
) -> Response {
    let credentials = headers.get(header::AUTHORIZATION);
    let expected = shared.token.map(|token| format!("Bearer {token}"));
    if credentials.map(|value| value.to_str().unwrap()) != expected.as_deref() {
        return refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
    }
    let wanted = Wanted {
        plural: place.plural,
        labels: question.label_selector,
    };
    let mut store = shared.store.lock();
    let about = format!("{} {} {}", place.namespace, wanted.plural, wanted.labels);
    let version = question.resource_version;
    store.asked.push(match (question.watch, version) {
        (false, _) => format!("list {about}"),
        (true, version) => format!("watch {about} from {}", version.unwrap()),
    });
    if store.forbidden {
        let message = format!(
            "{}.{} is forbidden: the account may not list them",
            wanted.plural, place.group
        );
        return refusal(StatusCode::FORBIDDEN, "Forbidden", &message);
    }
    if question.watch {
        drop(store);
        let events = events(Arc::clone(&shared), wanted, version.unwrap());
        return ([(header::CONTENT_TYPE, "application/json")], events).into_response();
    }
    let objects = store.objects.values().filter(|object| wanted.has(object));
    Json(json!({
        "kind": "List",
        "apiVersion": format!("{}/{}", place.group, place.version),
        "metadata": { "resourceVersion": store.version.to_string() },
        "items": objects.collect::<Vec<_>>()
    }))
    .into_response()
}

/// What a question is about.
#[derive(Clone)]
struct Wanted {
    plural: String,
    labels: String,
}

impl Wanted {
    fn has(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let mut asked = self
            .labels
            .split(',')
            .filter_map(|label| label.split_once('='));
        plural(object) == self.plural && asked.all(|(label, value)| labels[label] == value)
    }

    /// Whether a watch shows an event: one about the server itself goes to everybody.
    fn shows(&self, event: &Value) -> bool {
        let object = &event["object"];
        match event["type"].as_str().unwrap() {
            "ERROR" => true,
            "BOOKMARK" => plural(object) == self.plural,
            _ => self.has(object),
        }
    }
}

/// One event a line, beginning after a version.
fn events(shared: Arc<Shared>, wanted: Wanted, version: u64) -> Body {
    let changed = shared.changed.subscribe();
    let begin = {
        let store = shared.store.lock();
        store.log.partition_point(|(since, _)| *since <= version)
    };
    let lines = stream::unfold((begin, changed), move |(mut at, mut changed)| {
        let (shared, wanted) = (Arc::clone(&shared), wanted.clone());
        async move {
            loop {
                let next = shared.store.lock().log.get(at).cloned();
                match next {
                    Some((_, None)) => return None,
                    Some((_, Some(event))) => {
                        at += 1;
                        if wanted.shows(&event) {
                            let line = Ok::<_, Infallible>(format!("{event}\n"));
                            return Some((line, (at, changed)));
                        }
                    }
                    None => changed.changed().await.ok()?,
                }
            }
        }
    });
    Body::from_stream(lines)
}

/// May listen again at once where it was listened before.
fn listen(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket.listen(16).unwrap()
}

fn acceptor() -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), authority.pem())
}

struct Secured {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
