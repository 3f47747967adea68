//! The interface through which the console reads and changes the serving system.

use std::fmt;

use futures_util::future::BoxFuture;
use router::RouterChange;

use crate::error::Problem;
use crate::state::{RouterState, SystemView};

/// The serving system.
pub trait System: Send + Sync + fmt::Debug {
    /// As it is known now: short, and never waits.
    fn view(&self) -> SystemView;

    /// Changes how workers are chosen: `mode` and its parameters, as `PUT /router` of the API
    /// takes them. With `model`, of one of several models.
    fn change_router<'a>(
        &'a self,
        model: Option<&'a str>,
        change: RouterChange,
    ) -> BoxFuture<'a, Result<RouterState, Refusal>>;
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The message shown to the user.
    pub message: String,
    /// The offending field, where it is one.
    pub field: Option<String>,
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::bad_request(refusal.message).field(refusal.field)
    }
}
