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
//! | [`model`] | the served models, and what each has for itself |
//! | [`respond`] | one HTTP request's walk, the same for chat and completions |
//! | [`asked`], [`way`] | what a request asks, and who answers it |
//! | [`exchange`] | a request that is being answered, and what it holds |
//! | [`caller`], [`keys`] | who sends a request, and what they are allowed to do |
//! | [`dispatch`] | what requests are dispatched with: router, workers, limits |
//! | [`drive`] | the task that reads a worker for a client, to the answer's end |
//! | [`reply`] | the buffer between that task and the one that writes to the client |
//! | [`journey`] | a request's way over the workers: which, and which next if one fails |
//! | [`answer`] | chunks become text; stop strings end an answer |
//! | [`stream`], [`collect`] | the two ways to send text |
//! | [`forward`] | requests that an engine's own server answers |
//! | [`pick`] | requests that a proxy carries: where they are to go, and how they went |
//! | [`books`] | what is learned from an answer's chunks |
//! | [`fleet`] | follows membership, pumps feeds into the router |
//! | [`admission`] | the door |
//! | [`intake`] | reads bodies and works on them, within limits |
//! | [`allowance`] | how long a slow body is waited for |
//! | [`control`], [`fleet_command`] | looking into the server and changing it |
//! | [`shape`] | the APIs that an answer can be written for |
//! | [`service`] | routes, health, models, metrics |
//! | [`listen`] | connections: how many, for how long, under which names |
//! | [`slow_reader`] | cuts off clients that do not read |
//! | [`error`], [`metrics`], [`labels`] | what went wrong; what is counted, under which names |
//! | [`traced`] | what the spans of a request say |
//!
//! Cancellation has one path: hyper drops the response body or the handler's future, and
//! everything the request held goes with it.

mod admission;
mod allowance;
mod answer;
mod asked;
mod books;
mod caller;
mod collect;
mod contacts;
mod control;
mod dispatch;
mod drive;
mod error;
mod exchange;
mod fleet;
mod fleet_command;
mod forward;
mod headers;
mod intake;
mod journey;
mod keys;
mod labels;
mod listen;
mod logprobs;
mod metrics;
mod model;
mod pick;
mod recorded;
mod reply;
mod respond;
mod routing;
mod service;
mod shape;
mod slow_reader;
mod stream;
mod traced;
mod way;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, FrontendId, FrontendLoad, Lease, ModelName, WorkerId};
use openai::responses::ResponseStore;
use parking_lot::Mutex;
use request_trace::Recorder;
use router::Router;
use spans::Tracer;
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::mpsc;

pub use contract::Access;
pub use openai::UnknownFields;
pub use openai::responses::StoreLimits;
pub use router::WorkerLoad;

pub use crate::control::random_token;
pub use crate::error::Refused;
pub use crate::fleet_command::{FleetCommand, FleetError};
pub use crate::forward::{ForwardMode, ForwardPolicy};
pub use crate::keys::{ApiKeys, KeyFileError, KeyRing};
pub use crate::listen::{Connections, Listening, Tls, TlsError, TlsPem, serve};
pub use crate::model::ModelParts;
pub use crate::pick::{Call, HeldBody, Incoming, Objectives, Offered, Pick, PickConfig, Picker};

use crate::admission::Admission;
use crate::intake::Intake;
use crate::model::{Models, ServedModel, Shared};

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
    /// What goes to the server of a worker's own engine, where it has one.
    pub forward: ForwardPolicy,
    /// Whether what changes with every request at the head of a well-known agent's system prompt
    /// is removed.
    pub normalize_agents: bool,
    /// How much is kept for requests that continue a response.
    pub stored_responses: StoreLimits,
    pub access: Access,
    /// If set, every request for an answer must carry one of these keys.
    pub api_keys: Option<KeyRing>,
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

/// What the frontend is made of, besides its models.
#[derive(Debug)]
pub struct Parts {
    pub registry: Registry,
    pub clock: Clock,
    /// Distinguishes this frontend from others of the same workers.
    pub id: FrontendId,
    /// Starts and stops workers, if this process can.
    pub fleet_commands: Option<mpsc::Sender<FleetCommand>>,
    /// Whether other frontends use the same engines. One that does not divide its slots among
    /// frontends then gets no request until [`Frontend::share`] says how many it may get.
    pub shares_engines: bool,
    /// Of which requests spans are recorded.
    pub tracer: Tracer,
    /// Where a line goes for each answered prompt.
    pub recorder: Recorder,
}

