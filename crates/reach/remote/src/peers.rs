//! Frontends that use the same engines tell each other what they have on them.
//!
//! Our own workers divide their slots among frontends ([`crate::leases`]); engines of others do not know
//! frontends. So frontends talk to each other: every [`REPORT_EVERY`] each tells all others what it has
//! and claims on every engine ([`sharing`]), and its router is told what the others have and how many
//! requests it may have itself. A claim that changes and a request that waits are told sooner: slots
//! change hands in three reports and answers, and a request may be waiting for them.
//!
//! ```text
//! names ──► addresses (looked up again and again) ──► one connection each ◄══ Exchange ══► the others
//! router ◄── leases, loads of others ◄── sharing ◄── reports
//! ```
//!
//! Reports go both ways on a connection, whoever opened it; so it is enough if one of two frontends
//! knows the other's address.

mod neighbour;
mod news;
mod serve;
pub mod sharing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, FrontendId, LocalHash, ModelName, Processed, WorkerId};
use parking_lot::Mutex;
use tasks::Tasks;
use telemetry::{Gauge, Registry, catalog};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tonic::Streaming;
use tracing::{error, info};

use crate::tls::Tls;
use crate::wire;
use neighbour::{FirstTry, Neighbourhood};
use news::{Listeners, News};
use sharing::{Announced, EngineKey, EngineLoad, Report, Share, Sharing};

/// How often a frontend tells the others what it has.
pub const REPORT_EVERY: Duration = Duration::from_millis(50);
/// How often it looks whether there is something that the others should know at once.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long a frontend that was reached may take to say something, before it is no longer waited for.
const FIRST_REPORT: Duration = Duration::from_secs(1);

/// The routers of a frontend, as far as their engines are shared.
pub trait SharedEngines: Send + Sync + 'static {
    /// What is on every engine now.
    fn loads(&self) -> Vec<EngineLoad>;
    fn apply(&self, share: Share);
    /// What engines without cache events process for this frontend, from now on.
    fn processed(&self) -> broadcast::Receiver<Processed>;
    /// What one has processed for another.
    fn hear(&self, processed: &Processed);
}

/// Where the others are.
#[derive(Debug)]
pub struct PeersConfig {
    pub id: FrontendId,
    /// `HOST:PORT`. A name with several addresses stands for all of them; our own is recognised.
    pub names: Vec<String>,
    pub tls: Option<Tls>,
}

/// What all connections share.
struct Exchange {
    engines: Arc<dyn SharedEngines>,
    sharing: Mutex<Sharing>,
    /// The latest report.
    latest: watch::Sender<wire::PeerReport>,
    listeners: Listeners,
    clock: Clock,
    id: FrontendId,
    tls: Option<Tls>,
}

/// Divides `engines` with the other frontends, on `tasks` until they are stopped. Others may come in
/// through `listener`.
pub fn start(
    config: PeersConfig,
    listener: Option<TcpListener>,
    engines: Arc<dyn SharedEngines>,
    place: (Clock, &Registry),
    tasks: &Tasks,
) {
    let (clock, registry) = place;
    let exchange = Arc::new(Exchange {
        engines: Arc::clone(&engines),
        sharing: Mutex::new(Sharing::new(config.id)),
        latest: watch::channel(wire::PeerReport::default()).0,
        listeners: Listeners::default(),
        clock,
        id: config.id,
        tls: config.tls,
    });
    // Whoever connects hears at once that there is somebody.
    exchange.announce();
    if let Some(listener) = listener {
        let serving = serve::serve(Arc::clone(&exchange), listener, tasks.clone());
        tasks.spawn_until_stop(async move {
            if let Err(error) = serving.await {
                error!(%error, "other frontends can no longer connect");
            }
        });
    }
    let neighbourhood = Neighbourhood::new(config.names, &exchange, tasks);
    let known = registry.gauge(&catalog::NET_PEERS, &[]);
    tasks.spawn_until_stop(divide(exchange, neighbourhood, engines, known));
}

async fn divide(
    exchange: Arc<Exchange>,
    neighbourhood: Neighbourhood,
    engines: Arc<dyn SharedEngines>,
    known: Gauge,
) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut peers = 0;
    let mut reported = exchange.clock.now();
    let mut applied = BTreeMap::new();
    loop {
        ticks.tick().await;
        let (loads, settled) = (engines.loads(), neighbourhood.is_settled());
        let now = exchange.clock.now();
        let (shares, news, count) = {
            let mut sharing = exchange.sharing.lock();
            let shares = sharing.divide(loads, settled, now);
            (shares, sharing.has_news(), sharing.peers())
        };
        let due = now - reported >= REPORT_EVERY;
        for share in shares {
            let former = applied.insert(share.engine.clone(), share.lease);
            if due || former != Some(share.lease) {
                engines.apply(share);
            }
        }
        if due || news {
            reported = now;
            exchange.announce();
        }
        if count != peers {
            info!(peers = count, "frontends that share the engines");
            known.set(count as f64);
            peers = count;
        }
    }
}

