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
use transport::{Change, Changes, Delivery, Feed, Member, WorkerLink};

use crate::metrics::FrontendMetrics;

/// A worker that cannot tell what it holds after this many tries counts as lost.
const SNAPSHOT_ATTEMPTS: usize = 5;
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Contact {
    link: Arc<dyn WorkerLink>,
    /// It has said that it will go.
    draining: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    router: Router,
    metrics: Arc<FrontendMetrics>,
    contacts: Arc<RwLock<HashMap<WorkerId, Contact>>>,
    simulated: Arc<AtomicBool>,
}

impl Fleet {
    pub(crate) fn new(router: Router, metrics: Arc<FrontendMetrics>) -> Self {
        Self {
            router,
            metrics,
            contacts: Arc::default(),
            simulated: Arc::default(),
        }
    }

    pub(crate) fn link(&self, worker: WorkerId) -> Option<Arc<dyn WorkerLink>> {
        self.contacts
            .read()
            .get(&worker)
            .map(|contact| Arc::clone(&contact.link))
    }

    /// Whether any worker that is, or was, here is a simulation.
    pub(crate) fn simulated(&self) -> bool {
        self.simulated.load(Ordering::Relaxed)
    }

    /// All links in the order of their workers' ids.
    pub(crate) fn links(&self) -> Vec<(WorkerId, Arc<dyn WorkerLink>)> {
        let contacts = self.contacts.read();
        let links = contacts
            .iter()
            .map(|(id, contact)| (*id, Arc::clone(&contact.link)));
        let mut links: Vec<_> = links.collect();
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
                    if let Some(contact) = self.contacts.write().get_mut(&worker) {
                        contact.draining = true;
                    }
                    self.router.drain(worker);
                }
                Change::Left(worker) => {
                    info!(%worker, "worker left");
                    self.contacts.write().remove(&worker);
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
        let contact = Contact {
            link: Arc::clone(&link),
            draining: false,
        };
        self.contacts.write().insert(worker, contact);
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
        while let Some(Delivery { message, published }) = feed.next().await {
            match message {
                FeedMessage::Status(status) => self.fleet.router.report(self.worker, status),
                FeedMessage::Kv(batch) => {
                    match self.fleet.router.observe(&batch) {
                        Observed::Applied => {}
                        // Nothing new, nobody's, or not in the index yet.
                        Observed::Duplicate | Observed::Unknown | Observed::Buffered => continue,
                        Observed::NeedsSnapshot => {
                            if !self.resync().await {
                                break;
                            }
                        }
                    }
                    self.fleet.router.caught_up(self.worker, published);
                }
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

    /// The feed has ended: the worker is gone, whether it said so or not. A successor under
    /// the same id has another link and is left alone.
    fn lost(&self) {
        let mut contacts = self.fleet.contacts.write();
        let Some(contact) = contacts.get(&self.worker) else {
            return;
        };
        if !Arc::ptr_eq(&contact.link, &self.link) {
            return;
        }
        if !contact.draining {
            warn!(worker = %self.worker, "worker lost");
        }
        contacts.remove(&self.worker);
        self.fleet.router.leave(self.worker);
    }
}
