//! The system as separate processes on this machine, with the real servers between them.
//!
//! Nothing here is simulated but the engines: frontends and workers are the shipped program,
//! etcd and NATS are Debian's. They run in real time, so these tests assert what must come out
//! and print how long it took.

#![expect(clippy::print_stdout, reason = "they show how long things took")]

mod batches;
mod client;
mod consoles;
mod dynamo;
mod engines;
mod failover;
mod frontends;
mod hostile;
mod hosts;
mod models;
mod recorded;
mod refusals;
mod smollm2;
mod system;
mod turns;
