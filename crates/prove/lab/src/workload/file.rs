//! A workload as it stands in its TOML file: nothing checked beyond its shape.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) about: String,
    pub(super) profile: Option<String>,
    pub(super) workers: Option<u32>,
    /// Blocks of cache on each worker.
    pub(super) cache_blocks: Option<u32>,
    pub(super) conversations: Conversations,
    #[serde(default)]
    pub(super) bursts: Vec<Burst>,
    #[serde(default)]
    pub(super) changes: Vec<Change>,
    #[serde(default)]
    pub(super) worker: Vec<Worker>,
    pub(super) greedy: Option<Greedy>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Greedy {
    pub(super) requests: u32,
    pub(super) prompt_tokens: [u32; 2],
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) own_key: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Conversations {
    pub(super) turns: [u32; 2],
    pub(super) starters: Starters,
    /// Characters after which a live run cuts texts.
    pub(super) text_limit: Option<u32>,
    pub(super) starter_tokens: [u32; 2],
    pub(super) follow_up_tokens: [u32; 2],
    pub(super) think_time_s: Option<[f64; 2]>,
    pub(super) max_tokens: u32,
    pub(super) starts_per_second: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Starters {
    #[serde(default)]
    pub(super) unique: bool,
    pub(super) pool: Option<u32>,
    /// Exponent of their popularity.
    pub(super) zipf: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Burst {
    pub(super) at_s: f64,
    pub(super) for_s: f64,
    pub(super) factor: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    pub(super) at_s: f64,
    pub(super) worker: usize,
    #[serde(default)]
    pub(super) dies: bool,
    #[serde(default)]
    pub(super) returns: bool,
    pub(super) speed: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Worker {
    pub(super) number: usize,
    pub(super) speed: Option<f64>,
    pub(super) slots: Option<u32>,
}
