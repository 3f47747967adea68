//! What a router runs on. Checked before it gets here: the binary reads arguments.

use contract::BlockFormat;

use crate::mode::Mode;

/// What a router runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterConfig {
    /// The same for every worker and for the chains that are asked about.
    pub blocks: BlockFormat,
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
            blocks: BlockFormat::new(block_size),
            mode: Mode::Kv,
            queue_limit: 64,
            decisions_kept: 1000,
            seed: 0,
        }
    }
}
