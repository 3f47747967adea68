//! NVIDIA Dynamo's workers behind our router, over their own protocols and without any of their
//! code.
//!
//! [`start`] watches a registry in which Dynamo workers register and produces what `transport`
//! defines: members with a card, a link and a feed. The layers above see no difference from
//! workers of ours.
//!
//! ```text
//! registry ─ discovery ─► directory ─► joins and leaves ─► Roster
//! request  ─ link ─► TCP or NATS ─► worker connects to our response port ─► answer ─► chunks
//! events   ─ ZeroMQ or NATS ─► worker_cache (engine's names → our hashes) ─► Feed;  gap ─► tree dump
//! ```
//!
//! Decisions are pure code without sockets: [`wire`] (bytes), [`registration`], `directory`,
//! `worker_cache`, `answer`. The rest are thin shells around it.
//!
//! # Left out
//!
//! TLS, prefill and decode on separate workers, several data-parallel ranks behind one endpoint,
//! LoRA adapters, and images. Such workers are refused with a reason.

mod answer;
mod cache_feed;
mod card;
mod connection;
mod directory;
mod discovery;
mod events;
mod incoming;
mod link;
mod metrics;
pub mod registration;
mod request_plane;
mod responses;
mod source;
pub mod wire;
mod worker_cache;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use contract::Clock;
use nats::Nats;
use tasks::Tasks;
use tokio::sync::watch;
use transport::Roster;

pub use card::{ModelFiles, abilities};
pub use discovery::{Models, Registry};

use directory::{Directory, Scope};
use discovery::Discovery;
use events::Listeners;
use metrics::Metrics;
use responses::Responses;

/// How to reach Dynamo workers.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only workers of this Dynamo namespace; `None` for all.
    pub namespace: Option<String>,
    /// Where workers deliver their answers. They connect from their machines, so it has to be
    /// reachable from there.
    pub listen: SocketAddr,
    /// The host that workers connect to. `None` for the address from which we reach them, which
    /// is right unless addresses are translated in between.
    pub advertise: Option<String>,
    /// For workers that publish their events there, or take their requests from there.
    pub nats: Option<Nats>,
    pub clock: Clock,
}

/// What else is known about the workers.
#[derive(Clone, Debug)]
pub struct Dynamo {
    /// The models they serve, and which files belong to them.
    pub models: watch::Receiver<Models>,
}

/// Announces the registry's workers on `roster` until `tasks` stop, and counts in `metrics`.
/// Fails if the port for answers cannot be opened.
pub async fn start(
    config: Config,
    registry: Registry,
    roster: Roster,
    metrics: &telemetry::Registry,
    tasks: &Tasks,
) -> io::Result<Dynamo> {
    let metrics = Metrics::new(metrics);
    let responses =
        Responses::listen(config.listen, config.advertise, metrics.clone(), tasks).await?;
    let (sender, models) = watch::channel(Models::new());
    let discovery = Discovery {
        directory: Directory::new(Scope {
            namespace: config.namespace,
            nats: config.nats.is_some(),
        }),
        listeners: Listeners::new(config.nats.clone(), metrics.clone(), tasks.clone()),
        responses: Arc::new(responses),
        nats: config.nats,
        metrics,
        clock: config.clock,
        roster,
        models: sender,
        tasks: tasks.clone(),
    };
    tasks.spawn_until_stop(discovery.run(registry));
    Ok(Dynamo { models })
}
