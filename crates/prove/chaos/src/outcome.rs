//! What a run should produce, and what became of it.

use std::collections::BTreeMap;
use std::fmt;

/// What an undisturbed worker says, by what it is asked.
pub type Expected = BTreeMap<String, String>;

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub complete: u32,
    /// Explicit errors: refused, or broken off with an error event.
    pub errors: u32,
    /// Clients or frontends that went away first.
    pub abandoned: u32,
}

/// What must hold and did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
