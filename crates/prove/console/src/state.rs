//! The state that a page shows.
//!
//! An interface: fields are added, never renamed. A figure that does not exist is `null`.

use std::sync::Arc;
use std::time::Duration;

use contract::{GpuSpec, PositionCounts, SpeculationCounts, WorkerCard, WorkerId, WorkerStatus};
use loadgen::snapshot::Snapshot;
use router::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::baseline::BaselineStatus;
use crate::parts::Part;

/// The state of the whole system at one moment.
#[derive(Clone, Debug, Serialize, TS)]
pub struct State {
    pub version: &'static str,
    pub title: String,
    pub subtitle: String,
    /// The server's clock, since the Unix epoch.
    pub at_ms: u64,
    pub control: Control,
    pub slos: Slos,
    #[serde(flatten)]
    pub system: SystemView,
    pub baseline: BaselineStatus,
    /// `null` where no load generator runs, or none can be reached.
    pub load: Option<Snapshot>,
    pub load_at: LoadPlace,
    /// Where Grafana shows this deployment, if somebody said so.
    pub grafana_url: Option<String>,
    /// What the deployment consists of besides what this page sees for itself.
    pub parts: Vec<Part>,
}

/// Where a page's load generator runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LoadPlace {
    None,
    /// In the process that serves the page.
    Here,
    Elsewhere {
        url: String,
        /// Why it cannot be reached.
        error: Option<String>,
    },
}

/// Whether this viewer may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
pub struct Control {
    pub token_required: bool,
    pub granted: bool,
}

/// Latencies that are not to be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Slos {
    pub ttft_p95_ms: f64,
    pub tpot_p95_ms: f64,
}

impl Default for Slos {
    /// The objectives of the published demonstration.
    fn default() -> Self {
        Self {
            ttft_p95_ms: 600.0,
            tpot_p95_ms: 60.0,
        }
    }
}

/// The serving system at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct SystemView {
    /// The model whose router is shown.
    pub model: String,
    /// All that are served.
    pub models: Vec<ModelState>,
    /// Some figures come from a simulation, and whatever shows them says so.
    pub simulated: bool,
    /// Tokens in a KV block.
    pub block_size: u32,
    pub router: RouterState,
    pub requests: RequestCounts,
    pub workers: Vec<WorkerState>,
    /// Profiles that simulated workers of this process can be replaced with: `PUT /workers`.
    pub profiles: Vec<String>,
    /// The latest, if there was one.
    pub last_decision: Option<LatestDecision>,
    pub gpu: GpuSource,
}

/// One of the served models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
pub struct ModelState {
    pub name: String,
    /// How its workers are chosen.
    pub mode: String,
    pub workers: u32,
}

/// A decision of a router in this process, or as another process has written it.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
#[serde(untagged)]
pub enum LatestDecision {
    Here(Arc<Decision>),
    Elsewhere(#[ts(type = "Decision")] Value),
}

/// Where utilisation and memory of GPUs come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GpuSource {
    /// The workers say it themselves.
    Process,
    Prometheus {
        url: String,
        /// Why nothing could be read.
        error: Option<String>,
    },
}

/// How workers are chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct RouterState {
    pub mode: String,
    /// All mode names.
    pub modes: Vec<String>,
    /// Of modes that have it.
    pub overlap_score_weight: Option<f64>,
    /// Of modes that have it.
    pub router_temperature: Option<f64>,
}

impl RouterState {
    /// Of a server that does not say.
    pub fn unknown() -> Self {
        Self {
            mode: "unknown".to_owned(),
            modes: Vec::new(),
            overlap_score_weight: None,
            router_temperature: None,
        }
    }
}

impl From<router::RouterState> for RouterState {
    fn from(state: router::RouterState) -> Self {
        let weights = state.weights;
        Self {
            mode: state.mode.to_string(),
            modes: state.modes.map(|name| name.to_string()).to_vec(),
            overlap_score_weight: weights.map(|weights| weights.overlap_score_weight()),
            router_temperature: weights.map(|weights| weights.router_temperature()),
        }
    }
}

/// Requests inside the server, from all clients; `null` where that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, TS)]
pub struct RequestCounts {
    pub in_flight: Option<u64>,
    /// Requests that wait for a worker.
    pub queued: Option<u64>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct WorkerState {
    pub id: WorkerId,
    /// What pages call it: small, and the same while it stays. The console gives it.
    pub number: u32,
    pub name: String,
    /// The simulator's profile or the engine's name.
    pub engine: String,
    /// The model that it serves.
    pub model: Option<String>,
    pub simulated: bool,
    /// It takes no new requests and will leave.
    pub draining: bool,
    pub gpu: GpuSpec,
    /// Share of time spent computing, 0 to 1; `null` where it is not known.
    pub utilization: Option<f64>,
    /// On one of its GPUs; `gpu.memory_bytes` is what there is.
    pub memory_used_bytes: Option<u64>,
    /// Why its GPU's figures are not known, where they are not.
    pub unknown: Option<String>,
    /// Requests sent to it and not answered, as the router counts them.
    pub in_flight: u32,
    /// In the engine's batch, of `slots` places.
    pub running: u32,
    /// Requests in the engine's queue.
    pub waiting: u32,
    pub slots: u32,
    /// What proposes tokens: `none`, `ngram`, `draft-model`, `draft` or `eagle3`.
    pub drafter: String,
    pub cache: CacheState,
    pub speculation: SpeculationState,
}

/// A worker's KV cache, in blocks.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct CacheState {
    pub total_blocks: u32,
    /// Blocks used by running requests.
    pub active_blocks: u32,
    /// Blocks kept for reuse.
    pub cached_blocks: u32,
    /// Prompt tokens that came out of it, of all since the worker started.
    pub hit_pct: Option<f64>,
}

