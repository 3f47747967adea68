//! What a console shows of a running load generator, once per second.
//!
//! An interface: fields are added, never renamed. A figure that does not exist is `null`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::by_mode::ModeFigures;
use crate::failure::{Failure, FailureKind};
use crate::rolling::WindowFigures;
use crate::settings::Settings;

/// The state of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Stopped,
    /// Started, and begins once the server has somebody who answers.
    Waiting,
    Running,
    /// Nothing new is sent; conversations wait.
    Paused,
    /// Nothing new is sent; running requests may finish, and then it is stopped.
    Draining,
}

/// One second of a load generator's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Snapshot {
    pub phase: Phase,
    /// Seconds since the load generator was made.
    pub at_s: f64,
    /// Seconds since load was last started; 0 before.
    pub running_s: f64,
    /// Seconds since load was last started or its settings were changed; 0 before.
    #[serde(default)]
    pub unchanged_s: f64,
    pub target: TargetSummary,
    pub workload: WorkloadSummary,
    pub settings: Settings,
    pub conversations: ConversationCounts,
    /// Figures of the last minute.
    pub window: WindowFigures,
    /// TTFT by routing mode and turn since load was last started or its settings were changed.
    #[serde(default)]
    pub by_mode: Vec<ModeFigures>,
    /// Since load was last started.
    pub totals: TotalCounts,
    /// The latest failure, and how many seconds ago it was.
    pub last_failure: Option<LastFailure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct TargetSummary {
    pub url: String,
    pub model: String,
    /// Address of the model that writes follow-ups; `null` with the built-in questions.
    pub user_model: Option<String>,
}

/// What conversations are about; what can change is in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct WorkloadSummary {
    /// The same seed gives the same conversations.
    pub seed: u64,
    /// How many texts conversations begin with. Few texts are soon cached by every worker.
    pub starters: u32,
    /// Whether every conversation begins with a line of its own.
    pub unique: bool,
}

/// How many conversations are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ConversationCounts {
    /// Not over. The sum of the next three.
    pub active: u32,
    /// Waiting for an answer, or reading it.
    pub in_flight: u32,
    /// Waiting for the user model to write a question.
    pub writing: u32,
    /// Users think, wait to ask again, or are not allowed to speak yet.
    pub idle: u32,
    pub begun: u64,
    pub completed: u64,
    pub stopped: u64,
    pub failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct TotalCounts {
    /// Requests that ended, including failures.
    pub requests: u64,
    pub failures: u64,
    #[ts(type = "{ [kind in string]: number }")]
    pub failures_by_kind: BTreeMap<FailureKind, u64>,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Questions that the user model did not write in time.
    pub user_model_fallbacks: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct LastFailure {
    pub failure: Failure,
    pub ago_s: f64,
}
