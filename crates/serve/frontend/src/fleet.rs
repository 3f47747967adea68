//! The workers this frontend can reach.
//!
//! One task follows the membership; one task per worker pumps its feed into the router and
//! repairs gaps with snapshots; one tells the workers what this frontend has on them, for the
//! other frontends. The link map is the only state, and it is read once a
//! request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::{FeedMessage, FrontendId, FrontendLoad, Lease, WorkerId};
use parking_lot::RwLock;
use router::{Observed, Router, WorkerLoad};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use transport::{Change, Changes, Delivery, Feed, Forwarder, Member, WorkerLink};

use crate::contacts::{Contact, Contacts, Served};
use crate::metrics::FrontendMetrics;

/// A worker that does not deliver a snapshot after this many attempts counts as lost.
const SNAPSHOT_ATTEMPTS: usize = 5;
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(1);
/// How often this frontend's load is reported to the workers, if it has changed.
const TELL_EVERY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    router: Router,
    metrics: Arc<FrontendMetrics>,
    contacts: Arc<RwLock<Contacts>>,
    simulated: Arc<AtomicBool>,
    id: FrontendId,
    /// Whether other frontends use workers that do not divide their slots.
    shares_engines: bool,
}

impl Fleet {
    pub(crate) fn new(
        router: Router,
        metrics: Arc<FrontendMetrics>,
        id: FrontendId,
        shares_engines: bool,
    ) -> Self {
        Self {
            router,
            metrics,
            contacts: Arc::default(),
            simulated: Arc::default(),
            id,
            shares_engines,
        }
    }

    pub(crate) fn link(&self, worker: WorkerId) -> Option<Arc<dyn WorkerLink>> {
        self.reach(worker).map(|(link, _)| link)
    }

    /// The way to a worker, and its longest prompt plus answer.
    pub(crate) fn reach(&self, worker: WorkerId) -> Option<(Arc<dyn WorkerLink>, u32)> {
        let contacts = self.contacts.read();
        let contact = contacts.get(worker)?;
        Some((Arc::clone(&contact.link), contact.max_context_tokens))
    }

    /// Whether any worker that is, or was, here is a simulation.
    pub(crate) fn simulated(&self) -> bool {
        self.simulated.load(Ordering::Relaxed)
    }

    /// What every worker serves, whichever a request goes to.
    pub(crate) fn served(&self) -> Served {
        self.contacts.read().offer().served
    }

    /// The workers to which a proxy can send requests itself.
    pub(crate) fn addresses(&self) -> Vec<(WorkerId, SocketAddr)> {
        let contacts = self.contacts.read();
        let known = contacts
            .iter()
            .filter_map(|(worker, contact)| Some((worker, contact.address?)));
        known.collect()
    }

    /// Whether any worker has loaded this adapter.
    pub(crate) fn has_adapter(&self, name: &str) -> bool {
        let contacts = self.contacts.read();
        let mut loaded = contacts.iter().flat_map(|(_, contact)| &contact.adapters);
        loaded.any(|adapter| adapter == name)
    }

    /// The workers that do not have an adapter loaded, if any other has.
    pub(crate) fn without_adapter(&self, name: &str) -> Vec<WorkerId> {
        let contacts = self.contacts.read();
        let has = |contact: &Contact| contact.adapters.iter().any(|one| one == name);
        if !contacts
            .iter()
            .any(|(_, contact)| has(contact) && !contact.draining)
        {
            return Vec::new();
        }
        let lacking = contacts.iter().filter(|(_, contact)| !has(contact));
        lacking.map(|(worker, _)| worker).collect()
    }

    /// The workers whose context is shorter than so many tokens.
    pub(crate) fn with_shorter_context(&self, tokens: u32) -> Vec<WorkerId> {
        let contacts = self.contacts.read();
        let enough = |(shortest, _)| tokens <= shortest;
        if contacts.offer().contexts.is_none_or(enough) {
            return Vec::new();
        }
        let shorter = contacts
            .iter()
            .filter(|(_, contact)| contact.max_context_tokens < tokens);
        shorter.map(|(worker, _)| worker).collect()
    }

    /// The longest context of any worker; `None` without workers.
    pub(crate) fn longest_context(&self) -> Option<u32> {
        let contexts = self.contacts.read().offer().contexts;
        contexts.map(|(_, longest)| longest)
    }

