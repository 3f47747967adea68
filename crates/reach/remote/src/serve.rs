//! The worker's side: a [`Member`] of this process, served to frontends on other machines.
//!
//! Three kinds of work, and each has a task: the pump takes what the engine tells and hands it
//! to the event plane; a session per frontend exchanges beats, leases and loads; the divider
//! divides the slots again a few times per second. Requests run on their calls and need no task:
//! a call asks the engine's stream when its connection has room, and a call that breaks off
//! drops the stream, which cancels the request.
//!
//! # Ends
//!
//! - **Drain.** Frontends are notified, nothing new is taken, running requests finish.
//! - **The engine stops.** Its feed ends, sessions end, and frontends look for others.
//! - **A frontend falls silent.** Its leases are free; its requests end with its connection.

mod session;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use contract::{Clock, FeedMessage, FrontendId, GenerateRequest, Lease};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use transport::{Delivery, Feed, Member, WorkerLink};

use self::session::Session;
use self::streams::{Answer, Packets, Parts};
use crate::events::{Outgoing, Publisher};
use crate::leases::Leases;
use crate::registration::Registration;
use crate::silence::{PING_EVERY, PING_TIMEOUT};
use crate::tls::Tls;
use crate::wire;
use crate::wire::worker_server::{Worker, WorkerServer};

/// Envelopes that a frontend on the direct plane may lag behind.
const PACKETS: usize = 4096;
/// How often slots are divided again and loads sent to all.
const DIVIDE_EVERY: Duration = Duration::from_millis(50);
/// So many of these pass before status and loads are said again although nothing has changed. Brokers
/// keep nothing, so a frontend that began to listen a moment too late hears them then.
const REPEAT_EVERY: u32 = 20;

/// How a worker is served.
#[derive(Debug)]
pub struct ServeConfig {
    pub registration: Registration,
    pub clock: Clock,
    /// Requests held at once, running or waiting; more are refused as overload.
    pub max_requests: usize,
    pub tls: Option<Tls>,
}

/// The session that counts of a frontend's.
#[derive(Debug)]
struct Latest {
    attempt: u64,
    lender: Arc<watch::Sender<Lease>>,
}

/// A worker that frontends on other machines can use.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ServeConfig,
    link: Arc<dyn WorkerLink>,
    leases: Mutex<Leases>,
    /// The lease of each frontend, to be sent by its session. Only the latest counts, so none can
    /// be lost on the way there.
    sessions: Mutex<BTreeMap<FrontendId, Latest>>,
    packets: broadcast::Sender<Bytes>,
    publisher: Publisher,
    /// What the engine said of itself last.
    status: Mutex<Option<FeedMessage>>,
    /// Number of the next batch of cache events.
    head: AtomicU64,
    requests: AtomicUsize,
    /// Rung when the last request has left.
    idle: Notify,
    draining: CancellationToken,
    ended: CancellationToken,
    tasks: TaskTracker,
}

impl Service {
    /// Starts to serve a member on `tasks`. Requests come in through [`Service::listen`].
    pub fn start(
        config: ServeConfig,
        member: Member,
        publisher: Publisher,
        tasks: &TaskTracker,
    ) -> Self {
        let (packets, _) = broadcast::channel(PACKETS);
        let shared = Arc::new(Shared {
            leases: Mutex::new(Leases::new(member.card.slots)),
            link: member.link,
            sessions: Mutex::default(),
            packets,
            publisher,
            status: Mutex::default(),
            head: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
            idle: Notify::new(),
            draining: CancellationToken::new(),
            ended: CancellationToken::new(),
            tasks: tasks.clone(),
            config,
        });
        tasks.spawn(pump(Arc::clone(&shared), member.feed));
        tasks.spawn(divide(Arc::clone(&shared)));
        Self { shared }
    }

    /// Serves a listener until the engine has stopped and its last answers are out.
    pub async fn listen(self, listener: TcpListener) -> Result<(), tonic::transport::Error> {
        let ended = self.shared.ended.clone();
        let mut server = Server::builder()
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_TIMEOUT));
        if let Some(tls) = &self.shared.config.tls {
            server = server.tls_config(tls.server())?;
        }
        // A token is a small packet: held back until the one before it is acknowledged, it would
        // come 40 ms late.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        server
            .add_service(WorkerServer::new(self))
            .serve_with_incoming_shutdown(incoming, async move {
                ended.cancelled().await;
            })
            .await
    }

    /// Tells every frontend to send nothing more.
    pub fn drain(&self) {
        self.shared.draining.cancel();
    }

    /// Requests being answered.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Frontends that use the worker.
    pub fn frontends(&self) -> usize {
        self.shared.sessions.lock().len()
    }
}

