//! Chooses a worker for each request, reserves it, and explains why.
//!
//! The crate is a pure core and a thin shell. [`State`] holds everything the router knows
//! and takes time as an argument; [`Router`] puts it behind one short lock and hands out
//! [`Placement`]s that give their capacity back when dropped. A discrete-event loop drives
//! [`State`] directly and so takes the very decisions that the server takes.
//!
//! | module | what it answers |
//! |---|---|
//! | [`query`] | what is asked and answered |
//! | [`state`] | who is a member, who may take this request, what is reserved |
//! | [`prefix_index`] | which worker holds which prefix (from the workers' events) |
//! | [`active_blocks`] | which blocks the running requests use, and will leave behind |
//! | [`feed`] | are a worker's events complete, and what if not |
//! | [`load`] | what the router has sent to a worker and not seen finished |
//! | [`health`] | whether a worker is trusted, and with how many requests |
//! | [`learn`] | how fast each worker is, from what is seen of its requests |
//! | [`policy`] | the seam: which of the candidates |
//! | [`queue`] | who waits while every worker is full, and whose turn it is |
//! | [`mode`] | the policies by name, with their parameters |
//! | [`decision`] | what was decided, on which figures, and how it turned out |
//! | [`router`] | the lock, the guard, the metrics |
//!
//! Absent on purpose: nothing here knows HTTP, links to workers, or how events travel, and
//! nothing waits, except callers of [`Router::route`] while every worker is full.

pub mod active_blocks;
mod block_table;
mod change;
mod completions;
pub mod config;
pub mod decision;
pub mod feed;
pub mod health;
pub mod learn;
pub mod load;
mod metrics;
pub mod mode;
pub mod policy;
pub mod prefix_index;
pub mod query;
pub mod queue;
mod reservations;
pub mod router;
mod sessions;
pub mod state;
mod sync;
mod worker_set;

pub use change::{RouterChange, RouterState};
pub use config::RouterConfig;
pub use decision::{Decision, Excluded, Handling, Outcome, WhyNot};
pub use feed::{FeedState, Observed};
pub use health::{Condition, Health};
pub use learn::{Outlook, Priors};
pub use mode::{BlockWeights, MODES, Mode, ModeError, ModeName, ModeSpec};
pub use policy::{Candidate, Choice, Holder, Policy, Reason, RequestView, Terms};
pub use query::{Claim, Identity, Placed, RouteError, RouteQuery, Ticket};
pub use queue::HIGHEST_PRIORITY;
pub use router::{Placement, Router};
pub use state::{FeedOutcome, JoinError, State, WorkerLoad, WorkerView};
