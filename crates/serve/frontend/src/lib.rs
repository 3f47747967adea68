//! The HTTP service: admit, prepare, route, dispatch, stream.
//!
//! ```text
//! respond ── admit, read, parse ──► preprocess ──► drive ── journey: route, dispatch ──► worker
//!    │                                               │                                    │
//!    └──► stream | collect ◄── answer (text) ◄── reply ◄────────── chunks ◄───────────────┘
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`respond`] | one HTTP request's walk, the same for chat and completions |
//! | [`exchange`] | a request that is being answered, and what it holds |
//! | [`caller`], [`keys`] | who sends a request, and what they are allowed to do |
//! | [`dispatch`] | what requests are dispatched with: router, workers, limits |
//! | [`drive`] | the task that reads a worker for a client, to the answer's end |
//! | [`reply`] | the buffer between that task and the one that writes to the client |
//! | [`journey`] | a request's way over the workers: which, and which next if one fails |
//! | [`answer`] | chunks become text; stop strings end an answer |
//! | [`stream`], [`collect`] | the two ways to send text |
//! | [`fleet`] | follows membership, pumps feeds into the router |
//! | [`admission`] | the door |
//! | [`intake`] | reads bodies and works on them, within limits |
//! | [`control`], [`fleet_command`] | looking into the server and changing it |
//! | [`shape`] | the APIs that an answer can be written for |
//! | [`service`] | routes, health, models, metrics |
//! | [`listen`] | connections: how many, for how long, under which names |
//! | [`slow_reader`] | cuts off clients that do not read |
//! | [`error`], [`metrics`] | what went wrong; what is counted |
//!
//! Cancellation has one path: hyper drops the response body or the handler's future, and
//! everything the request held goes with it.

mod admission;
mod answer;
mod caller;
mod collect;
mod control;
mod dispatch;
mod drive;
mod error;
mod exchange;
mod fleet;
mod fleet_command;
mod intake;
mod journey;
mod keys;
mod listen;
mod logprobs;
mod metrics;
mod reply;
mod respond;
mod routing;
mod service;
mod shape;
mod slow_reader;
mod stream;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use contract::{BlockFormat, Clock, FrontendId, ModelName};
use openai::responses::ResponseStore;
use parking_lot::Mutex;
use preprocess::Preprocessor;
use router::Router;
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::mpsc;
use transport::Changes;

pub use contract::Access;
pub use openai::UnknownFields;
pub use openai::responses::StoreLimits;

pub use crate::control::random_token;
pub use crate::fleet_command::{FleetCommand, FleetError};
pub use crate::keys::{ApiKeys, KeyFileError, KeyRing};
pub use crate::listen::{Connections, Listening, serve};

use crate::admission::Admission;
use crate::dispatch::{Dispatch, Limits};
use crate::fleet::Fleet;
use crate::intake::Intake;
use crate::metrics::FrontendMetrics;

/// Limits and access.
#[derive(Clone, Debug)]
pub struct FrontendConfig {
    /// Requests held at once, whatever their state.
    pub max_requests: usize,
    pub max_body_bytes: usize,
    /// Bytes of large bodies held at once; never less than one body.
    pub max_buffered_bytes: usize,
    /// A request that is expected to wait longer for a worker is refused at once, and one that
    /// has waited so long leaves the queue. It may ask for less time, not for more.
    pub max_queue_wait: Option<Duration>,
    /// Whether the priority that a client asks for counts, where no key says how far it may go.
    pub trust_priority: bool,
    /// What happens to fields of a request that nobody knows.
    pub unknown_fields: UnknownFields,
    /// Whether what changes with every request at the head of a well-known agent's system prompt
    /// is removed.
    pub normalize_agents: bool,
    /// How much is kept for requests that continue a response.
    pub stored_responses: StoreLimits,
    pub access: Access,
    /// If set, every request for an answer must carry one of these keys.
    pub api_keys: Option<KeyRing>,
    /// The same as the workers'.
    pub blocks: BlockFormat,
    pub faults: FaultLimits,
    /// An answer whose client is further behind is given up.
    pub slow_reader_timeout: Duration,
}