/// What speculation has drafted and what was kept, since the worker started.
#[derive(Clone, Debug, PartialEq, Serialize, TS)]
pub struct SpeculationState {
    /// Steps of a sequence that carried a draft.
    pub drafts: u64,
    pub drafted_tokens: u64,
    pub accepted_tokens: u64,
    /// Drafted tokens in a hundred that were kept; `null` before the first draft.
    pub acceptance_pct: Option<f64>,
    /// Tokens that a step of a sequence gives; `null` before the first draft.
    pub tokens_per_step: Option<f64>,
    /// Drafted tokens in a hundred that were kept, by their place in the draft; `null` where
    /// none was drafted.
    pub position_acceptance_pct: Vec<Option<f64>>,
    /// Tokens of the longest draft in the latest step that had one; `null` before the first.
    pub draft_length: Option<u32>,
    /// Share of the time of all steps that making drafts took, of a hundred; `null` before the
    /// first draft.
    pub draft_time_pct: Option<f64>,
    /// The same of the forward passes that carried drafts.
    pub verify_time_pct: Option<f64>,
}

impl SpeculationState {
    /// `step_time` is that of all the worker's steps.
    pub fn new(counts: &SpeculationCounts, step_time: Duration) -> Self {
        let &SpeculationCounts {
            drafts,
            drafted_tokens,
            accepted_tokens,
            ref positions,
            draft_time,
            verify_time,
            draft_length,
        } = counts;
        let timed = drafts > 0 && !step_time.is_zero();
        let share = |time: Duration| timed.then(|| 100.0 * time.div_duration_f64(step_time));
        let kept_of = |whole: u64| (whole > 0).then(|| accepted_tokens as f64 / whole as f64);
        Self {
            drafts,
            drafted_tokens,
            accepted_tokens,
            acceptance_pct: kept_of(drafted_tokens).map(|share| 100.0 * share),
            // The target's own token comes on top of what it kept.
            tokens_per_step: kept_of(drafts).map(|kept| 1.0 + kept),
            position_acceptance_pct: positions.iter().map(acceptance_pct).collect(),
            draft_length: (draft_length > 0).then_some(draft_length),
            draft_time_pct: share(draft_time),
            verify_time_pct: share(verify_time),
        }
    }
}

fn acceptance_pct(position: &PositionCounts) -> Option<f64> {
    let (accepted, drafted) = (position.accepted_tokens, position.drafted_tokens);
    (drafted > 0).then(|| 100.0 * accepted as f64 / drafted as f64)
}

impl WorkerState {
    /// From what a worker says about itself.
    pub fn new(card: &WorkerCard, status: &WorkerStatus) -> Self {
        let hits = status.cached_tokens as f64 / status.prompt_tokens as f64;
        // Engines of others say nothing about the machine below them.
        let tells = card.gpu.memory_bytes > 0;
        Self {
            id: card.id,
            number: 0,
            name: card.name.clone(),
            engine: card.engine.clone(),
            model: Some(card.model.as_str().to_owned()),
            simulated: card.simulated,
            draining: false,
            gpu: card.gpu.clone(),
            utilization: tells.then_some(status.utilization),
            memory_used_bytes: tells.then_some(status.gpu_memory_used_bytes),
            unknown: (!tells).then(|| {
                format!(
                    "{} does not report its GPU; --prometheus-url names a Prometheus with the metrics of the DCGM exporter",
                    card.engine
                )
            }),
            in_flight: status.running + status.waiting,
            running: status.running,
            waiting: status.waiting,
            slots: card.slots,
            drafter: card.speculation.clone(),
            cache: CacheState {
                total_blocks: card.total_blocks,
                active_blocks: status.active_blocks,
                cached_blocks: status.cached_blocks,
                hit_pct: (status.prompt_tokens > 0).then_some(100.0 * hits),
            },
            speculation: SpeculationState::new(&status.speculation, status.step_time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speculation_has_figures_once_something_was_drafted() {
        let minute = Duration::from_secs(60);
        let state = SpeculationState::new(&SpeculationCounts::default(), minute);
        assert_eq!((state.acceptance_pct, state.tokens_per_step), (None, None));
        assert_eq!((state.draft_length, state.draft_time_pct), (None, None));
        assert!(state.position_acceptance_pct.is_empty());
        let position = |drafted_tokens, accepted_tokens| PositionCounts {
            drafted_tokens,
            accepted_tokens,
        };
        let counts = SpeculationCounts {
            drafts: 100,
            drafted_tokens: 300,
            accepted_tokens: 180,
            positions: vec![position(200, 150), position(100, 30), position(0, 0)],
            draft_time: Duration::from_secs(6),
            verify_time: Duration::from_secs(45),
            draft_length: 2,
        };
        let state = SpeculationState::new(&counts, minute);
        assert_eq!(state.acceptance_pct, Some(60.0));
        assert_eq!(state.tokens_per_step, Some(2.8));
        assert_eq!(
            state.position_acceptance_pct,
            [Some(75.0), Some(30.0), None]
        );
        assert_eq!(state.draft_length, Some(2));
        assert_eq!(
            (state.draft_time_pct, state.verify_time_pct),
            (Some(10.0), Some(75.0))
        );
        let state = SpeculationState::new(&counts, Duration::ZERO);
        assert_eq!(
            state.draft_time_pct, None,
            "a worker that does not tell its time"
        );
    }
}
