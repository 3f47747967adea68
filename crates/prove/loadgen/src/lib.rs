//! The load generator: which requests are sent when, and what is measured about the answers.
//!
//! The crate is a pure core with a thin shell. A [`Driver`] decides which turn of which
//! conversation to send, and takes reports of answers that end; it takes time as an argument
//! and knows nothing of text or of sending. A virtual cluster drives it, and so does the shell
//! in [`live`], against a server over HTTP, where an answer's bytes with their moments are all
//! that its figures are made from.
//!
//! | module | what it answers |
//! |---|---|
//! | [`script`] | what conversations are like, and what conversation number *n* is |
//! | [`schedule`] | how many conversations there are at a moment |
//! | [`driver`] | which turn is due now |
//! | [`samples`] | exact percentiles of some thousand values |
//! | [`histogram`] | percentiles of some million values within 0.05 % |
//! | [`corpus`], [`starter`], [`follow_up`] | what users say |
//! | [`reading`] | the content of a streamed answer, and when it arrived |
//! | [`record`], [`failure`] | what is kept about one request |
//! | [`rolling`], [`totals`] | the last minute; the whole run |
//! | [`by_mode`] | TTFT by routing mode and turn |
//! | [`settings`], [`snapshot`], [`log`] | what a console sets and shows |
//! | [`client`], [`user_model`] | sending, and a model in the user's place |
//! | [`readiness`] | whether a server has somebody who answers |
//! | [`live`] | all of it together, running |
//! | [`metrics`], [`exposition`] | what Prometheus sees |
//! | [`baseline`] | what a laboratory found, for a console to draw |

pub mod baseline;
pub mod by_mode;
pub mod client;
pub mod corpus;
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
pub mod readiness;
pub mod reading;
pub mod record;
pub mod rolling;
pub mod samples;
pub mod schedule;
pub mod script;
pub mod settings;
pub mod snapshot;
pub mod starter;
pub mod totals;
pub mod user_model;
pub mod warm;

pub use driver::{Driver, Ending, Fate};
pub use failure::{Failure, FailureKind};
pub use histogram::Histogram;
pub use live::{LiveConfig, LiveParts, LoadGenerator};
pub use readiness::Readiness;
pub use record::{RequestRecord, TurnType};
pub use samples::{Percentiles, Samples};
pub use schedule::{Burst, Schedule};
pub use script::{Popularity, Script, Starters, TurnPlan};
pub use settings::{Settings, StarterMode};
pub use snapshot::{Phase, Snapshot};
pub use starter::Starter;
