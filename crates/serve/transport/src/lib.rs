//! How a frontend sends requests to workers and receives their events.
//!
//! Three things cross the gap between the routing side and the engine side, and each has
//! its module:
//!
//! - [`link`]: requests go out, token streams come back ([`WorkerLink`], the seam);
//! - [`feed`]: cache events and status reports flow back without being asked for;
//! - [`membership`]: workers come and go ([`Roster`] on the announcing side, [`Changes`]
//!   on the routing side).
//!
//! What is here are the in-memory twins, which the one-process demo and the tests use. A
//! networked transport produces the same three things, so nothing above this crate can
//! tell where a worker runs.

pub mod feed;
pub mod link;
pub mod membership;

pub use feed::{Delivery, Feed, FeedPublisher, feed};
pub use link::{Forwarder, LinkFuture, Overheard, WorkerLink};
pub use membership::{Change, Changes, Member, Roster, roster};
