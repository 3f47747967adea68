//! The virtual laboratory: hours of load in seconds, on the code that ships.
//!
//! A discrete-event loop drives the shipped pure cores, step by step of the engine: router
//! state with its policies, scheduler, block pool, simulated executor, conversation driver
//! and statistics. Nothing here models them; there are only no sockets, no tasks and no
//! clock between them. A test of the whole program runs one plan through the asynchronous
//! pipeline as well and finds the same decisions and the same latencies.
//!
//! | module | what it does |
//! |---|---|
//! | [`workload`] | what a TOML file says about load and workers, checked |
//! | [`setting`], [`notation`] | what people name and write: workload, profile, levels, times |
//! | `content`, `dialogue` | plans become tokens |
//! | [`trace`], [`trace_requests`] | recorded requests become tokens, here and for a live server |
//! | `ask`, `load`, [`greedy`] | what is sent next: conversations, a trace, a greedy client |
//! | [`change`] | what happens to workers during a run |
//! | [`cluster`] | the event loop |
//! | [`contestant`] | who takes part: a mode, or a rule of another system |
//! | [`cell`] | one run with one mode at one concurrency |
//! | [`grid`], [`meter`] | many cells on all cores, and how far they are |
//! | [`learning`] | how soon what the router learns is as good as knowing |
//! | [`coverage`] | whether intervals hold as often as they say |
//!
//! # Guarantees
//!
//! - **Deterministic.** The figures depend on plan and seed alone, not on the number of
//!   threads or the order in which cells are computed.
//! - **Paired.** Every mode and every concurrency of a repeat gets the same conversations.

mod ask;
pub mod cell;
pub mod change;
pub mod cluster;
mod content;
pub mod contestant;
pub mod coverage;
mod dialogue;
pub mod greedy;
pub mod grid;
pub mod learning;
mod load;
pub mod meter;
pub mod notation;
pub mod setting;
pub mod trace;
pub mod trace_requests;
mod window;
pub mod workload;

pub use cell::{CellPlan, run_cell, run_recorded};
pub use change::{Change, ChangeKind, WorkerPlan};
pub use cluster::Record;
pub use contestant::Contestant;
pub use grid::{Measured, NEVER, Pace, Progress, ReplayPlan, SweepPlan, replay, search, sweep};
pub use meter::timed;
pub use setting::{Setting, SettingError};
pub use trace::{LineFault, Trace, TraceError, TraceFormat};
pub use workload::{Unfit, Workload, WorkloadError, WorkloadFault};