    /// All links in the order of their workers' ids.
    pub(crate) fn links(&self) -> Vec<(WorkerId, Arc<dyn WorkerLink>)> {
        let contacts = self.contacts.read();
        let links = contacts
            .iter()
            .map(|(id, contact)| (id, Arc::clone(&contact.link)));
        let mut links: Vec<_> = links.collect();
        links.sort_by_key(|(id, _)| *id);
        links
    }

    /// What this frontend has on the workers that it shares with others.
    pub(crate) fn shared_engines(&self) -> Vec<WorkerLoad> {
        let mut loads = self.router.loads();
        let contacts = self.contacts.read();
        let shared = |worker| contacts.get(worker).is_some_and(|contact| contact.shared);
        loads.retain(|one| shared(one.worker));
        loads
    }

    /// Says how many requests this frontend may have on such a worker, and what the others have.
    pub(crate) fn share(
        &self,
        worker: WorkerId,
        lease: Lease,
        others: &[(FrontendId, FrontendLoad)],
    ) {
        self.router.share(worker, self.id, others);
        self.router.lease(worker, lease);
    }

    /// Follows `changes` until all senders are gone or `tasks` stop.
    pub(crate) async fn follow(self, mut changes: Changes, tasks: Tasks) {
        while let Some(Some(change)) = tasks.stop.run_until_cancelled(changes.next()).await {
            match change {
                Change::Joined(member) => self.joined(*member, &tasks),
                Change::Draining(worker) => self.draining(worker),
                Change::Left(worker) => {
                    info!(%worker, "worker left");
                    self.contacts.write().remove(worker);
                    self.router.leave(worker);
                }
            }
        }
    }

    fn draining(&self, worker: WorkerId) {
        info!(%worker, "worker is draining");
        self.contacts.write().drain(worker);
        self.router.drain(worker);
    }

    /// Tells every worker what this frontend has on it, whenever that has changed.
    pub(crate) async fn tell_loads(self, stop: CancellationToken) {
        let mut told: HashMap<WorkerId, FrontendLoad> = HashMap::new();
        let mut ticks = tokio::time::interval(TELL_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let loads = self.router.loads();
            told.retain(|worker, _| loads.iter().any(|one| one.worker == *worker));
            for WorkerLoad { worker, load, .. } in loads {
                if told.insert(worker, load) != Some(load)
                    && let Some(link) = self.link(worker)
                {
                    link.tell_load(load);
                }
            }
        }
    }

    fn joined(&self, member: Member, tasks: &Tasks) {
        let Member {
            card,
            link,
            feed,
            warm,
            lease,
        } = member;
        let worker = card.id;
        if card.model != *self.metrics.model() {
            let (found, served) = (&card.model, self.metrics.model());
            warn!(%worker, %found, %served, "worker refused: it serves another model");
            return;
        }
        let shared = self.shares_engines && lease.is_none();
        // Until the others have agreed.
        let lease = match shared {
            true => Some(Lease::default()),
            false => lease,
        };
        if let Err(error) = self.router.join_leased(card.clone(), lease) {
            warn!(%worker, %error, "worker refused");
            return;
        }
        info!(%worker, name = card.name, engine = card.engine, "worker joined");
        self.metrics.describe_model(&card);
        self.simulated.fetch_or(card.simulated, Ordering::Relaxed);
        let contact = Contact {
            link: Arc::clone(&link),
            draining: false,
            served: Served::of(&card),
            max_context_tokens: card.max_context_tokens,
            adapters: card.adapters.clone(),
            address: link.forwarder().and_then(Forwarder::address),
            shared,
        };
        self.contacts.write().insert(worker, contact);
        let pump = Pump {
            fleet: self.clone(),
            worker,
            link,
            stop: tasks.stop.clone(),
        };
        tasks.spawn_until_stop(pump.run(feed, warm));
    }
}

/// Carries one worker's feed into the router.
struct Pump {
    fleet: Fleet,
    worker: WorkerId,
    link: Arc<dyn WorkerLink>,
    /// This frontend is going: feeds end because it hangs up.
    stop: CancellationToken,
}

