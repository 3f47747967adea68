//! `homing worker`, resolved.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use remote::tls::Tls;

use super::backend::BackendOptions;
use super::{BackendPlan, EtcdPlan};
use crate::args::{Discovery, EventPlane, WorkerArgs};
use crate::process::Endpoint;

pub(crate) struct WorkerPlan {
    pub(crate) log: String,
    pub(crate) requests: Endpoint,
    pub(crate) metrics: Option<Endpoint>,
    /// Where frontends reach it, if not at the address that it listens on.
    pub(crate) advertise: Option<String>,
    pub(crate) tls: Option<Tls>,
    pub(crate) backend: BackendPlan,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) registration: Option<RegistrationPlan>,
    pub(crate) events: EventsPlan,
    pub(crate) max_requests: usize,
    /// How long running requests may take to finish.
    pub(crate) grace: Duration,
}

/// Where to register. Nobody needs it whom a list names or whose pods Kubernetes knows.
pub(crate) struct RegistrationPlan {
    pub(crate) etcd: EtcdPlan,
    /// How long a registration outlives its worker at most.
    pub(crate) ttl: Duration,
}

/// How events travel.
pub(crate) enum EventsPlan {
    Grpc,
    Nats { url: String },
    Zmq { port: u16 },
}

impl WorkerArgs {
    pub(crate) fn resolve(self) -> anyhow::Result<WorkerPlan> {
        let id = self.worker_id.unwrap_or_else(draw_id);
        let backend = BackendOptions {
            engine: &self.engine,
            model: &self.model,
            profile: &self.profile,
            seed: self.seed,
            block_size: self.kv_cache_block_size,
            workers: Some(1),
        };
        let backend = backend.resolve()?;
        let registration = match self.discovery {
            Discovery::Static | Discovery::Kubernetes => None,
            Discovery::Etcd => Some(RegistrationPlan {
                etcd: self.etcd.read()?,
                ttl: self.registration_ttl,
            }),
            Discovery::DynamoEtcd | Discovery::DynamoFile | Discovery::DynamoKubernetes => {
                bail!("--discovery: a Homing worker cannot register as a Dynamo worker")
            }
        };
        let endpoint = |port, option| Endpoint {
            address: SocketAddr::new(self.host, port),
            option,
        };
        Ok(WorkerPlan {
            log: self.general.log,
            requests: endpoint(self.port, "--port"),
            metrics: self
                .metrics_port
                .map(|port| endpoint(port, "--metrics-port")),
            advertise: self.advertise,
            tls: self.tls.read()?,
            backend,
            id,
            name: self.name.unwrap_or_else(|| format!("worker-{id}")),
            cluster: self.cluster,
            registration,
            events: match self.events {
                EventPlane::Grpc => EventsPlan::Grpc,
                EventPlane::Nats => EventsPlan::Nats { url: self.nats },
                EventPlane::Zmq => EventsPlan::Zmq {
                    port: self.zmq_port,
                },
            },
            max_requests: self.max_requests,
            grace: self.shutdown_grace,
        })
    }
}

/// A number that nobody else has drawn. Of 53 bits, so that it survives programs that take
/// every number for floating point.
pub(crate) fn draw_id() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low) >> 11
}
