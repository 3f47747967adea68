//! The frontend's side: attaches to a worker by its address, and stays attached.
//!
//! One task keeps one address. It attaches, announces the worker to the roster, and listens;
//! when the worker falls silent or the connection breaks, its feed ends, its streams end with
//! errors, and the task tries again, as long as discovery lists the address.
//!
//! ```text
//! address ──► connect ──► hello / welcome ──► listen to events ──► announce ──► beats …
//!    ▲                                                                          │
//!    └────────────── pause ◄── feed ends, streams end ◄── silence, end, error ◄─┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::nats::Nats;
use contract::{Clock, FeedMessage, FrontendId, FrontendLoad, Lease, error_chain};
use tasks::{Backoff, Tasks};
use telemetry::Registry;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use tracing::{debug, info, warn};
use transport::{Change, FeedPublisher, Member, Roster, feed};

use crate::events::{EventError, EventReceiver, nats, topic, zmq};
use crate::link::GrpcLink;
use crate::metrics::NetMetrics;
use crate::registration::{EventAddress, Expected, Registration};
use crate::silence::{PING_EVERY, PING_TIMEOUT, Silence, beats};
use crate::tls::Tls;
use crate::wire::worker_client::WorkerClient;
use crate::wire::{self, Sender, from_frontend, from_worker};

/// Why a session ended in good order.
const CLOSED: &str = "it closed";
/// A worker that says nothing for so long is gone.
pub const SILENCE: Duration = Duration::from_secs(1);
/// When the worker says that it has published a batch, it should be here after this.
const HEAD_DELAY: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Answers are many small frames, and h2 ends a connection when too many of them lie unread,
/// by half of this and some 230 bytes a frame: here after 280,000, which is half a minute of
/// 10,000 tokens per second, should this process stand still for so long. Memory stays bounded
/// by what the requests asked for.
const CONNECTION_WINDOW: u32 = 128 << 20;
/// Messages to the worker that may wait.
const QUEUE: usize = 16;

/// What all connections of a frontend share.
#[derive(Clone, Debug)]
pub struct Connector {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    frontend: FrontendId,
    expected: Expected,
    clock: Clock,
    roster: Roster,
    nats: Option<Nats>,
    tls: Option<Tls>,
    metrics: NetMetrics,
    /// To attach, to any worker.
    attempts: AtomicU64,
    tasks: Tasks,
}

/// How a frontend reaches its workers.
#[derive(Debug)]
pub struct ConnectConfig {
    pub frontend: FrontendId,
    pub expected: Expected,
    pub clock: Clock,
    /// Where NATS is, for workers that publish there.
    pub nats: Option<String>,
    pub tls: Option<Tls>,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum AttachError {
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Events(#[from] EventError),
}

impl Connector {
    pub async fn new(
        config: ConnectConfig,
        roster: Roster,
        registry: &Registry,
        tasks: &Tasks,
    ) -> Result<Self, EventError> {
        let nats = match &config.nats {
            Some(url) => Some(Nats::connect(url).await?),
            None => None,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                frontend: config.frontend,
                expected: config.expected,
                clock: config.clock,
                roster,
                nats,
                tls: config.tls,
                metrics: NetMetrics::new(registry),
                attempts: AtomicU64::new(0),
                tasks: tasks.clone(),
            }),
        })
    }

    /// Keeps a worker attached for as long as `listed` is true, and beyond that until the
    /// connection ends by itself: what discovery has forgotten may still serve.
    pub fn keep(&self, address: String, listed: watch::Receiver<bool>) {
        let keeper = ConnectionTask {
            inner: Arc::clone(&self.inner),
            address,
            listed,
            complained: None,
        };
        self.inner.tasks.spawn_until_stop(keeper.run());
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.inner.tasks
    }
}

/// An open connection to a worker.
struct Wires {
    client: WorkerClient<Channel>,
    inbound: Streaming<wire::FromWorker>,
    to_worker: mpsc::Sender<wire::FromFrontend>,
}

struct ConnectionTask {
    inner: Arc<Inner>,
    address: String,
    listed: watch::Receiver<bool>,
    /// What was last logged, so that the same is not logged every second.
    complained: Option<String>,
}

impl ConnectionTask {
    async fn run(mut self) {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        while *self.listed.borrow() {
            match self.attach().await {
                Ok(session) => {
                    backoff.reset();
                    self.complained = None;
                    session.stay().await;
                }
                Err(error) => self.complain(&error),
            }
            tokio::select! {
                () = backoff.wait() => {}
                changed = self.listed.wait_for(|listed| !listed) => if changed.is_err() { return },
            }
        }
    }

