//! Load: who asks what and when, and what is measured about the answers.
//!
//! The crate is a pure core. A [`Driver`] says which turn of which conversation is to be
//! sent, and is told when an answer ends; a [`Tally`] is told when requests begin, stream
//! and end, and knows the figures. Both take time as an argument. Who turns a plan into
//! text or tokens, and who sends it, is not known here: a virtual cluster assembles tokens,
//! a client over HTTP would assemble text, and both drive the same conversations and count
//! in the same way.
//!
//! | module | what it answers |
//! |---|---|
//! | [`script`] | what conversations are like, and what conversation number *n* is |
//! | [`schedule`] | how many conversations there are at a moment |
//! | [`driver`] | which turn is due now |
//! | [`samples`] | exact percentiles of some thousand values |
//! | [`histogram`] | percentiles of some million values within 0.05 % |
//! | [`tally`] | what a measurement window saw |

pub mod client;
pub mod driver;
pub mod exposition;
pub mod failure;
pub mod follow_up;
pub mod histogram;
pub mod live;
pub mod log;
pub mod metrics;
#[cfg(test)]
mod mock;
pub mod reading;
pub mod record;
pub mod rolling;
pub mod samples;
pub mod schedule;
pub mod script;
pub mod settings;
pub mod snapshot;
pub mod sse;
pub mod starter;
pub mod tally;
pub mod totals;
pub mod user_model;

pub use driver::{Driver, Ending, Fate};
pub use failure::{Failure, FailureKind};
pub use histogram::Histogram;
pub use live::{LiveConfig, LiveParts, LoadGenerator};
pub use record::{RequestRecord, TurnType};
pub use samples::{Percentiles, Samples};
pub use schedule::{Burst, Schedule};
pub use script::{Popularity, Script, Starters, TurnPlan};
pub use settings::Settings;
pub use snapshot::{Phase, Snapshot};
pub use starter::Starter;
pub use tally::{Stopwatch, Tally, Window};
