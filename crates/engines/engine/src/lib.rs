//! The inference engine: continuous batching over a paged block pool with prefix reuse.
//!
//! A request walks through the modules in this order:
//!
//! | module | what it does |
//! |---|---|
//! | [`engine`] | the asynchronous loop: commands in, steps, chunks and events out |
//! | [`scheduler`] | decides what the next step computes; pure |
//! | `sequence` | one request's tokens, blocks and progress |
//! | [`block_pool`] | KV memory: references, reuse, eviction, events; pure |
//! | [`executor`] | the seam to whatever runs a step |
//! | [`sim`] | the simulated executor: timing profiles and answers |
//! | [`calibration`] | the constants of a profile, measured on an executor |
//! | [`metrics`] | what a worker reports |
//!
//! The pure parts take time as an argument, so a discrete-event loop drives the same
//! scheduler, pool and simulator without this crate's asynchronous shell.

pub mod block_pool;
pub mod calibration;
pub mod engine;
pub mod executor;
pub mod metrics;
pub mod scheduler;
mod sequence;
pub mod sim;

pub use block_pool::{BlockId, BlockPool};
pub use engine::{Engine, EngineHandle, Feed, Wiring};
pub use executor::{Batch, Drafting, Executor, ExecutorError, Limits, Phase, Row, StepOutput};
pub use metrics::EngineMetrics;
pub use scheduler::{Scheduler, Submission};
pub use sim::{AnswerBank, Profile, ProfileError, SimExecutor};
