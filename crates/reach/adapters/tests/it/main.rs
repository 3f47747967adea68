//! Engines of others behind the router, over real sockets. The engines are stand-ins of ours
//! that speak the public formats; none of the real ones has been run here.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod cache;
mod events;
mod failures;
mod forwarding;
mod harness;
mod publisher;
mod serving;
mod standin;
mod tracing;
