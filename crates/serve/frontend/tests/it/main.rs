//! The frontend with a router and simulated workers in one process, on a clock that tests
//! advance.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod door;
mod failures;
mod pick;
mod serving;
mod traces;
mod unread;
mod virtual_time;
mod waiting;
