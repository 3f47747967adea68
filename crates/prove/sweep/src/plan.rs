//! What a sweep is to do, checked before anything runs.
//!
//! A partial is written in a TOML file, in flags, or taken from a preset; each leaves out what it
//! has no opinion on, and they are laid over each other ([`PartialPlan::or`]). [`PartialPlan::resolve`] makes
//! a [`Plan`] of it, or names the field that makes no sense. To hold a plan is to know that it
//! can run. It is written to `plan.json`, and a sweep goes on only under an equal one.

mod command;
mod partial;
mod preset;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::partial::{PartialPlan, read};
pub use self::preset::Preset;
use crate::order::{Cells, LevelsOfModes, Order};
use crate::story::{self, Stage};
use stats::cell_summary::VIRTUAL;
use stats::raw::CellName;
use stats::slo::Objectives;

/// The version of `plan.json`.
pub const SCHEMA: u32 = 1;

/// How much longer than planned load may take to settle, unless a plan says otherwise.
const SETTLE_S: f64 = 120.0;

/// The field that makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct PlanError {
    pub field: &'static str,
    pub problem: String,
}

/// What is run, in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub schema: u32,
    pub testbed: Testbed,
    pub workload: String,
    /// The first is what others are compared with.
    pub modes: Vec<String>,
    pub levels: Vec<u32>,
    /// The levels of a mode that is not run at all of them.
    #[serde(default, skip_serializing_if = "LevelsOfModes::is_empty")]
    pub only: LevelsOfModes,
    pub repeats: u32,
    pub warmup_s: f64,
    /// How much longer the warm-up of a live run may take until load is steady. Plans written
    /// before it could be chosen do not have it.
    #[serde(default = "settle_s", skip_serializing_if = "is_settle_s")]
    pub settle_s: f64,
    pub window_s: f64,
    pub seed: u64,
    #[serde(with = "objectives")]
    pub slo: Objectives,
    pub order: Order,
}

fn settle_s() -> f64 {
    SETTLE_S
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_settle_s(seconds: &f64) -> bool {
    *seconds == SETTLE_S
}

/// What a sweep controls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Testbed {
    /// Simulated workers in simulated time.
    Virtual { profile: String, workers: u32 },
    /// The same, with an engine for each stage of a story.
    Story { stages: Vec<Stage>, workers: u32 },
    /// A running `homing`, driven through its API.
    Homing {
        target: String,
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        beside: Vec<Beside>,
    },
    /// Any server with OpenAI's API, driven through commands.
    Hooks {
        target: String,
        model: Option<String>,
        set_mode_command: Option<String>,
        get_mode_command: Option<String>,
        reset_command: Option<String>,
        ready_url: Option<String>,
    },
}

/// Another server in front of the same engines, reported like a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    pub name: String,
    pub target: String,
}

impl Testbed {
    /// A description, to be displayed.
    pub fn name(&self) -> &str {
        match self {
            Self::Virtual { .. } | Self::Story { .. } => VIRTUAL,
            Self::Homing { target, .. } | Self::Hooks { target, .. } => target,
        }
    }
}

impl Plan {
    pub fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup_s)
    }

    pub fn window(&self) -> Duration {
        Duration::from_secs_f64(self.window_s)
    }

    /// Servers that are measured beside the modes of the one under test.
    pub fn beside(&self) -> &[Beside] {
        match &self.testbed {
            Testbed::Homing { beside, .. } => beside,
            Testbed::Virtual { .. } | Testbed::Story { .. } | Testbed::Hooks { .. } => &[],
        }
    }

    pub fn settle(&self) -> Duration {
        Duration::from_secs_f64(self.settle_s)
    }

    /// How long a live run takes, before one has shown it: answers of the specification's load
    /// take half a minute.
    pub fn expected_run(&self) -> Duration {
        self.warmup() + self.window() + Duration::from_secs(45)
    }

    pub fn is_virtual(&self) -> bool {
        matches!(
            self.testbed,
            Testbed::Virtual { .. } | Testbed::Story { .. }
        )
    }

    fn is_story(&self) -> bool {
        let stages = story::stages();
        self.modes.iter().eq(stages.iter().map(|stage| &stage.name))
    }

    /// The runs in the order in which they are made.
    pub fn cells(&self) -> Vec<CellName> {
        self.order.cells(Cells {
            modes: &self.modes,
            levels: &self.levels,
            only: &self.only,
            repeats: self.repeats,
            seed: self.seed,
        })
    }

    /// The modes as they are asked for: with their levels, where these are not all.
    fn mode_words(&self) -> Vec<String> {
        let word = |mode: &String| match self.only.get(mode) {
            Some(levels) => {
                let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
                format!("{mode}@{}", levels.join("+"))
            }
            None => mode.clone(),
        };
        self.modes.iter().map(word).collect()
    }

    /// Of the conversations of a repeat, from 1: the same in every mode and at every level.
    pub fn seed_of(&self, repeat: u32) -> u64 {
        lab::grid::seed_of(self.seed, repeat)
    }

    /// The first field in which a plan that was written differs from this one.
    pub fn differs_from(&self, written: &serde_json::Value) -> Option<String> {
        let mine = serde_json::to_value(self).unwrap_or_default();
        let fields = |plan: &serde_json::Value| -> Vec<String> {
            let fields = plan.as_object().into_iter().flatten();
            fields.map(|(name, _)| name.clone()).collect()
        };
        // Either may have a field that the other leaves out; the list of runs is no field.
        let mut names = fields(&mine).into_iter().chain(fields(written));
        names.find(|name| name != "cells" && mine.get(name) != written.get(name))
    }
}

impl fmt::Display for Plan {
    /// The plan in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<String> = self.levels.iter().map(u32::to_string).collect();
        write!(
            f,
            "{} runs: {} at {} conversations, {} repeat(s), {} s + {} s, order {}, seed {}",
            self.cells().len(),
            self.mode_words().join(", "),
            levels.join(", "),
            self.repeats,
            self.warmup_s,
            self.window_s,
            self.order.name(),
            self.seed,
        )
    }
}

/// Objectives as people write them.
mod objectives {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use stats::slo::Objectives;

    pub(super) fn serialize<S: Serializer>(slo: &Objectives, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(&slo.notation())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Objectives, D::Error> {
        let text = String::deserialize(input)?;
        text.parse().map_err(D::Error::custom)
    }
}
