//! What a worker is, and how busy it is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ts_rs::TS;

use crate::block_format::BlockFormat;
use crate::forward::ForwardPath;

/// Identifies a worker for as long as it is a member.
///
/// It is written as text, because some are drawn from all 64 bits, and readers whose numbers are
/// floats (browsers, `jq`) would make one of neighbours. Numbers are read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, TS)]
#[ts(type = "string")]
pub struct WorkerId(pub u64);

impl Serialize for WorkerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WorkerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = WorkerId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a worker's id")
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<WorkerId, E> {
                Ok(WorkerId(id))
            }

            fn visit_str<E: de::Error>(self, id: &str) -> Result<WorkerId, E> {
                let wrong = |_| E::invalid_value(de::Unexpected::Str(id), &self);
                id.parse().map(WorkerId).map_err(wrong)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

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
    /// The display name, such as `worker-0`.
    pub name: String,
    pub model: ModelName,
    /// Written flat: `block_size` and `hashing`.
    #[serde(flatten)]
    pub blocks: BlockFormat,
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
    /// Written flat.
    #[serde(flatten)]
    pub abilities: Abilities,
    /// Endpoints of the engine's own server to which requests can be sent as they came.
    #[serde(default)]
    pub forwards: Vec<ForwardPath>,
    /// Adapters (LoRA) that the engine has loaded, by the names under which it serves them.
    #[serde(default)]
    pub adapters: Vec<String>,
    /// `none`, `draft-model` or `eagle3`.
    pub speculation: String,
}

/// What not every engine can do with a request in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities {
    /// It reports log-probabilities.
    pub logprobs: bool,
    /// It can hold an answer to a [grammar](crate::Grammar).
    #[serde(default)]
    pub grammars: bool,
    /// It adds a bias to the logits of single tokens.
    #[serde(default)]
    pub logit_bias: bool,
}

impl Abilities {
    pub const ALL: Self = Self {
        logprobs: true,
        grammars: true,
        logit_bias: true,
    };

    /// What both can do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            logprobs: self.logprobs && other.logprobs,
            grammars: self.grammars && other.grammars,
            logit_bias: self.logit_bias && other.logit_bias,
        }
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStatus {
    pub running: u32,
    pub waiting: u32,
    /// Blocks referenced by a sequence.
    pub active_blocks: u32,
    /// Blocks that can be reused and that no request references.
    pub cached_blocks: u32,
    pub free_blocks: u32,
    /// Share of the last second or so that the engine spent computing, 0 to 1.
    pub utilization: f64,
    /// Memory in use on one GPU of the worker.
    pub gpu_memory_used_bytes: u64,
    pub steps: u64,
    /// Time from a step's plan to its result, over all steps.
    #[serde(rename = "step_seconds", with = "seconds")]
    pub step_time: Duration,
    pub preemptions: u64,
    /// Prompt tokens admitted, and how many of them came out of the cache.
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// The engine reports no cache events: what the router believes that it holds is an estimate.
    pub cache_estimated: bool,
    pub speculation: SpeculationCounts,
}

/// Most positions of a draft that are counted each for itself.
pub const DRAFT_POSITIONS: usize = 16;

/// What speculation has drafted, what the target kept and how long that took, since the worker
/// started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpeculationCounts {
    /// Steps of a sequence that carried a draft.
    pub drafts: u64,
    pub drafted_tokens: u64,
    /// Drafted tokens that became part of an answer.
    pub accepted_tokens: u64,
    /// The tokens by their place in the draft, the first place first. As long as the longest
    /// draft so far, and never longer than [`DRAFT_POSITIONS`].
    pub positions: Vec<PositionCounts>,
    /// Spent on making drafts and on keeping the drafter up to date.
    #[serde(rename = "draft_seconds", with = "seconds")]
    pub draft_time: Duration,
    /// Spent on the target's forward passes that carried drafts.
    #[serde(rename = "verify_seconds", with = "seconds")]
    pub verify_time: Duration,
    /// Tokens of the longest draft in the latest step that had one; 0 before the first.
    pub draft_length: u32,
}