/// Why a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// We have connected to ourselves.
    Ourselves,
}

impl Exchange {
    /// Sends reports and hears those of the other side, until either ends. `first` is let go when the
    /// other side has been heard, or has had the time to say something.
    async fn converse<T>(
        &self,
        mut inbound: Streaming<wire::PeerReport>,
        outbound: mpsc::Sender<T>,
        outgoing: impl Fn(wire::PeerReport) -> T,
        first: &mut Option<FirstTry>,
    ) -> End {
        let mut news = News::new(&self.listeners);
        let mut latest = self.latest.subscribe();
        latest.mark_changed();
        let mut too_long = std::pin::pin!(tokio::time::sleep(FIRST_REPORT));
        loop {
            tokio::select! {
                message = inbound.message() => {
                    let Ok(Some(report)) = message else {
                        return End::Closed;
                    };
                    if report.frontend == self.id.0 {
                        return End::Ourselves;
                    }
                    news.heard(FrontendId(report.frontend), || self.engines.processed());
                    self.hear(report);
                    *first = None;
                }
                Ok(()) = latest.changed() => {
                    let mut report = latest.borrow_and_update().clone();
                    // One that does not find room is soon followed by a newer one.
                    if let Ok(room) = outbound.try_reserve() {
                        report.processed = news.take();
                        room.send(outgoing(report));
                    }
                }
                () = news.gather(), if news.has_room() => {}
                () = &mut too_long, if first.is_some() => *first = None,
            }
        }
    }

    fn hear(&self, mut report: wire::PeerReport) {
        let news = std::mem::take(&mut report.processed);
        let now = self.clock.now();
        let asked = self.sharing.lock().hear(from_report(report), now);
        if asked {
            self.announce();
        }
        // Slots wait for an answer; blocks do not.
        for processed in news {
            self.engines.hear(&from_processed(processed));
        }
    }

    fn announce(&self) {
        let mut sharing = self.sharing.lock();
        let report = to_report(sharing.report());
        self.latest.send_replace(report);
    }
}

/// With no more than `most` blocks, from the beginning.
fn to_processed(processed: &Processed, most: usize) -> wire::Processed {
    wire::Processed {
        model: processed.model.as_str().to_owned(),
        worker: processed.worker.0,
        block_size: processed.block_size,
        blocks: processed
            .blocks
            .iter()
            .take(most)
            .map(|block| block.0)
            .collect(),
    }
}

fn from_processed(processed: wire::Processed) -> Processed {
    Processed {
        model: ModelName::new(&processed.model),
        worker: WorkerId(processed.worker),
        block_size: processed.block_size,
        blocks: processed.blocks.into_iter().map(LocalHash).collect(),
    }
}

fn to_report(report: Report) -> wire::PeerReport {
    let seen = report.seen.into_iter();
    let engines = report.engines.into_iter();
    wire::PeerReport {
        frontend: report.frontend.0,
        number: report.number,
        asks: report.asks,
        seen: seen
            .map(|(frontend, number)| wire::SeenReport {
                frontend: frontend.0,
                number,
            })
            .collect(),
        engines: engines
            .map(|one| wire::EngineShare {
                model: one.engine.model.as_str().to_owned(),
                worker: one.engine.worker.0,
                slots: one.slots,
                claim: one.claim,
                load: Some(wire::to_load(&one.load)),
            })
            .collect(),
        processed: Vec::new(),
    }
}

fn from_report(report: wire::PeerReport) -> Report {
    let seen = report.seen.into_iter();
    let engines = report.engines.into_iter();
    Report {
        frontend: FrontendId(report.frontend),
        number: report.number,
        asks: report.asks,
        seen: seen
            .map(|one| (FrontendId(one.frontend), one.number))
            .collect(),
        engines: engines
            .map(|one| Announced {
                engine: EngineKey {
                    model: ModelName::new(&one.model),
                    worker: WorkerId(one.worker),
                },
                slots: one.slots,
                claim: one.claim,
                load: wire::from_load(&one.load.unwrap_or_default()),
            })
            .collect(),
    }
}
