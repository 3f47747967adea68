//! The system under trouble: a frontend that can be replaced, and workers that can die.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, FrontendId, WorkerId};
use engine::sim::{AnswerBank, Profile, SimExecutor};
use frontend::UnknownFields;
use frontend::{Access, FaultLimits, Frontend, FrontendConfig, ModelParts, Parts};
use parking_lot::Mutex;
use preprocess::{PreprocessConfig, Preprocessor, corpus};
use router::{Router, RouterConfig};
use tasks::Tasks;
use telemetry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::{Change, Member, Roster, WorkerLink, feed, roster};
use worker::{Worker, WorkerContext};

use crate::plan::{Plan, WORKERS};
use crate::wires::{Condition, FeedSlot, Shared, Wire, carry};

/// A worker that says nothing for so long is given up.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// What every run has in common, prepared once.
#[derive(Debug)]
pub struct Scene {
    pub(crate) profile: Profile,
    answers: Arc<AnswerBank>,
}

impl Scene {
    pub fn prepare() -> anyhow::Result<Self> {
        let profile = Profile::parse("chaos", include_str!("worker.toml"))?;
        let preprocessor = preprocessor(&profile);
        let mut articles = Vec::new();
        for article in corpus::articles().iter().take(5) {
            let paragraphs = article.paragraphs.iter();
            let encode = |text| preprocessor.encode_plain(&format!("{text}\n\n"));
            articles.push(paragraphs.map(encode).collect::<Result<_, _>>()?);
        }
        let openings = (0..100).map(|number| preprocessor.encode_plain(&format!("#{number} ")));
        let openings = openings.collect::<Result<_, _>>()?;
        Ok(Self {
            profile,
            answers: Arc::new(AnswerBank::new(openings, articles)),
        })
    }
}

fn preprocessor(profile: &Profile) -> Preprocessor {
    Preprocessor::embedded(PreprocessConfig {
        max_context_tokens: profile.max_context_tokens,
        ..PreprocessConfig::default()
    })
}

/// A frontend's process.
pub(crate) struct Front {
    pub(crate) frontend: Frontend,
    pub(crate) router: Router,
    roster: Roster,
    /// Fires when the process ends: its connections break.
    pub(crate) dead: CancellationToken,
}

/// A worker's process, and the wires to it.
struct Running {
    worker: Worker,
    link: Arc<dyn WorkerLink>,
    ear: FeedSlot,
    condition: Shared,
    /// Fires when the present connection is gone.
    gone: CancellationToken,
}

pub(crate) struct System<'a> {
    scene: &'a Scene,
    mode: &'static str,
    queue_limit: u32,
    clock: Clock,
    tasks: TaskTracker,
    front: Arc<Front>,
    workers: BTreeMap<u64, Running>,
    /// Lives of workers so far.
    epochs: u64,
    seed: u64,
}

impl<'a> System<'a> {
    pub(crate) async fn start(scene: &'a Scene, plan: &Plan) -> Self {
        let clock = Clock::start();
        let tasks = TaskTracker::new();
        let mut system = Self {
            front: Arc::new(front(scene, plan.mode, plan.queue_limit, clock, &tasks)),
            scene,
            mode: plan.mode,
            queue_limit: plan.queue_limit,
            clock,
            tasks,
            workers: BTreeMap::new(),
            epochs: 0,
            seed: plan.seed,
        };
        for id in 0..WORKERS {
            system.start_worker(id).await;
        }
        system
    }

    pub(crate) fn front(&self) -> Arc<Front> {
        Arc::clone(&self.front)
    }

    pub(crate) fn condition(&self, worker: u64) -> Option<Shared> {
        self.workers
            .get(&worker)
            .map(|running| Arc::clone(&running.condition))
    }

    /// Starts a worker's process and connects it.
    pub(crate) async fn start_worker(&mut self, id: u64) {
        self.epochs += 1;
        let card = self.scene.profile.card(WorkerId(id), &format!("w{id}"));
        let context = WorkerContext {
            clock: self.clock,
            registry: Registry::new(),
            epoch: self.epochs,
        };
        let answers = Arc::clone(&self.scene.answers);
        let executor = SimExecutor::new(&self.scene.profile, answers, 1);
        let (worker, member) = Worker::start(card, executor, &context);
        let ear = FeedSlot::default();
        let condition = Arc::new(Mutex::new(Condition::good(self.seed ^ (self.epochs << 32))));
        let carrying = carry(
            member.feed,
            Arc::clone(&ear),
            Arc::clone(&condition),
            self.clock,
        );
        self.tasks.spawn(carrying);
        let running = Running {
            worker,
            link: member.link,
            ear,
            condition,
            gone: CancellationToken::new(),
        };
        self.workers.insert(id, running);
        self.connect(id).await;
    }

    /// Connects a worker that runs to the frontend that is there.
    pub(crate) async fn connect(&mut self, id: u64) {
        let front = self.front();
        let Some(running) = self.workers.get_mut(&id) else {
            return;
        };
        running.gone.cancel();
        running.gone = CancellationToken::new();
        let (publisher, feed) = feed(self.clock);
        *running.ear.lock() = Some(publisher);
        let wire = Wire {
            worker: WorkerId(id),
            link: Arc::clone(&running.link),
            condition: Arc::clone(&running.condition),
            gone: running.gone.clone(),
        };
        let member = Member {
            card: running.worker.card().clone(),
            link: Arc::new(wire),
            feed,
            warm: true,
            lease: None,
        };
        front
            .roster
            .announce(Change::Joined(Box::new(member)))
            .await;
    }