    fn complain(&mut self, error: &AttachError) {
        if matches!(error, AttachError::Refused(_)) {
            self.inner.metrics.refusals.inc();
        }
        let text = error.to_string();
        if self.complained.as_ref() != Some(&text) {
            warn!(
                address = self.address,
                error = text,
                "cannot use this worker"
            );
            self.complained = Some(text);
        }
    }

    async fn attach(&self) -> Result<Session, AttachError> {
        let inner = &self.inner;
        let mut client = WorkerClient::new(self.channel().await?);
        let (to_worker, outbound) = mpsc::channel(QUEUE);
        let hello = wire::Hello {
            frontend: inner.frontend.0,
            cluster: inner.expected.cluster.clone(),
            model: inner.expected.model.clone(),
            block_size: inner.expected.blocks.size,
            hash_version: inner.expected.blocks.hashing.version,
            hash_lookahead: inner.expected.blocks.hashing.lookahead,
            attempt: inner.attempts.fetch_add(1, Ordering::Relaxed),
        };
        // The queue is empty, so this cannot fail.
        let _ = to_worker.try_send(say(from_frontend::Say::Hello(hello)));
        let attaching = async {
            let inbound = client.attach(ReceiverStream::new(outbound)).await;
            let mut inbound = inbound.map_err(refusal)?.into_inner();
            let first = inbound.message().await.map_err(refusal)?;
            Ok::<_, AttachError>((inbound, first))
        };
        let attached = tokio::time::timeout(CONNECT_TIMEOUT, attaching).await;
        let late = |_| AttachError::Failed("it does not answer".to_owned());
        let (inbound, first) = attached.map_err(late)??;
        let Some(from_worker::Say::Welcome(welcome)) = first.and_then(|first| first.say) else {
            return Err(AttachError::Refused(
                "it does not say what it is".to_owned(),
            ));
        };
        let registration = Registration::from_json(&welcome.registration)
            .map_err(|error| AttachError::Refused(format!("its registration: {error}")))?;
        let fits = registration.check(&inner.expected);
        fits.map_err(|mismatch| AttachError::Refused(mismatch.to_string()))?;
        let lease = welcome.lease.unwrap_or_default();
        let wires = Wires {
            client,
            inbound,
            to_worker,
        };
        self.join(registration, lease, wires).await
    }

    /// Listens to the worker's events, and only then announces it.
    async fn join(
        &self,
        registration: Registration,
        lease: wire::Lease,
        wires: Wires,
    ) -> Result<Session, AttachError> {
        let Wires {
            client,
            inbound,
            to_worker,
        } = wires;
        let inner = &self.inner;
        let gone = CancellationToken::new();
        let (publisher, feed) = feed(inner.clock);
        let inlet = EventReceiver {
            from: Sender {
                worker: registration.card.id,
                epoch: registration.epoch,
            },
            feed: publisher.clone(),
            clock: inner.clock,
            metrics: inner.metrics.clone(),
        };
        let session = Session {
            inner: Arc::clone(inner),
            address: self.address.clone(),
            inbound,
            to_worker,
            feed: publisher,
            load: watch::channel(FrontendLoad::default()).1,
            heads: VecDeque::new(),
            _gone: gone.clone().drop_guard(),
        };
        self.listen(&registration, client.clone(), inlet, &gone)
            .await?;
        let (load, loads) = watch::channel(FrontendLoad::default());
        let link = GrpcLink {
            worker: registration.card.id,
            frontend: inner.frontend,
            client,
            load,
            gone,
        };
        info!(
            address = self.address,
            name = registration.card.name,
            "attached to a worker"
        );
        inner.metrics.connections.inc();
        let member = Member {
            card: registration.card,
            link: Arc::new(link),
            feed,
            warm: true,
            lease: Some(from_lease(lease)),
        };
        inner
            .roster
            .announce(Change::Joined(Box::new(member)))
            .await;
        Ok(Session {
            load: loads,
            ..session
        })
    }