/// One place in a draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionCounts {
    pub drafted_tokens: u64,
    pub accepted_tokens: u64,
}

impl SpeculationCounts {
    /// Counts one draft, of which the first `accepted` tokens were kept.
    pub fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        self.drafts += 1;
        self.drafted_tokens += drafted as u64;
        self.accepted_tokens += accepted as u64;
        let deepest = drafted.min(DRAFT_POSITIONS);
        if self.positions.len() < deepest {
            self.positions.resize(deepest, PositionCounts::default());
        }
        for (index, position) in self.positions[..deepest].iter_mut().enumerate() {
            position.drafted_tokens += 1;
            position.accepted_tokens += u64::from(index < accepted);
        }
    }
}

/// A duration as a number of seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}

/// Names a frontend for the life of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrontendId(pub u64);

impl fmt::Display for FrontendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What one frontend is running on one worker.
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
    /// The number of the lease that the frontend obeys, if it has received one.
    pub lease: Option<u32>,
}

/// How many requests a frontend may have on a worker at once. The number tells a lease from
/// earlier ones of the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub number: u32,
    pub slots: u32,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A float makes one number of these.
    #[test]
    fn neighbouring_ids_are_written_apart_and_read_back() {
        for id in [
            0,
            7_587_899_007_311_003_142,
            7_587_899_007_311_003_143,
            u64::MAX,
        ] {
            let text = serde_json::to_string(&WorkerId(id)).unwrap();
            assert_eq!(text, format!("\"{id}\""));
            assert_eq!(
                serde_json::from_str::<WorkerId>(&text).unwrap(),
                WorkerId(id)
            );
            // As older versions wrote it.
            let number = id.to_string();
            assert_eq!(
                serde_json::from_str::<WorkerId>(&number).unwrap(),
                WorkerId(id)
            );
            let keys = BTreeMap::from([(WorkerId(id), 1)]);
            let text = serde_json::to_string(&keys).unwrap();
            assert_eq!(
                serde_json::from_str::<BTreeMap<WorkerId, u32>>(&text).unwrap(),
                keys
            );
        }
        let error = serde_json::from_str::<WorkerId>("\"seven\"").unwrap_err();
        assert!(
            error.to_string().contains("expected a worker's id"),
            "{error}"
        );
        assert!(serde_json::from_str::<WorkerId>("-1").is_err());
    }

    /// Records drafts of (drafted, accepted) tokens and compares the accepted by position.
    #[track_caller]
    fn check(drafts: &[(usize, usize)], expected: &[u64]) {
        let mut counts = SpeculationCounts::default();
        for &(drafted, accepted) in drafts {
            counts.record(drafted, accepted);
        }
        let made = drafts.iter().filter(|(drafted, _)| *drafted > 0);
        assert_eq!(counts.drafts, made.count() as u64);
        let drafted: usize = drafts.iter().map(|(drafted, _)| drafted).sum();
        let accepted: usize = drafts.iter().map(|(_, accepted)| accepted).sum();
        assert_eq!(counts.drafted_tokens, drafted as u64);
        assert_eq!(counts.accepted_tokens, accepted as u64);
        let positions = counts.positions.iter().map(|one| one.accepted_tokens);
        assert_eq!(positions.collect::<Vec<_>>(), expected, "{drafts:?}");
    }

    #[test]
    fn positions_reach_as_far_as_the_longest_draft() {
        check(&[], &[]);
        check(&[(0, 0)], &[]);
        check(&[(2, 0)], &[0, 0]);
        check(&[(3, 1), (1, 1), (0, 0)], &[2, 0, 0]);
        check(&[(1, 1), (3, 3)], &[2, 1, 1]);
        check(&[(40, 40)], &[1; DRAFT_POSITIONS]);
    }
}
