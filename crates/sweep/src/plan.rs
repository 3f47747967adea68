//! What a sweep is to do, checked before anything runs.
//!
//! A wish is written in a TOML file, in flags, or taken from a preset; each leaves out what it
//! has no opinion on, and they are laid over each other ([`Wish::or`]). [`Wish::resolve`] makes
//! a [`Plan`] of it, or names the field that makes no sense. To hold a plan is to know that it
//! can run. It is written to `plan.json`, and a sweep goes on only under an equal one.

mod preset;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use contract::random::mix;
use router::ModeName;
use serde::{Deserialize, Serialize};

pub use self::preset::Preset;
use crate::notation;
use crate::order::Order;
use crate::raw::CellName;
use crate::setting::Setting;
use crate::slo::Objectives;
use crate::story::{self, Stage};
use crate::summary::VIRTUAL;
use crate::workload::Workload;

/// The version of `plan.json`.
pub const SCHEMA: u32 = 1;

/// Separates the seeds of repeats.
const REPEAT: u64 = 0x4e9;
const DEFAULT_SEED: u64 = 42;
const DEFAULT_SLO: &str = "ttft_p95=600ms,tpot_p95=60ms";
/// More is a typing error: each needs a run of minutes.
const MOST_CELLS: usize = 100_000;

/// What somebody wants, as far as it was said. The keys of a plan file are these names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Wish {
    pub preset: Option<String>,
    /// The four stages of the demo instead of modes.
    #[serde(default)]
    pub story: bool,
    /// `60,80`, `60..180:20`, or a list of numbers.
    #[serde(default, deserialize_with = "words")]
    pub levels: Option<String>,
    /// `round-robin,kv`, or a list.
    #[serde(default, deserialize_with = "words")]
    pub modes: Option<String>,
    pub repeats: Option<u32>,
    pub warmup: Option<String>,
    pub window: Option<String>,
    pub workload: Option<String>,
    pub seed: Option<u64>,
    pub slo: Option<String>,
    pub order: Option<String>,
    /// Of a virtual cluster.
    pub profile: Option<String>,
    pub workers: Option<u32>,
    /// Of a live one.
    pub target: Option<String>,
    pub model: Option<String>,
    pub set_mode_command: Option<String>,
    pub get_mode_command: Option<String>,
    pub reset_command: Option<String>,
    pub ready_url: Option<String>,
}

/// The field that makes no sense, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct PlanError {
    pub field: &'static str,
    pub problem: String,
}

