//! Sweeps: every mode at every concurrency, on virtual workers or on a running server, into a
//! folder that can be resumed and published.
//!
//! | module | what it does |
//! |---|---|
//! | [`plan`], [`order`] | what is run and in which order, checked |
//! | [`story`] | the four stages of the demo |
//! | [`virtual_run`] | runs on simulated workers, into a folder |
//! | [`live`] | the same against a running server |
//! | [`replay`] | a recorded trace against a running server |
//! | [`folder`] | where runs leave their records |
//! | [`analysis`], [`publish`] | a folder's records become a summary, a report and exports |

pub mod analysis;
pub mod folder;
pub mod live;
pub mod order;
pub mod plan;
pub mod publish;
pub mod replay;
pub mod story;
pub mod virtual_run;

pub use analysis::analyse;
pub use folder::{Folder, FolderError, SweepSession};
pub use plan::{PartialPlan, Plan, PlanError, Testbed};
pub use publish::publish;
pub use virtual_run::VirtualRun;
