//! The whole cluster in one process, on a clock that tests advance.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod cluster;
mod console;
mod door;
mod failures;
mod loadgen;
mod observability;
mod same_system;
mod serving;
mod sweep;
mod unread;
mod virtual_time;
mod waiting;
