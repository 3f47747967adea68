//! Requests to the router, and its answers.
//!
//! A query borrows: the prompt's chain belongs to the request, and the router copies what
//! it has to remember. An answer is a small value. [`Claim`]s are for owners of a
//! [`State`](crate::State); a server gets them wrapped in a guard, the
//! [`Placement`](crate::Placement).

use std::time::Duration;

use contract::{BlockHash, Moment, RequestId, WorkerId};

use crate::decision::{Excluded, WhyNot};
use crate::policy::Reason;
use crate::reservations::Key;

/// A request for a worker.
#[derive(Clone, Debug)]
pub struct RouteQuery<'a> {
    pub request: RequestId,
    pub prompt_tokens: u32,
    /// Hashes of the prompt's full blocks.
    pub chain: &'a [BlockHash],
    /// Workers to which it must not go: it has failed there, or they lack what it needs.
    pub excluded: &'a [Excluded],
    /// On whose behalf: those who wait share slots fairly.
    pub identity: Identity,
    /// Among requests that wait, the higher goes first. 0 is ordinary.
    pub priority: i32,
    /// Until when the request may wait for a worker. It is refused at once if it is expected
    /// to wait longer, and leaves the queue when the time has come.
    pub deadline: Option<Moment>,
}

/// The tenant of a request, for fair sharing. The caller is responsible for its truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The tenant; 0 for all requests without one.
    pub tenant: u64,
    /// The tenant's weight beside the others'. Not 0.
    pub share: u32,
    /// Which of the tenant's sessions, which share the tenant's part alike; 0 is all that name
    /// none.
    pub session: u64,
}

impl Default for Identity {
    /// An anonymous tenant with the default share.
    fn default() -> Self {
        Self {
            tenant: 0,
            share: 1,
            session: 0,
        }
    }
}

impl RouteQuery<'_> {
    /// Why it must not go to a worker.
    pub(crate) fn excludes(&self, worker: WorkerId) -> Option<WhyNot> {
        let excluded = self.excluded.iter().find(|one| one.worker == worker);
        excluded.map(|one| one.why)
    }

    /// Whether the prompt ends within a block, which then has no hash and is never shared.
    pub(crate) fn has_partial_block(&self, block_size: u32) -> bool {
        !self.prompt_tokens.is_multiple_of(block_size)
    }
}

/// What became of a request that was not refused.
#[derive(Clone, Copy, Debug)]
#[must_use = "a claim is released and a ticket cancelled by its owner"]
pub enum Placed {
    /// It has a slot on a worker.
    Now(Claim),
    /// Every worker that may take it is full. It is bound to the slot that suits it when
    /// one frees; see [`State::ready`](crate::State::ready).
    Waiting(Ticket),
}

/// A place in the queue, in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// Why no worker was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("no worker is available")]
    NoWorker,
    #[error("all workers are full; a slot is expected in {} s", retry_after.as_secs_f64().ceil())]
    Saturated { retry_after: Duration },
    #[error("no worker had a free slot in time; one is expected in {} s", retry_after.as_secs_f64().ceil())]
    QueueTimeout { retry_after: Duration },
}

/// A place on a worker. Opens its reservation once; copies of a used claim do nothing.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub(crate) key: Key,
    pub worker: WorkerId,
    /// Prompt tokens that the worker is expected to have.
    pub predicted_cached_tokens: u32,
    /// When it was decided.
    pub at: Moment,
    /// From then on, how long the first token is expected to take.
    pub predicted_first_token: Duration,
    /// Under which number the decision is recorded.
    pub decision: u64,
    /// As the decision's record has it.
    pub reason: Reason,
    /// How long the request waited for a slot.
    pub waited: Duration,
    /// A worker that holds much more of the prompt was passed over.
    pub hot_spread: bool,
}