fn bad(field: &'static str) -> impl Fn(String) -> PlanError {
    move |problem| PlanError { field, problem }
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
    pub repeats: u32,
    pub warmup_s: f64,
    pub window_s: f64,
    pub seed: u64,
    #[serde(with = "objectives")]
    pub slo: Objectives,
    pub order: Order,
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

impl Testbed {
    /// For people.
    pub fn name(&self) -> &str {
        match self {
            Self::Virtual { .. } | Self::Story { .. } => VIRTUAL,
            Self::Homing { target, .. } | Self::Hooks { target, .. } => target,
        }
    }
}

impl Wish {
    /// From the text of a plan file.
    pub fn parse(text: &str) -> Result<Self, Box<toml::de::Error>> {
        toml::from_str(text).map_err(Box::new)
    }

    /// Takes from `other` what is not said here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            preset: self.preset.or(other.preset),
            story: self.story || other.story,
            levels: self.levels.or(other.levels),
            modes: self.modes.or(other.modes),
            repeats: self.repeats.or(other.repeats),
            warmup: self.warmup.or(other.warmup),
            window: self.window.or(other.window),
            workload: self.workload.or(other.workload),
            seed: self.seed.or(other.seed),
            slo: self.slo.or(other.slo),
            order: self.order.or(other.order),
            profile: self.profile.or(other.profile),
            workers: self.workers.or(other.workers),
            target: self.target.or(other.target),
            model: self.model.or(other.model),
            set_mode_command: self.set_mode_command.or(other.set_mode_command),
            get_mode_command: self.get_mode_command.or(other.get_mode_command),
            reset_command: self.reset_command.or(other.reset_command),
            ready_url: self.ready_url.or(other.ready_url),
        }
    }

    /// A plan, if all of it makes sense.
    pub fn resolve(self, is_virtual: bool) -> Result<Plan, PlanError> {
        let preset = match &self.preset {
            Some(name) => name.parse::<Preset>().map_err(bad("preset"))?,
            None if self.story => Preset::Story,
            None => Preset::default(),
        };
        let wish = self.or(preset.wish());
        let named = |value: &Option<String>| value.clone().unwrap_or_default();
        let order = named(&wish.order);
        let order = order.parse::<Order>().map_err(bad("order"))?;
        let workload = named(&wish.workload);
        let plan = Plan {
            schema: SCHEMA,
            testbed: wish.testbed(is_virtual, &workload)?,
            modes: wish.modes(is_virtual)?,
            levels: wish.levels()?,
            repeats: match wish.repeats {
                Some(repeats @ 1..=1000) => repeats,
                other => {
                    let found = other.unwrap_or(0);
                    return Err(bad("repeats")(format!("{found} is not 1 to 1000")));
                }
            },
            warmup_s: time("warmup", &named(&wish.warmup))?,
            window_s: match time("window", &named(&wish.window))? {
                0.0 => return Err(bad("window")("a window of 0 measures nothing".to_owned())),
                window => window,
            },
            seed: wish.seed.unwrap_or(DEFAULT_SEED),
            slo: wish
                .slo
                .as_deref()
                .unwrap_or(DEFAULT_SLO)
                .parse()
                .map_err(|error: crate::slo::ObjectiveError| bad("slo")(error.to_string()))?,
            order,
            workload,
        };
        match plan.cells().len() {
            0..=MOST_CELLS => Ok(plan),
            runs => Err(bad("levels")(format!(
                "{runs} runs are more than anyone has time for"
            ))),
        }
    }

    fn levels(&self) -> Result<Vec<u32>, PlanError> {
        let text = self.levels.as_deref().unwrap_or_default();
        let mut levels = notation::levels(text).map_err(bad("levels"))?.0;
        levels.sort_unstable();
        match levels.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(levels),
            Some(pair) => Err(bad("levels")(format!("{} is there twice", pair[0]))),
        }
    }

    /// Names of the router's modes, or any words that a command understands.
    fn modes(&self, is_virtual: bool) -> Result<Vec<String>, PlanError> {
        let text = self.modes.as_deref().unwrap_or_default();
        if self.story && self.modes.is_none() {
            return Ok(story::stages()
                .into_iter()
                .map(|stage| stage.name)
                .collect());
        }
        if self.story {
            let problem = "a story has its own stages; leave out one of the two";
            return Err(bad("modes")(problem.to_owned()));
        }
        let free = !is_virtual && self.set_mode_command.is_some();
        let mut modes: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(bad("modes")("a mode has no name".to_owned()));
            }
            let name = match free {
                true => name.to_owned(),
                false => {
                    let mode = name.parse::<ModeName>();
                    let mode = mode.map_err(|error| bad("modes")(error.to_string()))?;
                    mode.as_str().to_owned()
                }
            };
            if modes.contains(&name) {
                return Err(bad("modes")(format!("{name} is there twice")));
            }
            modes.push(name);
        }
        Ok(modes)
    }

    fn testbed(&self, is_virtual: bool, workload: &str) -> Result<Testbed, PlanError> {
        if is_virtual {
            if self.target.is_some() {
                let problem = "a virtual sweep has no server; leave out one of the two";
                return Err(bad("target")(problem.to_owned()));
            }
            // Also checks that load and workers fit each other.
            let find = |profile: Option<&str>| {
                Setting::find(workload, profile, self.workers).map_err(|error| {
                    let field = error.field();
                    bad(field)(whole_story(&error))
                })
            };
            if self.story {
                if self.profile.is_some() {
                    let problem = "a story has an engine for each of its stages";
                    return Err(bad("profile")(problem.to_owned()));
                }
                let stages = story::stages();
                let mut workers = 0;
                for stage in &stages {
                    workers = find(Some(&stage.profile))?.workers;
                }
                return Ok(Testbed::Story { stages, workers });
            }
            let found = find(self.profile.as_deref())?;
            return Ok(Testbed::Virtual {
                profile: self
                    .profile
                    .clone()
                    .unwrap_or_else(|| found.profile.name.clone()),
                workers: found.workers,
            });
        }
        let Some(target) = self.target.clone() else {
            let problem =
                "say which server to measure, such as http://127.0.0.1:8000, or --virtual";
            return Err(bad("target")(problem.to_owned()));
        };
        for (field, given) in [
            ("profile", self.profile.is_some()),
            ("workers", self.workers.is_some()),
        ] {
            if given {
                let problem = "a running server has its own; only virtual sweeps choose";
                return Err(bad(field)(problem.to_owned()));
            }
        }
        if self.story && self.set_mode_command.is_none() {
            let problem = "a running server cannot change its engines by itself; \
                           say how a stage is deployed: round-robin, kv, kv+draft, kv+eagle3";
            return Err(bad("set-mode-command")(problem.to_owned()));
        }
        Workload::find(workload)
            .map_err(|error| bad("workload")(whole_story(&error)))?
            .check_live()
            .map_err(bad("workload"))?;
        let hooks = [
            &self.set_mode_command,
            &self.get_mode_command,
            &self.reset_command,
            &self.ready_url,
        ];
        Ok(match hooks.iter().any(|hook| hook.is_some()) {
            false => Testbed::Homing {
                target,
                model: self.model.clone(),
            },
            true => Testbed::Hooks {
                target,
                model: self.model.clone(),
                set_mode_command: self.set_mode_command.clone(),
                get_mode_command: self.get_mode_command.clone(),
                reset_command: self.reset_command.clone(),
                ready_url: self.ready_url.clone(),
            },
        })
    }
}

