//! The whole cluster in one process, on a clock that tests advance.

mod cluster;
mod failures;
mod serving;
mod virtual_time;
