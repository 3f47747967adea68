//! Where the load comes from that a page shows and drives: a load generator in this process, one
//! elsewhere, or none.

mod elsewhere;

#[cfg(test)]
mod tests;

use http::{HeaderMap, StatusCode};
use loadgen::LoadGenerator;
use loadgen::snapshot::Snapshot;
use serde_json::{Map, Value};

pub use self::elsewhere::LoadElsewhere;
use self::elsewhere::PASSED_ON;
use crate::error::Problem;
use crate::settings;
use crate::state::LoadPlace;

/// What a console can start and stop.
#[derive(Clone, Debug)]
pub enum Load {
    None,
    Here(LoadGenerator),
    Elsewhere(LoadElsewhere),
}

impl Load {
    /// The newest; `None` where none is known.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Self::None => None,
            Self::Here(load) => Some(load.snapshot()),
            Self::Elsewhere(load) => load.snapshot(),
        }
    }

    pub(crate) fn place(&self) -> LoadPlace {
        match self {
            Self::None => LoadPlace::None,
            Self::Here(_) => LoadPlace::Here,
            Self::Elsewhere(load) => load.place(),
        }
    }

    /// Refuses what another console has passed on and would be passed on again.
    pub(crate) fn check_circle(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            Self::Elsewhere(_) if headers.contains_key(PASSED_ON) => {
                let message =
                    "This console has no load generator of its own; name the one that it names.";
                Err(Problem::new(StatusCode::LOOP_DETECTED, message).code("no_load_generator"))
            }
            Self::None | Self::Here(_) | Self::Elsewhere(_) => Ok(()),
        }
    }

    /// Performs an action and returns what comes of it. Idempotent: an action that changes nothing
    /// succeeds.
    pub(crate) async fn drive(&self, action: &str) -> Result<Snapshot, Problem> {
        let load = match self {
            Self::None => return Err(Problem::no_load()),
            Self::Elsewhere(load) => return load.drive(action).await,
            Self::Here(load) => load,
        };
        match action {
            "start" => load.start().await,
            "pause" => load.pause().await,
            "resume" => load.resume().await,
            "drain" => load.drain().await,
            "stop" => load.stop().await,
            other => return Err(Problem::unknown_action(other)),
        }
        Ok(load.snapshot())
    }

    /// Changes the settings that are named.
    pub(crate) async fn change(&self, change: Map<String, Value>) -> Result<Snapshot, Problem> {
        let load = match self {
            Self::None => return Err(Problem::no_load()),
            Self::Elsewhere(load) => return load.change(&change).await,
            Self::Here(load) => load,
        };
        let settings = settings::merge(&load.snapshot().settings, change)?;
        load.set(settings)
            .await
            .map_err(|error| Problem::bad_request(error.to_string()))?;
        Ok(load.snapshot())
    }
}

impl Problem {
    pub(crate) fn no_load() -> Self {
        let message = "This server was started without a load generator.";
        Self::new(StatusCode::NOT_FOUND, message).code("no_load_generator")
    }

    fn unknown_action(action: &str) -> Self {
        let message = format!(
            "There is no load action `{action}`: it is one of start, pause, resume, drain, stop."
        );
        Self::new(StatusCode::NOT_FOUND, message).code("unknown_path")
    }
}
