//! What somebody wants, before it is known whether it makes sense.

use std::path::Path;

use contract::error_chain;
use router::ModeName;
use serde::Deserialize;

use super::{Beside, Plan, PlanError, Preset, SCHEMA, SETTLE_S, Testbed};
use crate::order::{LevelsOfModes, Order};
use crate::story;
use lab::notation;
use lab::setting::Setting;
use lab::workload::Workload;

const DEFAULT_SEED: u64 = 42;
const DEFAULT_SLO: &str = "ttft_p95=600ms,tpot_p95=60ms";
/// Virtual runs take seconds: enough of them for intervals and verdicts.
const VIRTUAL_REPEATS: u32 = 6;
/// Live runs take minutes each. Intervals need an explicit `repeats`.
const LIVE_REPEATS: u32 = 1;
/// More is a typing error: each needs a run of minutes.
const MOST_CELLS: usize = 100_000;

/// What somebody wants, as far as it was said. The keys of a plan file are these names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PartialPlan {
    pub preset: Option<String>,
    /// The four stages of the demo instead of modes.
    #[serde(default)]
    pub story: bool,
    /// `60,80`, `60..180:20`, or a list of numbers.
    #[serde(default, deserialize_with = "words")]
    pub levels: Option<String>,
    /// `round-robin,kv`, or a list; `kv-blocks@120+180` is run at these levels alone.
    #[serde(default, deserialize_with = "words")]
    pub modes: Option<String>,
    pub repeats: Option<u32>,
    pub warmup: Option<String>,
    pub window: Option<String>,
    pub settle: Option<String>,
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
    /// `name=http://host:port,...`, or a list.
    #[serde(default, deserialize_with = "words")]
    pub beside: Option<String>,
    pub set_mode_command: Option<String>,
    pub get_mode_command: Option<String>,
    pub reset_command: Option<String>,
    pub ready_url: Option<String>,
}

fn bad<P: ToString>(field: &'static str) -> impl Fn(P) -> PlanError {
    move |problem| PlanError {
        field,
        problem: problem.to_string(),
    }
}

