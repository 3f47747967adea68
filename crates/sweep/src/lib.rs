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
//! | `content`, `dialogue` | plans become tokens |
//! | [`trace`] | recorded requests become tokens |
//! | `load` | what is sent next: conversations or a trace |
//! | [`cluster`] | the event loop |
//! | [`contestant`] | who takes part: a mode, or a rule from elsewhere |
//! | [`cell`] | one run with one mode at one level |
//! | [`grid`] | many cells on all cores |
//! | [`learning`] | how soon what the router learns is as good as knowing |
//! | [`report`] | JSON, CSV and a table |
//! | [`baseline`] | the same for a console to draw |
//! | [`compare`] | how far a sweep is off from published measurements |
//! | [`setting`], [`notation`] | what people name and write becomes a plan |
//! | [`meter`] | how far it is |
//! | [`slo`] | the highest load under which latency objectives hold |
//!
//! # Guarantees
//!
//! - **Deterministic.** The figures depend on plan and seed alone, not on the number of
//!   threads or the order in which cells are computed.
//! - **Paired.** Every mode and every level of a repeat meets the same conversations.

pub mod baseline;
pub mod cell;
pub mod cluster;
pub mod compare;
mod content;
pub mod contestant;
mod dialogue;
pub mod grid;
pub mod learning;
mod load;
pub mod meter;
pub mod notation;
pub mod report;
pub mod setting;
pub mod slo;
pub mod trace;
pub mod workload;

pub use baseline::baseline;
pub use cell::{CellPlan, Measured, Spread, run_cell, run_recorded};
pub use cluster::{Change, ChangeKind, Record, WorkerPlan};
pub use compare::{Comparison, Measurements, MeasurementsError};
pub use contestant::Contestant;
pub use grid::{Pace, Progress, ReplayPlan, SweepPlan, replay, search, sweep};
pub use meter::timed;
pub use report::{CellSummary, Summary};
pub use setting::{Setting, SettingError, find_profile};
pub use slo::{Objectives, SloSummary};
pub use trace::{Trace, TraceError};
pub use workload::{Workload, WorkloadError};
