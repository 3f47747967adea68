//! A profile as it stands in its TOML file: nothing checked beyond its shape.

use serde::Deserialize;

use super::constant::{Constant, Shares};
use crate::sim::speculation::Method;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) about: String,
    pub(super) model: String,
    pub(super) workers: u32,
    pub(super) gpu: Gpu,
    pub(super) engine: Engine,
    pub(super) memory: Memory,
    pub(super) timing: Timing,
    pub(super) answers: Answers,
    pub(super) speculation: Option<Speculation>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    pub(super) kind: String,
    pub(super) count: u32,
    pub(super) memory: Constant,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    pub(super) slots: u32,
    pub(super) max_step_tokens: u32,
    pub(super) max_context_tokens: u32,
    pub(super) block_size: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    pub(super) weights: Constant,
    pub(super) overhead_per_gpu: Constant,
    pub(super) usable_fraction: Constant,
    pub(super) free_gpu_memory_fraction: Constant,
    pub(super) kv_per_token: Constant,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timing {
    pub(super) base: Constant,
    pub(super) per_token: Constant,
    /// Whether computing overlaps with reading weights; true by default.
    pub(super) overlaps: Option<bool>,
    pub(super) per_sequence: Constant,
    pub(super) per_context_token: Constant,
    pub(super) attention_per_pair: Constant,
    pub(super) wide_batch: Option<WideBatch>,
    pub(super) intake: Option<Constant>,
    pub(super) shared_machine: Option<Shares>,
}

/// What larger batches cost beyond their rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WideBatch {
    pub(super) above: Constant,
    pub(super) extra: Constant,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answers {
    pub(super) mean: Constant,
    pub(super) spread: Constant,
    pub(super) min: Constant,
    pub(super) max: Constant,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Speculation {
    pub(super) method: Method,
    pub(super) acceptance: Shares,
    pub(super) draft_weights: Constant,
    pub(super) draft_kv_per_token: Constant,
    pub(super) draft_per_token: Constant,
    pub(super) verify_per_token: Constant,
}