impl Plan {
    pub fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup_s)
    }

    pub fn window(&self) -> Duration {
        Duration::from_secs_f64(self.window_s)
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
        self.order.cells(self)
    }

    /// Of the conversations of a repeat, from 1: the same in every mode and at every level.
    pub fn seed_of(&self, repeat: u32) -> u64 {
        seed_of(self.seed, repeat)
    }

    /// The first field in which a plan that was written differs from this one.
    pub fn differs_from(&self, written: &serde_json::Value) -> Option<String> {
        let mine = serde_json::to_value(self).unwrap_or_default();
        let fields = mine.as_object().into_iter().flatten();
        let mut different = fields.filter(|(name, value)| written.get(name) != Some(value));
        different.next().map(|(name, _)| name.clone())
    }

    /// What to type to run it again.
    pub fn command(&self) -> String {
        let mut words = vec!["homing sweep".to_owned()];
        let mut word = |flag: &str, value: &str| words.push(format!("--{flag} {}", quoted(value)));
        match &self.testbed {
            Testbed::Virtual { profile, workers } => {
                word("profile", profile);
                word("workers", &workers.to_string());
            }
            Testbed::Story { workers, .. } => word("workers", &workers.to_string()),
            Testbed::Homing { target, model } => {
                word("target", target);
                model.iter().for_each(|model| word("model", model));
            }
            Testbed::Hooks {
                target,
                model,
                set_mode_command,
                get_mode_command,
                reset_command,
                ready_url,
            } => {
                word("target", target);
                for (flag, value) in [
                    ("model", model),
                    ("set-mode-command", set_mode_command),
                    ("get-mode-command", get_mode_command),
                    ("reset-command", reset_command),
                    ("ready-url", ready_url),
                ] {
                    value.iter().for_each(|value| word(flag, value));
                }
            }
        }
        let levels: Vec<String> = self.levels.iter().map(u32::to_string).collect();
        word("workload", &self.workload);
        word("levels", &levels.join(","));
        match self.is_story() {
            true => words.insert(1, "--story".to_owned()),
            false => words.push(format!("--modes {}", quoted(&self.modes.join(",")))),
        }
        let mut word = |flag: &str, value: &str| words.push(format!("--{flag} {}", quoted(value)));
        word("repeats", &self.repeats.to_string());
        word("warmup", &format!("{}s", self.warmup_s));
        word("window", &format!("{}s", self.window_s));
        word("order", self.order.name());
        word("slo", &self.slo.notation());
        word("seed", &self.seed.to_string());
        if self.is_virtual() {
            words.insert(1, "--virtual".to_owned());
        }
        words.join(" ")
    }
}

/// Of the conversations of a repeat, from 1.
pub(crate) fn seed_of(seed: u64, repeat: u32) -> u64 {
    mix(seed, REPEAT, u64::from(repeat.saturating_sub(1)))
}

impl fmt::Display for Plan {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<String> = self.levels.iter().map(u32::to_string).collect();
        write!(
            f,
            "{} runs: {} at {} conversations, {} repeat(s), {} s + {} s, order {}, seed {}",
            self.cells().len(),
            self.modes.join(", "),
            levels.join(", "),
            self.repeats,
            self.warmup_s,
            self.window_s,
            self.order.name(),
            self.seed,
        )
    }
}

fn time(field: &'static str, text: &str) -> Result<f64, PlanError> {
    let time = notation::duration(text).map_err(bad(field))?;
    Ok(time.as_secs_f64())
}

/// For a shell, if it needs it.
fn quoted(value: &str) -> String {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "-_.,:/=".contains(character);
    match !value.is_empty() && value.chars().all(plain) {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    }
}

fn whole_story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        story = format!("{story}: {error}");
        cause = error.source();
    }
    story
}

/// A text, a number, or a list of either, as the text that a flag would have.
fn words<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Word {
        Number(i64),
        Text(String),
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(Word),
        List(Vec<Word>),
    }
    let text = |word: Word| match word {
        Word::Number(number) => number.to_string(),
        Word::Text(text) => text,
    };
    let words = match Words::deserialize(input)? {
        Words::One(word) => vec![word],
        Words::List(list) => list,
    };
    let words: Vec<String> = words.into_iter().map(text).collect();
    Ok(Some(words.join(",")))
}

/// Objectives as people write them.
mod objectives {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::slo::Objectives;

    pub(super) fn serialize<S: Serializer>(slo: &Objectives, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(&slo.notation())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Objectives, D::Error> {
        let text = String::deserialize(input)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Reads a plan file.
pub fn read(path: &Path) -> Result<Wish, PlanError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| bad("plan")(format!("cannot read {shown}: {error}")))?;
    Wish::parse(&text)
        .map_err(|error| bad("plan")(format!("{shown}: {}", error.to_string().trim())))
}
