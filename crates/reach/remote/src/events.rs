//! The event planes: how envelopes travel from a worker to every frontend.
//!
//! All planes carry the same bytes ([`crate::wire::encode_envelope`]) and promise the same
//! little: in order, mostly. What is lost shows as a gap in the numbers of batches, and is
//! repaired by the plane itself where it can ([`zmq`] asks for a replay) or by a snapshot over
//! the request plane. A plane that is down holds up nobody.

pub mod nats;
pub mod zmq;

use ::nats::{Nats, NatsError};
use bytes::Bytes;
use contract::{Clock, FeedMessage};
use tasks::Tasks;
use tokio::sync::mpsc;
use tracing::debug;
use transport::FeedPublisher;

use crate::metrics::NetMetrics;
use crate::registration::EventAddress;
use crate::wire::{Sender, decode_envelope};

/// Envelopes that may wait for a plane: some seconds of steps at full load.
const QUEUE: usize = 4096;

/// Why a plane cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("ZeroMQ: {0}")]
    Zmq(String),
    #[error("gRPC: {0}")]
    Grpc(String),
    #[error("the worker publishes over NATS: set --nats on this frontend")]
    NoNats,
}

/// Which plane a worker publishes on, beside its own server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plane {
    Grpc,
    Nats {
        url: String,
    },
    /// Host to bind to, host to be reached at, and port; 0 picks a free one.
    Zmq {
        bind: String,
        advertise: String,
        port: u16,
    },
}

/// One envelope on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub envelope: Bytes,
    /// Of a batch of cache events, for those who ask for it again.
    pub sequence: Option<u64>,
}

/// A worker's end of a plane.
#[derive(Debug)]
pub struct Publisher {
    address: EventAddress,
    queue: Option<mpsc::Sender<Outgoing>>,
}

impl Publisher {
    /// Opens the plane for one worker. Its tasks end when `tasks` stop.
    pub async fn open(plane: &Plane, topic: &str, tasks: &Tasks) -> Result<Self, EventError> {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let address = match plane {
            Plane::Grpc => {
                let address = EventAddress::Grpc;
                return Ok(Self {
                    address,
                    queue: None,
                });
            }
            Plane::Nats { url } => {
                let subject = topic.to_owned();
                let server = Nats::connect(url).await?;
                let task = nats::publish(server, subject.clone(), outgoing, tasks.stop.clone());
                tasks.spawn(task);
                EventAddress::Nats { subject }
            }
            Plane::Zmq {
                bind,
                advertise,
                port,
            } => {
                let sockets = zmq::Sockets::bind(bind, *port).await?;
                let address = sockets.address(advertise);
                sockets.serve(topic.to_owned(), outgoing, tasks);
                address
            }
        };
        Ok(Self {
            address,
            queue: Some(queue),
        })
    }

    pub fn address(&self) -> &EventAddress {
        &self.address
    }

    /// Never waits; what does not fit is lost, and receivers will notice.
    pub fn publish(&self, outgoing: Outgoing) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send(outgoing);
        }
    }
}

/// The name under which a worker's envelopes travel.
pub fn topic(cluster: &str, sender: Sender) -> String {
    format!("homing.{cluster}.events.{:016x}", sender.worker.0)
}

/// A frontend's end: takes bytes from any plane, and passes on what makes sense.
#[derive(Clone, Debug)]
pub struct EventReceiver {
    pub(crate) from: Sender,
    pub(crate) feed: FeedPublisher,
    pub(crate) clock: Clock,
    pub(crate) metrics: NetMetrics,
}

impl EventReceiver {
    /// Checks and passes on an envelope. Returns the number of a batch of cache events.
    pub(crate) fn take(&self, envelope: &[u8]) -> Option<u64> {
        match decode_envelope(self.from, envelope) {
            Ok((message, unix)) => {
                let sequence = match &message {
                    FeedMessage::Kv(batch) => Some(batch.sequence),
                    FeedMessage::Status(_)
                    | FeedMessage::Head { .. }
                    | FeedMessage::Loads(_)
                    | FeedMessage::Lease(_)
                    | FeedMessage::Draining => None,
                };
                self.feed.publish_at(message, self.clock.at_unix(unix));
                sequence
            }
            Err(error) => {
                debug!(worker = %self.from.worker, %error, "event rejected");
                self.metrics.refused_event(error.reason());
                None
            }
        }
    }
}
