//! What a command does, resolved: options, environment and files have been read, checked and
//! completed, and what cannot be is no value of these types.
//!
//! Each command's arguments end here: `resolve` reports every problem before anything runs, and
//! nothing beyond it sees the command line.

mod backend;
mod console;
mod cuda;
mod demo;
mod epp;
mod etcd;
mod frontend;
mod frontend_console;
mod load;
mod parts;
mod peers;
mod sources;
mod tracing;
mod worker;

pub(crate) use self::backend::{
    BackendPlan, DraftPlan, EnginePlan, LlamaPlan, ModelPlan, REAL_BLOCK, SimulationPlan,
};
pub(crate) use self::console::{BaselinePlan, ConsolePlan};
pub(crate) use self::cuda::CudaPlan;
pub(crate) use self::demo::{DemoPlan, ObservabilityPlan};
pub(crate) use self::epp::EppPlan;
pub(crate) use self::etcd::EtcdPlan;
pub(crate) use self::frontend::{FrontendPlan, Served, ServingPlan, listed_models};
pub(crate) use self::frontend_console::{ConsoleLoad, FrontendConsolePlan};
pub(crate) use self::load::{LoadPlan, TextPlan, TextSource, UserModelPlan};
pub(crate) use self::peers::PeersPlan;
pub(crate) use self::sources::{
    DynamoPlan, DynamoRegistry, Found, MoreUpstreams, OwnWorkers, Source, Upstreams, WorkerSources,
};
pub(crate) use self::tracing::{RequestTracePlan, SpansPlan, TracingPlan};
pub(crate) use self::worker::{EventsPlan, RegistrationPlan, WorkerPlan, draw_id};
