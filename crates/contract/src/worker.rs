//! What a worker is, and how busy it is.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use ts_rs::TS;

/// Identifies a worker for as long as it is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, TS)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name under which a model is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
}

/// The accelerators of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
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
