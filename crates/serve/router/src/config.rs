//! What a router runs on. Checked before it gets here: the binary reads arguments.

use contract::Hashing;

use crate::mode::Mode;

/// What a router runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterConfig {
    /// Tokens per KV block, the same for every worker and for the chains that are asked
    /// about. Not 0.
    pub block_size: u32,
    /// How blocks are named, likewise.
    pub hashing: Hashing,
    pub mode: Mode,
    /// Requests beyond its slots that a worker may have waiting. Where requests wait in the
    /// router, so many for each worker.
    pub queue_limit: u32,
    /// How many decisions are kept to be looked at.
    pub decisions_kept: usize,
    pub seed: u64,
}

impl RouterConfig {
    /// The defaults, for workers with that block size.
    pub fn new(block_size: u32) -> Self {
        Self {
            block_size,
            hashing: Hashing::default(),
            mode: Mode::Kv,
            queue_limit: 64,
            decisions_kept: 1000,
            seed: 0,
        }
    }
}
