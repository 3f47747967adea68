//! Genuine NVIDIA Dynamo workers behind our router, over their own wire and without any of
//! their code.
//!
//! [`start`] watches a registry in which Dynamo workers announce themselves and produces what
//! `transport` defines: members with a card, a link and a feed. Nothing above can tell them
//! from workers of ours.
//!
//! ```text
//! registry ─ discovery ─► directory ─► joins and leaves ─► Roster
//! request  ─ link ─► worker's port ─► worker connects to our response port ─► answer ─► chunks
//! events   ─ ZeroMQ ─► mirror (engine's names → our hashes) ─► Feed;  gap ─► tree dump
//! ```
//!
//! What decides is pure and knows no socket: [`wire`] (bytes), [`registration`], `directory`,
//! `mirror`, `answer`. The rest are thin shells around it.
//!
//! # Left out
//!
//! Requests and events over NATS, TLS, prefill and decode on separate workers, several data-parallel ranks behind one endpoint, adapters, and pictures.
//! Such workers are refused with a reason.

mod answer;
mod card;
mod connection;
mod counts;
mod directory;
mod discovery;
mod events;
mod incoming;
mod link;
mod mirror;
pub mod registration;
mod responses;
mod source;
pub mod testing;
mod voice;
pub mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use contract::Clock;
use tasks::Tasks;
use tokio::sync::watch;
use transport::Roster;

pub use card::ModelFiles;
pub use counts::{Counts, Tally};
pub use discovery::{Models, Registry};

use directory::Directory;
use discovery::Discovery;
use events::Listeners;
use responses::Responses;

/// How to meet Dynamo workers.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only workers of this Dynamo namespace; `None` for all.
    pub namespace: Option<String>,
    /// Where workers deliver their answers. They connect from their machines, so this has to
    /// be reachable from there.
    pub listen: SocketAddr,
    /// The host that workers are told to connect to. `None`: the address from which we reach
    /// them, which is right wherever nothing translates addresses in between.
    pub advertise: Option<String>,
    pub clock: Clock,
}

/// What else is known of the workers.
#[derive(Clone, Debug)]
pub struct Dynamo {
    /// The models they serve, and which files belong to them.
    pub models: watch::Receiver<Models>,
    pub counts: Arc<Counts>,
}

/// Announces the registry's workers on `roster` until `tasks` stop. Fails if the port for
/// answers cannot be opened.
pub async fn start(
    config: Config,
    registry: Registry,
    roster: Roster,
    tasks: &Tasks,
) -> io::Result<Dynamo> {
    let counts = Arc::new(Counts::default());
    let responses =
        Responses::listen(config.listen, config.advertise, Arc::clone(&counts), tasks).await?;
    let (sender, models) = watch::channel(Models::new());
    let discovery = Discovery {
        directory: Directory::new(config.namespace),
        listeners: Listeners::new(Arc::clone(&counts), tasks.clone()),
        responses: Arc::new(responses),
        counts: Arc::clone(&counts),
        clock: config.clock,
        roster,
        models: sender,
        tasks: tasks.clone(),
    };
    tasks.spawn_until_stop(discovery.run(registry));
    Ok(Dynamo { models, counts })
}
