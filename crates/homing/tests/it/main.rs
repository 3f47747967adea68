//! The program, and what only all crates together show.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod console;
mod loadgen;
mod observability;
mod same_system;
mod sweep;
