//! Faults in virtual time: the shipped frontend, router and workers, and everything that can
//! go wrong between them, drawn from a seed.
//!
//! One run is a few dozen conversations of several turns over three simulated workers, on a
//! paused clock: minutes of trouble in a fraction of a second, and the same seed gives the same
//! run. The links and feeds between frontend and workers go through [`wires`], which lose,
//! repeat, reorder and delay as the [`plan`] says; workers crash and come back; the frontend is
//! replaced; clients hang up, never read, read a byte per second, ask for more than there are
//! slots, or all at once.
//!
//! What must hold, whatever the seed ([`run`]):
//!
//! 1. Every request that was accepted ends in exactly one complete stream or one explicit
//!    error, unless its client or its frontend went away first.
//! 2. What a client got is the beginning of what an undisturbed worker says: no token twice,
//!    none left out. Complete streams are all of it.
//! 3. Nothing leaks: when everything is quiet, no placement is open, no sequence runs, and no
//!    block is referenced.
//! 4. The router's index agrees with what the workers hold.
//! 5. The router holds a worker's slot for taken exactly while the worker's engine has a
//!    sequence for it, but for what is on its way between them.

mod guest;
mod outcome;
pub mod plan;
pub mod run;
pub mod system;
pub mod wires;

pub use outcome::{Expected, Failure, Outcome};
pub use run::run;
