//! What serves requests: the router, the workers it chooses among, and the limits.
//!
//! A prepared request leaves here as one [`Reply`] per prompt, each with a task of its own
//! ([`crate::drive`]) that has it answered. Dropping the reply cancels everything below it.

use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, GenerateRequest, Hashing, RequestId};
use preprocess::Prepared;
use router::{Identity, Router};

use crate::drive::{Common, Drive};
use crate::fleet::Fleet;
use crate::journey::Journey;
use crate::metrics::FrontendMetrics;
use crate::reply::Reply;
use tasks::Tasks;

/// How a request is treated while it waits for a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// Who waits, among others who do.
    pub(crate) identity: Identity,
    /// The higher goes first; 0 is ordinary.
    pub(crate) priority: i32,
    /// How long it may still wait, all its waits together: what a worker that failed it took is
    /// not counted.
    pub(crate) patience: Option<Duration>,
}

/// What bounds a journey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Failures after which a request is not sent to yet another worker.
    pub(crate) migrations: u32,
    pub(crate) first_token_timeout: Duration,
    /// Longest pause between two chunks.
    pub(crate) stall_timeout: Duration,
    /// How far a client may be behind what has been answered.
    pub(crate) reader_lag: Duration,
    pub(crate) block_size: usize,
    pub(crate) hashing: Hashing,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) router: Router,
    pub(crate) fleet: Fleet,
    pub(crate) metrics: Arc<FrontendMetrics>,
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,
    /// Whoever reads the workers.
    pub(crate) tasks: Tasks,
}

impl Pipeline {
    /// Sets out to answer a prompt, from now on and whether anyone reads or not.
    pub(crate) fn serve(
        self: &Arc<Self>,
        id: &RequestId,
        prepared: Prepared,
        urgency: Urgency,
        common: &Arc<Common>,
    ) -> Reply {
        let request = GenerateRequest {
            id: id.clone(),
            nonce: uuid::Uuid::new_v4().as_u64_pair().1,
            prompt: prepared.prompt,
            answered: Arc::default(),
            hash_seed: prepared.hash_seed,
            limits: prepared.limits,
            sampling: prepared.sampling,
            logprobs: prepared.logprobs,
        };
        let prompt_tokens = request.prompt.len() as u32;
        let journey = Journey::new(Arc::clone(self), request, urgency);
        Reply::driven(
            &self.tasks.tracker,
            prompt_tokens,
            self.limits.reader_lag,
            |reply| Drive::new(Arc::clone(self), journey, reply, Arc::clone(common)).run(),
        )
    }
}