impl Shared {
    fn publish(&self, message: &FeedMessage, published: contract::Moment) {
        let worker = self.config.registration.card.id;
        let unix = self.config.clock.unix(published);
        let Some(envelope) = wire::encode_envelope(worker, message, unix) else {
            return;
        };
        let sequence = match message {
            FeedMessage::Kv(batch) => Some(batch.sequence),
            FeedMessage::Status(_)
            | FeedMessage::Head { .. }
            | FeedMessage::Loads(_)
            | FeedMessage::Lease(_)
            | FeedMessage::Draining => None,
        };
        // Fails only when nobody listens.
        let _ = self.packets.send(envelope.clone());
        self.publisher.publish(Outgoing { envelope, sequence });
        if let Some(sequence) = sequence {
            self.head.store(sequence + 1, Ordering::Release);
        }
    }

    /// Divides the slots again, and tells whose lease has changed.
    fn divide(&self) {
        // Both at once, so that no lease reaches a session that has taken another's place.
        let sessions = self.sessions.lock();
        let changed = self.leases.lock().divide();
        for (frontend, lease) in changed {
            if let Some(session) = sessions.get(&frontend) {
                session.lender.send_replace(lease);
            }
        }
    }
}

/// Hands on what the engine tells, until it stops.
async fn pump(shared: Arc<Shared>, mut feed: Feed) {
    while let Some(Delivery { message, published }) = feed.next().await {
        shared.publish(&message, published);
        if let FeedMessage::Status(_) = message {
            *shared.status.lock() = Some(message);
        }
    }
    // A session that ended before the last answer is out would be taken for a lost connection.
    while shared.requests.load(Ordering::Acquire) > 0 {
        shared.idle.notified().await;
    }
    shared.ended.cancel();
}

async fn divide(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(DIVIDE_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut told, mut ticked) = (Vec::new(), 0_u32);
    while shared
        .ended
        .run_until_cancelled(ticks.tick())
        .await
        .is_some()
    {
        shared.divide();
        ticked = ticked.wrapping_add(1);
        let repeat = ticked.is_multiple_of(REPEAT_EVERY);
        let now = shared.config.clock.now();
        let loads = shared.leases.lock().loads();
        if loads != told || repeat {
            shared.publish(&FeedMessage::Loads(loads.clone()), now);
            told = loads;
        }
        let status = shared.status.lock().clone().filter(|_| repeat);
        if let Some(status) = status {
            shared.publish(&status, now);
        }
    }
}

#[tonic::async_trait]
impl Worker for Service {
    type AttachStream = tokio_stream::wrappers::ReceiverStream<Result<wire::FromWorker, Status>>;
    type GenerateStream = Answer;
    type SnapshotStream = Parts;
    type EventsStream = Packets;

    async fn attach(
        &self,
        request: Request<Streaming<wire::FromFrontend>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        Session::open(&self.shared, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn generate(
        &self,
        request: Request<wire::GenerateRequest>,
    ) -> Result<Response<Answer>, Status> {
        let shared = &self.shared;
        let trace = wire::read_trace(request.metadata());
        let request = GenerateRequest {
            trace,
            ..wire::from_request(request.into_inner())?
        };
        let place = RequestSlot::take(shared).ok_or_else(|| {
            let most = shared.config.max_requests;
            Status::resource_exhausted(format!("{most} requests are here already"))
        })?;
        let stream = shared.link.generate(request).await;
        let stream = stream.map_err(|error| wire::to_grpc(&error))?;
        Ok(Response::new(Answer::new(stream, place)))
    }

    async fn snapshot(&self, _: Request<wire::SnapshotRequest>) -> Result<Response<Parts>, Status> {
        let snapshot = self.shared.link.snapshot().await;
        let snapshot = snapshot.map_err(|error| wire::to_grpc(&error))?;
        Ok(Response::new(Parts::new(snapshot)))
    }

    async fn reset_cache(
        &self,
        _: Request<wire::ResetCacheRequest>,
    ) -> Result<Response<wire::ResetCacheReply>, Status> {
        let reset = self.shared.link.reset_cache().await;
        reset.map_err(|error| wire::to_grpc(&error))?;
        Ok(Response::new(wire::ResetCacheReply {}))
    }

    async fn events(&self, _: Request<wire::EventsRequest>) -> Result<Response<Packets>, Status> {
        let packets = self.shared.packets.subscribe();
        let ended = self.shared.ended.clone();
        Ok(Response::new(Packets::new(packets, ended)))
    }
}

/// A request's place in the worker, given back on drop.
#[derive(Debug)]
struct RequestSlot {
    shared: Arc<Shared>,
}

impl RequestSlot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let most = shared.config.max_requests;
        let taken = shared
            .requests
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
                (count < most).then_some(count + 1)
            });
        taken.ok()?;
        Some(Self {
            shared: Arc::clone(shared),
        })
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        if self.shared.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.idle.notify_one();
        }
    }
}
