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
//! | [`plan`], [`order`] | what is run and in which order, checked |
//! | [`story`] | the four stages of the demo |
//! | [`workload`] | what a TOML file says about load and workers, checked |
//! | `content`, `dialogue` | plans become tokens |
//! | [`trace`] | recorded requests become tokens |
//! | `load` | what is sent next: conversations or a trace |
//! | [`cluster`] | the event loop |
//! | [`contestant`] | who takes part: a mode, or a rule from elsewhere |
//! | [`cell`] | one run with one mode at one level |
//! | [`live`] | the same against a running server |
//! | [`raw`], [`folder`] | what runs leave behind, and where |
//! | [`grid`], [`virtual_run`] | many cells on all cores, in memory or into a folder |
//! | [`figures`], [`traffic`] | what the runs of a cell come to |
//! | [`intervals`], `student` | how sure that is, and whether modes differ |
//! | [`coverage`] | whether it is as sure as it says |
//! | [`guards`] | what makes a cell doubtful |
//! | [`headline`], [`slo`] | the highest load under objectives, and where modes cross |
//! | [`summary`], [`analysis`] | all of it together |
//! | [`report`], [`publish`] | a summary in every form that somebody reads |
//! | [`baseline`] | the same for a console to draw |
//! | [`compare`] | how far a sweep is off from published measurements |
//! | [`learning`] | how soon what the router learns is as good as knowing |
//! | [`setting`], [`notation`] | what people name and write becomes a plan |
//! | [`meter`] | how far it is |
//!
//! # Guarantees
//!
//! - **Deterministic.** The figures depend on plan and seed alone, not on the number of
//!   threads or the order in which cells are computed.
//! - **Paired.** Every mode and every level of a repeat meets the same conversations.

pub mod analysis;
pub mod baseline;
pub mod cell;
pub mod cluster;
pub mod compare;
mod content;
pub mod contestant;
pub mod coverage;
mod date;
mod dialogue;
pub mod figures;
pub mod folder;
pub mod greedy;
mod grid;
pub mod guards;
pub mod headline;
pub mod intervals;
pub mod learning;
pub mod live;
mod load;
pub mod meter;
pub mod notation;
pub mod order;
pub mod plan;
pub mod publish;
pub mod raw;
pub mod report;
pub mod setting;
pub mod slo;
pub mod story;
mod student;
pub mod summary;
pub mod trace;
pub mod traffic;
pub mod virtual_run;
pub mod workload;

pub use analysis::analyse;
pub use baseline::baseline;
pub use cell::{CellPlan, run_cell, run_recorded};
pub use cluster::{Change, ChangeKind, Record, WorkerPlan};
pub use compare::{Comparison, Measurements, MeasurementsError};
pub use contestant::Contestant;
pub use folder::{Folder, FolderError, Sitting};
pub use grid::{Measured, NEVER, Pace, Progress, ReplayPlan, SweepPlan, replay, search, sweep};
pub use meter::timed;
pub use plan::{Plan, PlanError, Testbed, Wish};
pub use publish::publish;
pub use raw::{CellName, RawCell};
pub use setting::{Setting, SettingError, find_profile};
pub use slo::{Objectives, SloSummary};
pub use summary::{About, CellSummary, ReportData, Summary};
pub use trace::{Trace, TraceError};
pub use virtual_run::VirtualRun;
pub use workload::{Workload, WorkloadError};
