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
pub mod failure;
pub mod histogram;
pub mod reading;
pub mod samples;
pub mod schedule;
pub mod script;
pub mod sse;
pub mod tally;

pub use driver::{Driver, Ending};
pub use histogram::Histogram;
pub use samples::{Percentiles, Samples};
pub use schedule::{Burst, Schedule};
pub use script::{Popularity, Script, Starters, TurnPlan};
pub use tally::{Stopwatch, Tally, Window};