/// What is done about workers that fail.
#[derive(Clone, Copy, Debug)]
pub struct FaultLimits {
    /// Failures after which a request is not sent to yet another worker.
    pub migrations: u32,
    pub first_token_timeout: Duration,
    /// Longest pause between two chunks of an answer.
    pub stall_timeout: Duration,
}

impl Default for FaultLimits {
    fn default() -> Self {
        Self {
            migrations: 3,
            first_token_timeout: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(30),
        }
    }
}

/// What the frontend is made of.
#[derive(Debug)]
pub struct Parts {
    pub model: ModelName,
    pub preprocessor: Preprocessor,
    pub router: Router,
    pub registry: Registry,
    pub clock: Clock,
    /// Distinguishes this frontend from others of the same workers.
    pub id: FrontendId,
    /// Starts and stops workers, if this process can.
    pub fleet_commands: Option<mpsc::Sender<FleetCommand>>,
}

/// The shared state of all handlers.
#[derive(Debug)]
struct App {
    model: ModelName,
    preprocessor: Preprocessor,
    dispatch: Arc<Dispatch>,
    admission: Arc<Admission>,
    metrics: Arc<FrontendMetrics>,
    registry: Registry,
    clock: Clock,
    access: Access,
    api_keys: Option<KeyRing>,
    intake: Intake,
    max_queue_wait: Option<Duration>,
    trust_priority: bool,
    unknown_fields: UnknownFields,
    normalize_agents: bool,
    responses: Mutex<ResponseStore>,
    fleet_commands: Option<mpsc::Sender<FleetCommand>>,
}

impl App {
    fn unix_now(&self) -> u64 {
        self.clock.unix(self.clock.now()).as_secs()
    }

    /// Whether any worker is a simulation.
    fn simulated(&self) -> bool {
        self.dispatch.fleet.simulated()
    }
}

/// A running frontend, without its listeners. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Frontend {
    app: Arc<App>,
}

impl Frontend {
    /// Starts to follow `changes` on `tasks`; stops following when they are stopped.
    pub fn start(config: FrontendConfig, parts: Parts, changes: Changes, tasks: &Tasks) -> Self {
        let metrics = FrontendMetrics::new(&parts.registry, parts.clock, &parts.model);
        let fleet = Fleet::new(parts.router.clone(), Arc::clone(&metrics), parts.id);
        tasks.spawn(fleet.clone().tell_loads(tasks.stop.clone()));
        tasks.spawn(fleet.clone().follow(changes, tasks.clone()));
        let dispatch = Arc::new(Dispatch {
            router: parts.router,
            fleet,
            metrics: Arc::clone(&metrics),
            clock: parts.clock,
            tasks: tasks.clone(),
            limits: Limits {
                faults: config.faults,
                reader_lag: config.slow_reader_timeout,
                blocks: config.blocks,
            },
        });
        Self {
            app: Arc::new(App {
                model: parts.model,
                preprocessor: parts.preprocessor,
                dispatch,
                admission: Admission::new(config.max_requests),
                metrics,
                registry: parts.registry,
                clock: parts.clock,
                access: config.access,
                api_keys: config.api_keys,
                intake: Intake::new(config.max_body_bytes, config.max_buffered_bytes),
                max_queue_wait: config.max_queue_wait,
                trust_priority: config.trust_priority,
                unknown_fields: config.unknown_fields,
                normalize_agents: config.normalize_agents,
                responses: Mutex::new(ResponseStore::new(config.stored_responses)),
                fleet_commands: parts.fleet_commands,
            }),
        }
    }

    /// The routes, for a listener or for a test.
    pub fn service(&self) -> axum::Router {
        service::routes(Arc::clone(&self.app))
    }

    /// Refuses new requests from now on.
    pub fn close(&self) {
        self.app.admission.close();
    }

    /// Requests being answered.
    pub fn in_flight(&self) -> usize {
        self.app.admission.inside()
    }

    /// Waits until no request is being answered.
    pub async fn idle(&self) {
        // A level that is looked at, not an edge that could be missed.
        while self.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
