//! What the API asks of the owner of the workers, where there is one in this process.

use contract::{WorkerCard, WorkerId};
use tokio::sync::oneshot;

#[derive(Debug)]
pub enum FleetCommand {
    Add {
        reply: oneshot::Sender<Result<WorkerCard, FleetError>>,
    },
    /// As many workers of another kind take the place of all that are here.
    Replace {
        profile: String,
        reply: oneshot::Sender<Result<Vec<WorkerCard>, FleetError>>,
    },
    Remove {
        worker: WorkerId,
        reply: oneshot::Sender<Result<(), FleetError>>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    #[error("there is no such worker")]
    UnknownWorker,
    #[error("{detail}")]
    Profile { detail: String },
    #[error("the worker cannot be started: {detail}")]
    Start { detail: String },
    #[error("the limit of {most} workers is reached; see --max-workers")]
    Full { most: usize },
}
