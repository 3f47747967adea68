//! Workers on other machines.
//!
//! [`transport`] says what crosses the gap between routing and engines: requests, events,
//! membership. Here is how it crosses a network. A worker's process has a
//! [`transport::Member`] and [serves](serve) it; a frontend's process [connects](connect) and
//! gets a `Member` back, and neither the router nor the engine can tell the difference.
//!
//! ```text
//! frontend process                                       worker process
//!   Roster ◄── Member ◄── connect ◄═══ Attach ═══► serve ◄── Member ◄── Worker
//!                 link ──────────────► Generate ──► link
//!                 feed ◄── events ◄══ gRPC | NATS | ZeroMQ ══◄ feed
//! discovery ── addresses ──► connect                     └── registers itself (etcd)
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`wire`] | the messages, and their translation from and to [`contract`] |
//! | [`registration`] | what a worker says it is, and whether a frontend can use it |
//! | [`leases`] | how a worker divides its slots among frontends |
//! | [`serve`] | the worker's side |
//! | [`connect`], [`link`] | the frontend's side |
//! | [`peers`] | how frontends divide engines that do not do it themselves |
//! | `silence` | when the other side counts as gone |
//! | [`events`] | the event planes |
//! | [`discovery`] | where workers are: a list, etcd, Kubernetes |
//! | [`tls`] | certificates of both sides |
//!
//! # Guarantees
//!
//! - **Silence is noticed.** Each side hears from the other several times per second; a worker
//!   that falls silent is gone after [`connect::SILENCE`], and every stream from it ends with
//!   an error, so that requests move on. Our own sleep is not their silence.
//! - **Lost events cost hits, never answers.** A gap is repaired by a snapshot over the
//!   request plane, whatever became of the event plane.
//! - **Slots are never given twice.** The sum of what a worker's frontends may have on it
//!   never exceeds its slots, however late they hear of each other ([`leases`]).

pub mod connect;
pub mod discovery;
pub mod events;
pub mod leases;
pub mod link;
mod metrics;
pub mod peers;
pub mod registration;
pub mod serve;
mod silence;
pub mod tls;
pub mod wire;