/// What this frontend has on an engine that it shares with others.
#[derive(Clone, Debug)]
pub struct SharedEngine {
    pub model: ModelName,
    pub engine: WorkerLoad,
}

/// A served model and what chooses its workers.
#[derive(Clone, Debug)]
pub struct ServedRouter {
    pub model: ModelName,
    pub router: Router,
}

/// The shared state of all handlers.
#[derive(Debug)]
struct App {
    models: Models,
    shared: Shared,
    admission: Arc<Admission>,
    clock: Clock,
    access: Access,
    api_keys: Option<KeyRing>,
    intake: Intake,
    max_queue_wait: Option<Duration>,
    trust_priority: bool,
    unknown_fields: UnknownFields,
    forward: ForwardPolicy,
    normalize_agents: bool,
    responses: Mutex<ResponseStore>,
    fleet_commands: Option<mpsc::Sender<FleetCommand>>,
    tracer: Tracer,
}

impl App {
    fn unix_now(&self) -> u64 {
        self.clock.unix(self.clock.now()).as_secs()
    }
}

/// A running frontend, without its listeners. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Frontend {
    app: Arc<App>,
}

impl Frontend {
    /// Serves no model yet.
    pub fn new(config: FrontendConfig, parts: Parts) -> Self {
        let shared = Shared {
            registry: parts.registry,
            clock: parts.clock,
            id: parts.id,
            shares_engines: parts.shares_engines,
            faults: config.faults,
            reader_lag: config.slow_reader_timeout,
            recorder: parts.recorder,
        };
        Self {
            app: Arc::new(App {
                models: Models::default(),
                shared,
                admission: Admission::new(config.max_requests),
                clock: parts.clock,
                access: config.access,
                api_keys: config.api_keys,
                intake: Intake::new(config.max_body_bytes, config.max_buffered_bytes),
                max_queue_wait: config.max_queue_wait,
                trust_priority: config.trust_priority,
                unknown_fields: config.unknown_fields,
                forward: config.forward,
                normalize_agents: config.normalize_agents,
                responses: Mutex::new(ResponseStore::new(config.stored_responses)),
                fleet_commands: parts.fleet_commands,
                tracer: parts.tracer,
            }),
        }
    }

    /// Serves a model, in place of the one of the same name. Follows its workers on `tasks`, and
    /// stops following when they are stopped.
    pub fn serve_model(&self, parts: ModelParts, tasks: &Tasks) {
        let model = ServedModel::start(parts, &self.app.shared, tasks);
        self.app.models.insert(model);
    }

    /// Requests for the model are refused from now on; those that are being answered are not.
    pub fn retire_model(&self, name: &ModelName) {
        self.app.models.remove(name);
    }

    /// The routers of all models, in the order in which they came.
    pub fn routers(&self) -> Vec<ServedRouter> {
        let models = self.app.models.all();
        let routers = models.iter().map(|model| ServedRouter {
            model: model.name.clone(),
            router: model.dispatch.router.clone(),
        });
        routers.collect()
    }

    /// What this frontend has on the engines that it shares with others.
    pub fn shared_engines(&self) -> Vec<SharedEngine> {
        let models = self.app.models.all();
        let engines = models.iter().flat_map(|model| {
            let engines = model.dispatch.fleet.shared_engines().into_iter();
            engines.map(|engine| SharedEngine {
                model: model.name.clone(),
                engine,
            })
        });
        engines.collect()
    }

    /// Says how many requests this frontend may have on such an engine, and what the others have on it.
    pub fn share(
        &self,
        model: &ModelName,
        worker: WorkerId,
        lease: Lease,
        others: &[(FrontendId, FrontendLoad)],
    ) {
        let models = self.app.models.all();
        if let Some(model) = models.iter().find(|one| one.name == *model) {
            model.dispatch.fleet.share(worker, lease, others);
        }
    }

    /// The routes, for a listener or for a test.
    pub fn service(&self) -> axum::Router {
        service::routes(Arc::clone(&self.app))
    }

    /// What looks into the server and changes it, without the API.
    pub fn control_service(&self) -> axum::Router {
        service::inside(Arc::clone(&self.app))
    }

    /// Picks endpoints for proxies that carry the requests themselves.
    pub fn picker(&self, config: PickConfig) -> Picker {
        Picker::new(Arc::clone(&self.app), config)
    }

    /// Whether there is a worker to send requests to.
    pub fn is_serving(&self) -> bool {
        service::is_serving(&self.app)
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
