//! What requests are dispatched with: the router, the workers it chooses among, and the limits.
//!
//! The bottom of the way of an answer: a [`journey`](crate::journey) goes over workers with it,
//! a [`drive`](crate::drive) reads them, a [`reply`](crate::reply) holds what was read, and
//! [`respond`](crate::respond) sends it.

use std::sync::Arc;
use std::time::Duration;

use contract::{BlockFormat, Clock, LinkError};
use request_trace::Recorder;
use router::{Identity, RouteError, Router};
use tasks::Tasks;

use crate::FaultLimits;
use crate::fleet::Fleet;
use crate::metrics::FrontendMetrics;

/// How a request is treated while it waits for a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// The identity under which a request waits.
    pub(crate) identity: Identity,
    /// The higher goes first; 0 is ordinary.
    pub(crate) priority: i32,
    /// How long it may still wait, all its waits together: what a worker that failed it took is
    /// not counted.
    pub(crate) patience: Option<Duration>,
}

/// Limits of a request's journey over the workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) faults: FaultLimits,
    /// How far a client may be behind what has been answered.
    pub(crate) reader_lag: Duration,
    pub(crate) blocks: BlockFormat,
}

/// Why the fleet did not serve a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DispatchError {
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("{attempts} workers failed")]
    Failed { attempts: u32, source: LinkError },
}

#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) router: Router,
    pub(crate) fleet: Fleet,
    pub(crate) metrics: Arc<FrontendMetrics>,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    /// On which workers are read.
    pub(crate) tasks: Tasks,
    pub(crate) recorder: Recorder,
}