    /// Breaks the connection to a worker.
    pub(crate) fn disconnect(&self, id: u64) {
        if let Some(running) = self.workers.get(&id) {
            running.gone.cancel();
            *running.ear.lock() = None;
        }
    }

    /// Ends a worker's process.
    pub(crate) fn crash(&mut self, id: u64) {
        self.disconnect(id);
        // What it was running goes on where nobody can see it, and ends there.
        self.workers.remove(&id);
    }

    pub(crate) fn is_running(&self, id: u64) -> bool {
        self.workers.contains_key(&id)
    }

    /// Ends the frontend's process and starts another.
    pub(crate) async fn restart_frontend(&mut self) {
        self.front.dead.cancel();
        let fresh = front(
            self.scene,
            self.mode,
            self.queue_limit,
            self.clock,
            &self.tasks,
        );
        self.front = Arc::new(fresh);
        for id in self.workers.keys().copied().collect::<Vec<_>>() {
            self.connect(id).await;
        }
    }

    pub(crate) async fn reset_caches(&self) {
        for running in self.workers.values() {
            // A worker that cannot is on its way out.
            let _ = running.link.reset_cache().await;
        }
    }

    /// The slots of each worker that the router holds for taken, beside the sequences that
    /// its engine has. Without those whose wires are bad now, or were a moment ago: there,
    /// something may be on its way.
    pub(crate) fn books(&self) -> BTreeMap<u64, (u32, u32)> {
        let views = self.front.router.workers();
        let calm = |running: &Running| {
            let condition = running.condition.lock();
            let since = condition.stalled_until.max(condition.slow_until);
            !running.gone.is_cancelled() && since + STALL_TIMEOUT < Instant::now()
        };
        let mut books = BTreeMap::new();
        for (id, running) in self.workers.iter().filter(|(_, running)| calm(running)) {
            let status = running.worker.status();
            if let Some(view) = views.iter().find(|view| view.card.id.0 == *id) {
                books.insert(*id, (view.in_flight, status.running + status.waiting));
            }
        }
        books
    }

    /// What is wrong now that everything should be at rest, if anything.
    pub(crate) async fn unrest(&self) -> Option<String> {
        let inside = self.front.frontend.in_flight();
        if inside > 0 {
            return Some(format!("{inside} requests are still inside"));
        }
        let open = self.front.router.in_flight();
        if open > 0 {
            return Some(format!("{open} placements were never given back"));
        }
        let views = self.front.router.workers();
        for (id, running) in &self.workers {
            let status = running.worker.status();
            let busy = (status.running, status.waiting, status.active_blocks);
            if busy != (0, 0, 0) {
                return Some(format!(
                    "worker {id} still has {busy:?}: running, waiting, blocks"
                ));
            }
            let Some(view) = views.iter().find(|view| view.card.id.0 == *id) else {
                return Some(format!("worker {id} is not a member"));
            };
            let Ok(snapshot) = running.link.snapshot().await else {
                return Some(format!("worker {id} gives no snapshot"));
            };
            let (indexed, held) = (view.indexed_blocks, snapshot.blocks.len() as u64);
            if indexed != held {
                return Some(format!(
                    "the index has {indexed} blocks of worker {id}, which holds {held} ({:?})",
                    view.feed
                ));
            }
        }
        None
    }
}

fn front(scene: &Scene, mode: &str, queue_limit: u32, clock: Clock, tasks: &TaskTracker) -> Front {
    let registry = Registry::new();
    let config = RouterConfig {
        mode: mode.parse().expect("a plan names real modes"),
        queue_limit,
        ..RouterConfig::new(scene.profile.block_size)
    };
    let router = Router::new(config, &registry, clock);
    let (roster, changes) = roster();
    let parts = Parts {
        registry,
        clock,
        id: FrontendId(1),
        fleet_commands: None,
        shares_engines: false,
        tracer: spans::Tracer::off(),
        recorder: request_trace::Recorder::off(),
    };
    let config = FrontendConfig {
        max_requests: 1000,
        max_body_bytes: 1 << 20,
        max_buffered_bytes: 64 << 20,
        max_queue_wait: None,
        trust_priority: false,
        unknown_fields: UnknownFields::Refuse,
        normalize_agents: true,
        stored_responses: frontend::StoreLimits {
            entries: 100,
            bytes: 1 << 20,
        },
        access: Access::Open,
        api_keys: None,
        faults: FaultLimits {
            stall_timeout: STALL_TIMEOUT,
            ..FaultLimits::default()
        },
        slow_reader_timeout: Duration::from_secs(30),
        forward: frontend::ForwardPolicy::default(),
    };
    let dead = CancellationToken::new();
    let tasks = Tasks {
        tracker: tasks.clone(),
        stop: dead.clone(),
    };
    let frontend = Frontend::new(config, parts);
    let model = ModelParts {
        name: scene.profile.model.clone(),
        preprocessor: preprocessor(&scene.profile),
        router: router.clone(),
        adapters: Vec::new(),
        changes,
    };
    frontend.serve_model(model, &tasks);
    Front {
        frontend,
        router,
        roster,
        dead,
    }
}
