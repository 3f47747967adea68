//! What the router is asked, and what it answers.
//!
//! A query borrows: the prompt's chain belongs to the request, and the router copies what
//! it has to remember. An answer is a small value. [`Claim`]s are for owners of a
//! [`State`](crate::State); a server gets them wrapped in a guard, the
//! [`Placement`](crate::Placement).

use std::time::Duration;

use contract::{BlockHash, RequestId, WorkerId};

use crate::reservations::Key;

/// A request for a worker.
#[derive(Clone, Debug)]
pub struct RouteQuery<'a> {
    pub request: RequestId,
    pub prompt_tokens: u32,
    /// Hashes of the prompt's full blocks.
    pub chain: &'a [BlockHash],
    /// Workers on which the request has failed already.
    pub excluded: &'a [WorkerId],
}

impl RouteQuery<'_> {
    /// Whether the prompt ends within a block, which then has no hash and is never shared.
    pub(crate) fn has_partial_block(&self, block_size: u32) -> bool {
        !self.prompt_tokens.is_multiple_of(block_size)
    }
}

/// Why no worker was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("no worker is available")]
    NoWorker,
    #[error("all workers are full; a place is expected in {} s", retry_after.as_secs_f64().ceil())]
    Saturated { retry_after: Duration },
}

/// A place on a worker. Opens its reservation once; copies of a used claim do nothing.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub(crate) key: Key,
    pub worker: WorkerId,
    /// Prompt tokens that the worker is expected to have.
    pub predicted_cached_tokens: u32,
    /// Under which number the decision is recorded.
    pub decision: u64,
}