impl Pump {
    async fn run(self, mut feed: Feed, warm: bool) {
        if warm && !self.resync().await {
            return self.lost();
        }
        while let Some(Delivery { message, published }) = feed.next().await {
            let Fleet { router, id, .. } = &self.fleet;
            let observed = match message {
                FeedMessage::Kv(batch) => router.observe(&batch),
                FeedMessage::Head {
                    epoch,
                    next_sequence,
                } => router.head(self.worker, epoch, next_sequence),
                FeedMessage::Status(status) => {
                    router.report(self.worker, status);
                    continue;
                }
                FeedMessage::Loads(loads) => {
                    router.share(self.worker, *id, &loads);
                    continue;
                }
                FeedMessage::Lease(lease) => {
                    router.lease(self.worker, lease);
                    continue;
                }
                FeedMessage::Draining => {
                    self.fleet.draining(self.worker);
                    continue;
                }
            };
            match observed {
                Observed::Applied => {}
                // Nothing new, nobody's, or not in the index yet.
                Observed::Duplicate | Observed::Unknown | Observed::Buffered => continue,
                Observed::NeedsSnapshot => {
                    if !self.resync().await {
                        break;
                    }
                }
            }
            router.caught_up(self.worker, published);
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
                    warn!(worker = %self.worker, %error, "snapshot unavailable");
                    tokio::time::sleep(SNAPSHOT_PAUSE).await;
                }
            }
        }
        false
    }

    /// The feed has ended: the worker is gone, whether it said so or not, unless it is we who
    /// go. A successor under the same id has another link and is left alone.
    fn lost(&self) {
        let mut contacts = self.fleet.contacts.write();
        let Some(contact) = contacts.get(self.worker) else {
            return;
        };
        if !Arc::ptr_eq(&contact.link, &self.link) {
            return;
        }
        let said_so = contact.draining || self.stop.is_cancelled();
        if !said_so {
            warn!(worker = %self.worker, "worker lost");
        }
        contacts.remove(self.worker);
        if said_so {
            self.fleet.router.leave(self.worker);
        } else {
            self.fleet.router.lose(self.worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::{
        Abilities, BlockFormat, Clock, GenerateRequest, GpuSpec, KvSnapshot, LinkError, ModelName,
        TokenStream, WorkerCard,
    };
    use router::{Condition, RouterConfig};
    use telemetry::Registry;
    use transport::{FeedPublisher, LinkFuture, feed};

    use super::*;

    const WORKER: WorkerId = WorkerId(3);

    #[derive(Debug)]
    struct Mute;

    impl WorkerLink for Mute {
        fn generate(&self, _: GenerateRequest) -> LinkFuture<'_, TokenStream> {
            Box::pin(async { Err(LinkError::Draining { worker: WORKER }) })
        }

        fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
            Box::pin(async { Ok(KvSnapshot::default()) })
        }

        fn reset_cache(&self) -> LinkFuture<'_, ()> {
            Box::pin(async { Ok(()) })
        }
    }

    fn card() -> WorkerCard {
        WorkerCard {
            id: WORKER,
            name: "three".to_owned(),
            model: ModelName::new("m"),
            blocks: BlockFormat::new(32),
            total_blocks: 100,
            slots: 4,
            max_step_tokens: 100,
            max_context_tokens: 1000,
            gpu: GpuSpec {
                kind: "none".to_owned(),
                count: 0,
                memory_bytes: 0,
            },
            engine: "mute".to_owned(),
            simulated: true,
            abilities: Abilities::default(),
            speculation: "none".to_owned(),
            forwards: Vec::new(),
            adapters: Vec::new(),
        }
    }

    /// A fleet with one worker, whose feed is about to be read.
    fn fleet(tasks: &Tasks) -> (Router, FeedPublisher) {
        let (clock, registry) = (Clock::start(), Registry::new());
        let router = Router::new(RouterConfig::new(32), &registry, clock);
        let metrics = FrontendMetrics::new(&registry, clock, &ModelName::new("m"));
        let fleet = Fleet::new(router.clone(), metrics, FrontendId(0), false);
        let (publisher, feed) = feed(clock);
        let member = Member {
            card: card(),
            link: Arc::new(Mute),
            feed,
            warm: false,
            lease: None,
        };
        fleet.joined(member, tasks);
        (router, publisher)
    }

    /// What is held against the worker when it comes again.
    async fn afterwards(hangs_up: bool) -> Condition {
        let tasks = Tasks::new();
        let (router, publisher) = fleet(&tasks);
        // The pump waits for its feed by then.
        tokio::task::yield_now().await;
        if hangs_up {
            tasks.stop.cancel();
        }
        drop(publisher);
        tasks.tracker.close();
        tasks.tracker.wait().await;
        router.join_leased(card(), None).unwrap();
        router.workers()[0].health
    }

    #[tokio::test]
    async fn a_worker_is_not_lost_because_this_frontend_hangs_up() {
        assert_eq!(afterwards(false).await, Condition::Recovering);
        assert_eq!(afterwards(true).await, Condition::Sound);
    }
}