    async fn listen(
        &self,
        registration: &Registration,
        mut client: WorkerClient<Channel>,
        inlet: EventReceiver,
        gone: &CancellationToken,
    ) -> Result<(), EventError> {
        let inner = &self.inner;
        let topic = topic(&registration.cluster, inlet.from);
        match &registration.events {
            EventAddress::Grpc => {
                let events = client.events(wire::EventsRequest {}).await;
                let events = events.map_err(|status| EventError::Grpc(status.to_string()))?;
                let mut events = events.into_inner();
                let gone = gone.clone();
                inner.tasks.spawn(async move {
                    let work = async {
                        while let Ok(Some(packet)) = events.message().await {
                            inlet.take(&packet.envelope);
                        }
                    };
                    gone.run_until_cancelled(work).await;
                });
            }
            EventAddress::Nats { subject } => {
                let server = inner.nats.as_ref().ok_or(EventError::NoNats)?;
                let task = nats::listen(server, subject, inlet, gone.clone()).await?;
                inner.tasks.spawn(task);
            }
            EventAddress::Zmq { publish, replay } => {
                let task = zmq::listen(publish, replay, &topic, inlet, gone.clone()).await?;
                inner.tasks.spawn(task);
            }
        }
        Ok(())
    }

    async fn channel(&self) -> Result<Channel, AttachError> {
        let failed = |error: tonic::transport::Error| AttachError::Failed(error_chain(&error));
        let mut endpoint = Endpoint::from_shared(self.address.clone())
            .map_err(failed)?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if let Some(tls) = &self.inner.tls {
            endpoint = endpoint.tls_config(tls.client()).map_err(failed)?;
        }
        endpoint.connect().await.map_err(failed)
    }
}

/// An attached worker.
struct Session {
    inner: Arc<Inner>,
    address: String,
    inbound: Streaming<wire::FromWorker>,
    to_worker: mpsc::Sender<wire::FromFrontend>,
    feed: FeedPublisher,
    load: watch::Receiver<FrontendLoad>,
    /// How far the worker's batches went, and when to say so.
    heads: VecDeque<(Instant, FeedMessage)>,
    /// Ends the worker's streams and event listeners when the session ends.
    _gone: tokio_util::sync::DropGuard,
}

impl Session {
    /// Stays until the worker is gone.
    async fn stay(mut self) {
        let reason = self.exchange().await;
        if reason == CLOSED {
            // A worker that ends in good order has sent its answers, but over streams of their
            // own: their last words may still be on the way.
            tokio::time::sleep(SILENCE).await;
        }
        self.inner.metrics.losses.inc();
        info!(address = self.address, reason, "detached from a worker");
    }

    async fn exchange(&mut self) -> &'static str {
        let (mut beats, mut silence) = (beats(), Silence::new(SILENCE));
        loop {
            tokio::select! {
                message = self.inbound.message() => match message {
                    Ok(Some(message)) => {
                        self.handle(message);
                        silence.heard();
                    }
                    Ok(None) => return CLOSED,
                    Err(status) => {
                        debug!(address = self.address, %status, "session");
                        return "its connection was lost";
                    }
                },
                _ = beats.tick() => {
                    if silence.is_too_long() {
                        return "it stopped responding";
                    }
                    self.report_load();
                    self.pass_heads_on();
                }
                Ok(()) = self.load.changed() => self.report_load(),
            }
        }
    }

    fn report_load(&mut self) {
        let load = wire::to_load(&self.load.borrow_and_update());
        // A queue that is full means that the worker does not read, and silence will tell.
        let _ = self.to_worker.try_send(say(from_frontend::Say::Load(load)));
    }

    /// What the worker had published a while ago should be here by now.
    fn pass_heads_on(&mut self) {
        let now = Instant::now();
        while let Some((_, head)) = self.heads.pop_front_if(|(due, _)| *due <= now) {
            self.feed.publish(head);
        }
    }

    fn handle(&mut self, message: wire::FromWorker) {
        match message.say {
            Some(from_worker::Say::Beat(beat)) => {
                let head = FeedMessage::Head {
                    epoch: beat.epoch,
                    next_sequence: beat.next_sequence,
                };
                // Events may be on their way by another plane: give them time.
                self.heads.push_back((Instant::now() + HEAD_DELAY, head));
            }
            Some(from_worker::Say::Lease(lease)) => {
                self.feed.publish(FeedMessage::Lease(from_lease(lease)));
            }
            Some(from_worker::Say::Draining(wire::Draining {})) => {
                self.feed.publish(FeedMessage::Draining);
            }
            Some(from_worker::Say::Welcome(_)) | None => {}
        }
    }
}

fn from_lease(lease: wire::Lease) -> Lease {
    Lease {
        number: lease.number,
        slots: lease.slots,
    }
}

fn say(say: from_frontend::Say) -> wire::FromFrontend {
    wire::FromFrontend { say: Some(say) }
}

fn refusal(status: tonic::Status) -> AttachError {
    let message = status.message().to_owned();
    if status.code() == tonic::Code::FailedPrecondition {
        AttachError::Refused(message)
    } else {
        AttachError::Failed(message)
    }
}
