//! What a worker is, and how busy it is.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// Identifies a worker for as long as it is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, TS)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name under which a model is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelName(Arc<str>);

impl ModelName {
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a worker announces when it joins. Constant for its life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerCard {
    pub id: WorkerId,
    /// For people: `worker-0`.
    pub name: String,
    pub model: ModelName,
    /// Tokens per KV block.
    pub block_size: u32,
    /// Blocks that the worker's memory holds.
    pub total_blocks: u32,
    /// Sequences that run at once (`max_batch_size`); what is beyond waits in the engine.
    pub slots: u32,
    /// Tokens that one step computes at most (`max_num_tokens`).
    pub max_step_tokens: u32,
    /// Longest prompt plus answer.
    pub max_context_tokens: u32,
    pub gpu: GpuSpec,
    /// The simulator profile in force, or the name of the engine.
    pub engine: String,
    /// Timing and text come from a simulation, and everything that shows them says so.
    pub simulated: bool,
    /// Whether the engine can report log-probabilities.
    pub logprobs: bool,
    /// `none`, `draft-model` or `eagle3`.
    pub speculation: String,
    /// How it names blocks. A router and its workers must agree.
    pub hashing: Hashing,
}

/// How tokens become the names of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashing {
    /// Of the scheme in [`crate::block`].
    pub version: u32,
    /// Tokens after a block that its name covers too: 1 where a draft head computes a token
    /// from the one that follows it, otherwise 0.
    pub lookahead: u32,
}

impl Default for Hashing {
    fn default() -> Self {
        Self {
            version: crate::block::HASH_VERSION,
            lookahead: 0,
        }
    }
}

impl fmt::Display for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}, lookahead {}", self.version, self.lookahead)
    }
}

/// The accelerators of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct GpuSpec {
    pub kind: String,
    /// Tensor-parallel degree.
    pub count: u32,
    /// Memory of one of them.
    pub memory_bytes: u64,
}

/// How busy a worker is: a snapshot that it publishes after each change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerStatus {
    pub running: u32,
    pub waiting: u32,
    /// Blocks referenced by a sequence.
    pub active_blocks: u32,
    /// Blocks that can be reused but are referenced by nobody.
    pub cached_blocks: u32,
    pub free_blocks: u32,
    /// Share of the last second or so that the engine spent computing, 0 to 1.
    pub utilization: f64,
    /// Memory in use on one GPU of the worker.
    pub gpu_memory_used_bytes: u64,
    pub steps: u64,
    pub preemptions: u64,
    /// Prompt tokens admitted, and how many of them came out of the cache.
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    pub speculation: SpeculationCounts,
}

/// What speculation has drafted and what the target kept, since the worker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpeculationCounts {
    /// Steps of a sequence that carried a draft.
    pub drafts: u64,
    pub drafted_tokens: u64,
    pub accepted_tokens: u64,
}

/// Names a frontend for the life of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrontendId(pub u64);

impl fmt::Display for FrontendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What one frontend has under way on one worker.
///
/// Levels and not differences: a report that is lost or comes twice does no harm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontendLoad {
    pub in_flight: u32,
    /// Prompt tokens still to be computed.
    pub pending_prefill_tokens: u64,
    /// Requests without their first token.
    pub pending_requests: u32,
    /// Blocks in use.
    pub active_blocks: u32,
    /// Requests that wait for a slot, here or on another worker.
    pub waiting: u32,
    /// The number of the lease that the frontend obeys, if it has heard of one.
    pub lease: Option<u32>,
}

/// How many requests a frontend may have on a worker at once. The number tells a lease from
/// earlier ones of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub number: u32,
    pub slots: u32,
}