impl PartialPlan {
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
            settle: self.settle.or(other.settle),
            workload: self.workload.or(other.workload),
            seed: self.seed.or(other.seed),
            slo: self.slo.or(other.slo),
            order: self.order.or(other.order),
            profile: self.profile.or(other.profile),
            workers: self.workers.or(other.workers),
            target: self.target.or(other.target),
            model: self.model.or(other.model),
            beside: self.beside.or(other.beside),
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
        let partial = self.or(preset.partial());
        let named = |value: &Option<String>| value.clone().unwrap_or_default();
        let order = named(&partial.order);
        let order = order.parse::<Order>().map_err(bad("order"))?;
        let workload = named(&partial.workload);
        let levels = partial.levels()?;
        let (modes, only) = partial.modes(is_virtual, &levels)?;
        let plan = Plan {
            schema: SCHEMA,
            testbed: partial.testbed(is_virtual, &workload)?,
            modes,
            levels,
            only,
            repeats: match partial.repeats {
                None if is_virtual => VIRTUAL_REPEATS,
                None => LIVE_REPEATS,
                Some(repeats @ 1..=1000) => repeats,
                Some(other) => {
                    return Err(bad("repeats")(format!("{other} is not between 1 and 1000")));
                }
            },
            warmup_s: time("warmup", &named(&partial.warmup))?,
            window_s: match time("window", &named(&partial.window))? {
                0.0 => return Err(bad("window")("a window of 0 measures nothing")),
                window => window,
            },
            settle_s: match &partial.settle {
                Some(settle) => time("settle", settle)?,
                None => SETTLE_S,
            },
            seed: partial.seed.unwrap_or(DEFAULT_SEED),
            slo: partial
                .slo
                .as_deref()
                .unwrap_or(DEFAULT_SLO)
                .parse()
                .map_err(bad::<stats::slo::ObjectiveError>("slo"))?,
            order,
            workload,
        };
        match plan.cells().len() {
            0..=MOST_CELLS => Ok(plan),
            runs => Err(bad("levels")(format!(
                "{runs} runs are more than the limit of {MOST_CELLS}"
            ))),
        }
    }

    fn levels(&self) -> Result<Vec<u32>, PlanError> {
        let text = self.levels.as_deref().unwrap_or_default();
        let mut levels = notation::levels(text).map_err(bad("levels"))?.0;
        levels.sort_unstable();
        match levels.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(levels),
            Some(pair) => Err(bad("levels")(format!("{} appears twice", pair[0]))),
        }
    }

    /// Names of the router's modes, or any words that a command understands; and the levels of
    /// those that are not run at all.
    fn modes(
        &self,
        is_virtual: bool,
        levels: &[u32],
    ) -> Result<(Vec<String>, LevelsOfModes), PlanError> {
        let text = self.modes.as_deref().unwrap_or_default();
        let mut only = LevelsOfModes::new();
        if self.story && self.modes.is_none() {
            let stages = story::stages().into_iter().map(|stage| stage.name);
            return Ok((stages.collect(), only));
        }
        if self.story {
            let problem = "a story has its own stages; omit story or modes";
            return Err(bad("modes")(problem));
        }
        let free = !is_virtual && self.set_mode_command.is_some();
        let mut modes: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(bad("modes")("a mode has no name"));
            }
            let (name, some) = match name.split_once('@') {
                Some((name, some)) if !free => (name, Some(some)),
                _ => (name, None),
            };
            let name = match free {
                true => name.to_owned(),
                false => {
                    let mode = name.parse::<ModeName>();
                    let mode = mode.map_err(bad("modes"))?;
                    mode.as_str().to_owned()
                }
            };
            if modes.contains(&name) {
                return Err(bad("modes")(format!("{name} appears twice")));
            }
            if let Some(some) = some {
                only.insert(name.clone(), levels_of(&name, some, levels)?);
            }
            modes.push(name);
        }
        for Beside { name, .. } in self.besides()? {
            if modes.contains(&name) {
                return Err(bad("beside")(format!("{name} appears twice")));
            }
            modes.push(name);
        }
        Ok((modes, only))
    }

    fn besides(&self) -> Result<Vec<Beside>, PlanError> {
        let text = self.beside.as_deref().unwrap_or_default();
        let words = text.split(',').map(str::trim);
        let beside = |word: &str| match word.split_once('=') {
            Some((name, target)) if !name.is_empty() && target.starts_with("http") => Ok(Beside {
                name: name.to_owned(),
                target: target.to_owned(),
            }),
            _ => Err(bad("beside")(format!(
                "`{word}` is not a name and an address, such as other=http://127.0.0.1:9000"
            ))),
        };
        words.filter(|word| !word.is_empty()).map(beside).collect()
    }

    fn testbed(&self, is_virtual: bool, workload: &str) -> Result<Testbed, PlanError> {
        match is_virtual {
            true => self.virtual_testbed(workload),
            false => self.live_testbed(workload),
        }
    }

    fn virtual_testbed(&self, workload: &str) -> Result<Testbed, PlanError> {
        if self.beside.is_some() {
            let problem = "a virtual sweep has no server to measure beside; omit one of the two";
            return Err(bad("beside")(problem));
        }
        if self.target.is_some() {
            let problem = "a virtual sweep has no target server; omit one of the two";
            return Err(bad("target")(problem));
        }
        // Also checks that load and workers fit each other.
        let find = |profile: Option<&str>| {
            Setting::find(workload, profile, self.workers).map_err(|error| {
                let field = error.field();
                bad(field)(error_chain(&error))
            })
        };
        if !self.story {
            let found = find(self.profile.as_deref())?;
            let profile = self.profile.clone();
            return Ok(Testbed::Virtual {
                profile: profile.unwrap_or_else(|| found.profile.name.clone()),
                workers: found.workers,
            });
        }
        if self.profile.is_some() {
            let problem = "a story has a profile for each of its stages; omit it";
            return Err(bad("profile")(problem));
        }
        let stages = story::stages();
        let mut workers = 0;
        for stage in &stages {
            workers = find(Some(&stage.profile))?.workers;
        }
        Ok(Testbed::Story { stages, workers })
    }

    fn live_testbed(&self, workload: &str) -> Result<Testbed, PlanError> {
        let Some(target) = self.target.clone() else {
            let problem =
                "set the server to measure, such as http://127.0.0.1:8000, or use --virtual";
            return Err(bad("target")(problem));
        };
        for (field, given) in [
            ("profile", self.profile.is_some()),
            ("workers", self.workers.is_some()),
        ] {
            if given {
                let problem = "a running server has its own; only virtual sweeps have this option";
                return Err(bad(field)(problem));
            }
        }
        if self.story && self.set_mode_command.is_none() {
            let problem = "a running server cannot change its engines by itself; \
                           set a command that deploys a stage: round-robin, kv, kv+draft, kv+eagle3";
            return Err(bad("set-mode-command")(problem));
        }
        Workload::find(workload)
            .map_err(|error| bad("workload")(error_chain(&error)))?
            .check_live()
            .map_err(bad("workload"))?;
        let hooks = [
            &self.set_mode_command,
            &self.get_mode_command,
            &self.reset_command,
            &self.ready_url,
        ];
        let is_hooked = hooks.iter().any(|hook| hook.is_some());
        if is_hooked && self.beside.is_some() {
            let problem = "caches are emptied through a Homing server's API; omit the commands";
            return Err(bad("beside")(problem));
        }
        Ok(match is_hooked {
            false => Testbed::Homing {
                target,
                model: self.model.clone(),
                beside: self.besides()?,
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

/// The levels behind a mode's `@`, which must be among the plan's.
fn levels_of(mode: &str, text: &str, levels: &[u32]) -> Result<Vec<u32>, PlanError> {
    let level = |word: &str| {
        let level = word.parse().ok().filter(|level| levels.contains(level));
        level.ok_or_else(|| {
            bad("modes")(format!(
                "{mode}@{text}: `{word}` is not one of the plan's levels"
            ))
        })
    };
    text.split('+').map(level).collect()
}

fn time(field: &'static str, text: &str) -> Result<f64, PlanError> {
    let time = notation::duration(text).map_err(bad(field))?;
    Ok(time.as_secs_f64())
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

/// Reads a plan file.
pub fn read(path: &Path) -> Result<PartialPlan, PlanError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| bad("plan")(format!("cannot read {shown}: {error}")))?;
    PartialPlan::parse(&text)
        .map_err(|error| bad("plan")(format!("{shown}: {}", error.to_string().trim())))
}
