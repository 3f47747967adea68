//! The workers this frontend can reach.
//!
//! One task follows the membership; one task per worker pumps its feed into the router and
//! repairs gaps with snapshots. The link map is the only state, and it is read once a
//! request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::{FeedMessage, WorkerId};
use parking_lot::RwLock;
use router::{Observed, Router};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use transport::{Change, Changes, Feed, Member, WorkerLink};

use crate::metrics::FrontendMetrics;

/// A worker that cannot tell what it holds after this many tries counts as lost.
const SNAPSHOT_ATTEMPTS: usize = 5;
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    router: Router,
    metrics: Arc<FrontendMetrics>,
    links: Arc<RwLock<HashMap<WorkerId, Arc<dyn WorkerLink>>>>,
    simulated: Arc<AtomicBool>,
}

impl Fleet {
    pub(crate) fn new(router: Router, metrics: Arc<FrontendMetrics>) -> Self {
        Self {
            router,
            metrics,
            links: Arc::default(),
            simulated: Arc::default(),
        }
    }

    pub(crate) fn link(&self, worker: WorkerId) -> Option<Arc<dyn WorkerLink>> {
        self.links.read().get(&worker).cloned()
    }

    /// Whether any worker that is, or was, here is a simulation.
    pub(crate) fn simulated(&self) -> bool {
        self.simulated.load(Ordering::Relaxed)
    }

    /// All links in the order of their workers' ids.
    pub(crate) fn links(&self) -> Vec<(WorkerId, Arc<dyn WorkerLink>)> {
        let mut links: Vec<_> = self
            .links
            .read()
            .iter()
            .map(|(id, link)| (*id, Arc::clone(link)))
            .collect();
        links.sort_by_key(|(id, _)| *id);
        links
    }

    /// Follows `changes` until nobody can announce any more or `stop` fires.
    pub(crate) async fn follow(
        self,
        mut changes: Changes,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        while let Some(Some(change)) = stop.run_until_cancelled(changes.next()).await {
            match change {
                Change::Joined(member) => self.joined(member, &tasks, &stop),
                Change::Draining(worker) => {
                    info!(%worker, "worker drains");
                    self.router.drain(worker);
                }
                Change::Left(worker) => {
                    info!(%worker, "worker left");
                    self.links.write().remove(&worker);
                    self.router.leave(worker);
                }
            }
        }
    }

    fn joined(&self, member: Member, tasks: &TaskTracker, stop: &CancellationToken) {
        let Member { card, link, feed } = member;
        let worker = card.id;
        if let Err(error) = self.router.join(card.clone()) {
            warn!(%worker, %error, "worker refused");
            return;
        }
        info!(%worker, name = card.name, engine = card.engine, "worker joined");
        self.metrics.describe_model(&card);
        self.simulated.fetch_or(card.simulated, Ordering::Relaxed);
        self.links.write().insert(worker, Arc::clone(&link));
        let pump = Pump {
            fleet: self.clone(),
            worker,
            link,
        };
        let stop = stop.clone();
        tasks.spawn(async move {
            stop.run_until_cancelled(pump.run(feed)).await;
        });
    }
}

/// Carries one worker's feed into the router.
struct Pump {
    fleet: Fleet,
    worker: WorkerId,
    link: Arc<dyn WorkerLink>,
}

impl Pump {
    async fn run(self, mut feed: Feed) {
        while let Some(message) = feed.next().await {
            match message {
                FeedMessage::Status(status) => self.fleet.router.report(self.worker, status),
                FeedMessage::Kv(batch) => match self.fleet.router.observe(&batch) {
                    Observed::Applied
                    | Observed::Duplicate
                    | Observed::Buffered
                    | Observed::Unknown => {}
                    Observed::NeedsSnapshot => {
                        if !self.resync().await {
                            break;
                        }
                    }
                },
            }
        }
        self.lost();
    }

    /// Repairs a gap. Returns whether the worker can still be reached.
    async fn resync(&self) -> bool {
        for _ in 0..SNAPSHOT_ATTEMPTS {
            match self.link.snapshot().await {
                // Batches that came meanwhile may have a gap of their own.
                Ok(snapshot) => match self.fleet.router.restore(self.worker, &snapshot) {
                    Observed::NeedsSnapshot => {}
                    Observed::Applied
                    | Observed::Duplicate
                    | Observed::Buffered
                    | Observed::Unknown => return true,
                },
                Err(error) => {
                    warn!(worker = %self.worker, %error, "no snapshot to be had");
                    tokio::time::sleep(SNAPSHOT_PAUSE).await;
                }
            }
        }
        false
    }

    /// The worker is gone without having said so. A successor under the same id has another
    /// link and is left alone.
    fn lost(&self) {
        let mut links = self.fleet.links.write();
        if links
            .get(&self.worker)
            .is_some_and(|link| Arc::ptr_eq(link, &self.link))
        {
            warn!(worker = %self.worker, "worker lost");
            links.remove(&self.worker);
            self.fleet.router.leave(self.worker);
        }
    }
}
