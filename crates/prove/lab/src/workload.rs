//! Named loads, and the fleets they are meant for.
//!
//! A workload is a TOML file. The ones in `benches/workloads` are compiled in; others are
//! loaded from a path. Reading one checks it completely: to hold a [`Workload`] is to know
//! that it can run.

mod file;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::Moment;
use engine::sim::Profile;
use loadgen::{Burst, Popularity, Script, Starters};

use self::file::File;
use crate::change::{Change, ChangeKind, WorkerPlan};
use crate::greedy::GreedyPlan;

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        [$((
            $name,
            include_str!(concat!("../../../../benches/workloads/", $name, ".toml")),
        )),+]
    };
}

/// The workloads compiled in.
const SHIPPED: [(&str, &str); 14] = shipped![
    "specification",
    "unique-starters",
    "four-replicas",
    "two-replicas",
    "think-time",
    "zipf",
    "kv-starved",
    "heterogeneous",
    "burst",
    "worker-death",
    "large-pool",
    "small-model",
    "greedy-tenant",
    "greedy-without-keys",
];

/// A load and what it runs on.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub name: String,
    /// A one-sentence description.
    pub about: String,
    /// The simulator profile, if the workload is about a certain one.
    pub profile: Option<String>,
    /// How many workers, if not as many as the profile says.
    pub workers: Option<u32>,
    pub script: Script,
    /// Characters after which a live run cuts the texts that conversations begin with; what is
    /// simulated has the script's number of tokens.
    pub text_limit: Option<usize>,
    pub starts_per_second: f64,
    pub bursts: Vec<Burst>,
    pub changes: Vec<Change>,
    /// Somebody beside the conversations.
    pub greedy: Option<GreedyPlan>,
    cache_blocks: Option<u32>,
    differences: Vec<Difference>,
}

/// How one worker differs from the profile.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Difference {
    worker: usize,
    speed: f64,
    slots: Option<u32>,
}

/// Why there is no such workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("no workload `{name}`; available: {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("cannot read workload {}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("workload `{name}` is invalid")]
    Parse {
        name: String,
        source: Box<toml::de::Error>,
    },
    #[error("workload `{name}`: {fault}")]
    Invalid { name: String, fault: WorkloadFault },
}

/// What is wrong with the text of a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadFault {
    #[error("max_tokens is 0 or think_time_s is a reversed range")]
    Script,
    #[error("starters are either `unique = true` or a `pool` of at least 1")]
    Starters,
    #[error("greedy.max_tokens is 0")]
    Greedy,
    #[error("a change is one of `dies`, `returns` and `speed`")]
    Change,
    #[error("{key}: [{least}, {most}] is not a range of at least 1")]
    Range {
        key: &'static str,
        least: u32,
        most: u32,
    },
    #[error("{key}: {value} is not a time")]
    Time { key: &'static str, value: f64 },
    #[error("{key}: {value} is not above 0")]
    NotPositive { key: &'static str, value: f64 },
}

/// Why a workload cannot run where it is meant to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it names worker {missing}, but there are {workers}")]
    NoWorker { missing: usize, workers: u32 },
    #[error("{slots} slots do not fit into a step of {tokens} tokens")]
    Slots { slots: u32, tokens: u32 },
    #[error(
        "a conversation of {longest} tokens fits neither {context} tokens of context nor {blocks} \
         blocks"
    )]
    Conversation {
        longest: usize,
        context: u32,
        blocks: u32,
    },
    #[error("`{workload}` has {what}, which only virtual sweeps have")]
    OnlyVirtual {
        workload: String,
        what: &'static str,
    },
}

impl Workload {
    /// The names of the shipped workloads.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|(name, _)| *name).collect()
    }

    /// The shipped workload with this name.
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) else {
            return Err(WorkloadError::Unknown {
                name: name.to_owned(),
                known: Self::names(),
            });
        };
        Self::parse(name, text)
    }

    /// A shipped workload by name, or one from a TOML file.
    pub fn find(name: &str) -> Result<Self, WorkloadError> {
        match name.ends_with(".toml") {
            true => Self::load(Path::new(name)),
            false => Self::named(name),
        }
    }

    /// Whether it can run on a live server, which has workers of its own.
    pub fn check_live(&self) -> Result<(), Unfit> {
        let zipf = matches!(
            self.script.starters,
            Starters::Shared {
                popularity: Popularity::Zipf { .. },
                ..
            }
        );
        let what = if zipf {
            "starters of unequal popularity"
        } else if !self.changes.is_empty() || !self.differences.is_empty() {
            "workers that differ or change"
        } else if self.cache_blocks.is_some() {
            "a cache of its own size"
        } else if !self.bursts.is_empty() {
            "bursts"
        } else if self.greedy.is_some() {
            "a greedy tenant"
        } else {
            return Ok(());
        };
        Err(Unfit::OnlyVirtual {
            workload: self.name.clone(),
            what,
        })
    }

    /// A workload from a file; its name is the file's.
    pub fn load(path: &Path) -> Result<Self, WorkloadError> {
        let text = std::fs::read_to_string(path).map_err(|source| WorkloadError::Read {
            path: path.to_owned(),
            source,
        })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text)
    }

    /// A workload from the text of its file.
    pub fn parse(name: &str, text: &str) -> Result<Self, WorkloadError> {
        let file: File = toml::from_str(text).map_err(|source| WorkloadError::Parse {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        Self::resolve(name, file).map_err(|fault| WorkloadError::Invalid {
            name: name.to_owned(),
            fault,
        })
    }

    /// The workers of a run.
    pub fn fleet(&self, profile: &Profile, workers: u32) -> Vec<WorkerPlan> {
        let worker = |index: usize| {
            let difference = self.differences.iter().find(|one| one.worker == index);
            let mut plan = WorkerPlan {
                total_blocks: self.cache_blocks,
                ..WorkerPlan::new(profile.clone())
            };
            if let Some(difference) = difference {
                plan.speed = difference.speed;
                plan.profile.slots = difference.slots.unwrap_or(profile.slots);
            }
            plan
        };
        (0..workers as usize).map(worker).collect()
    }

    /// Whether it can run on so many workers of that kind.
    pub fn check(&self, profile: &Profile, workers: u32) -> Result<(), Unfit> {
        let named = self.changes.iter().map(|change| change.worker);
        let named = named.chain(self.differences.iter().map(|one| one.worker));
        if let Some(missing) = named.into_iter().find(|&worker| worker >= workers as usize) {
            return Err(Unfit::NoWorker { missing, workers });
        }
        for plan in self.fleet(profile, workers) {
            let limits = plan.limits();
            if limits.slots == 0 || limits.slots > limits.max_step_tokens {
                let (slots, tokens) = (limits.slots, limits.max_step_tokens);
                return Err(Unfit::Slots { slots, tokens });
            }
            let longest = self.longest_tokens();
            if longest > limits.max_context_tokens as usize
                || limits.blocks_for(longest) > limits.total_blocks as usize
            {
                return Err(Unfit::Conversation {
                    longest,
                    context: limits.max_context_tokens,
                    blocks: limits.total_blocks,
                });
            }
        }
        Ok(())
    }

    /// The longest prompt with its answer, template not counted.
    fn longest_tokens(&self) -> usize {
        let script = &self.script;
        let (turns, answer) = (*script.turns.end(), script.max_tokens);
        let said = script.starter_tokens.end() + turns * (script.follow_up_tokens.end() + answer);
        let greedy = self.greedy.as_ref();
        let greedy = greedy.map_or(0, |greedy| greedy.prompt_tokens.end() + greedy.max_tokens);
        said.max(greedy) as usize
    }

    fn resolve(name: &str, file: File) -> Result<Self, WorkloadFault> {
        let conversations = file.conversations;
        let think_time = conversations.think_time_s.unwrap_or([0.0, 0.0]);
        let script = Script {
            turns: range("turns", conversations.turns)?,
            starters: starters(&conversations.starters)?,
            starter_tokens: range("starter_tokens", conversations.starter_tokens)?,
            follow_up_tokens: range("follow_up_tokens", conversations.follow_up_tokens)?,
            think_time: seconds("think_time_s", think_time[0])?
                ..=seconds("think_time_s", think_time[1])?,
            max_tokens: conversations.max_tokens,
        };
        if script.max_tokens == 0 || think_time[0] > think_time[1] {
            return Err(WorkloadFault::Script);
        }
        let bursts = file.bursts.iter().map(|burst| {
            let begin = Moment::ZERO + seconds("bursts.at_s", burst.at_s)?;
            Ok(Burst {
                begin,
                end: begin + seconds("bursts.for_s", burst.for_s)?,
                factor: positive("bursts.factor", burst.factor)?,
            })
        });
        let changes = file.changes.iter().map(|change| {
            Ok(Change {
                at: Moment::ZERO + seconds("changes.at_s", change.at_s)?,
                worker: change.worker,
                kind: change_kind(change)?,
            })
        });
        let differences = file.worker.iter().map(|worker| {
            Ok(Difference {
                worker: worker.number,
                speed: positive("worker.speed", worker.speed.unwrap_or(1.0))?,
                slots: worker.slots,
            })
        });
        let greedy = file.greedy.as_ref().map(greedy).transpose()?;
        Ok(Self {
            name: name.to_owned(),
            about: file.about,
            profile: file.profile,
            workers: file.workers,
            script,
            text_limit: conversations.text_limit.map(|limit| limit as usize),
            starts_per_second: conversations.starts_per_second.unwrap_or(0.0).max(0.0),
            bursts: bursts.collect::<Result<_, WorkloadFault>>()?,
            changes: changes.collect::<Result<_, WorkloadFault>>()?,
            greedy,
            cache_blocks: file.cache_blocks,
            differences: differences.collect::<Result<_, WorkloadFault>>()?,
        })
    }
}

fn starters(starters: &file::Starters) -> Result<Starters, WorkloadFault> {
    match (starters.unique, starters.pool, starters.zipf) {
        (true, None, None) => Ok(Starters::Unique),
        (false, Some(pool), zipf) if pool > 0 => Ok(Starters::Shared {
            pool,
            popularity: match zipf {
                None => Popularity::Uniform,
                Some(exponent) => Popularity::Zipf {
                    exponent: positive("starters.zipf", exponent)?,
                },
            },
        }),
        _ => Err(WorkloadFault::Starters),
    }
}

fn greedy(greedy: &file::Greedy) -> Result<GreedyPlan, WorkloadFault> {
    if greedy.max_tokens == 0 {
        return Err(WorkloadFault::Greedy);
    }
    Ok(GreedyPlan {
        requests: greedy.requests,
        prompt_tokens: range("greedy.prompt_tokens", greedy.prompt_tokens)?,
        max_tokens: greedy.max_tokens,
        own_key: greedy.own_key,
    })
}

fn change_kind(change: &file::Change) -> Result<ChangeKind, WorkloadFault> {
    match (change.dies, change.returns, change.speed) {
        (true, false, None) => Ok(ChangeKind::Dies),
        (false, true, None) => Ok(ChangeKind::Returns),
        (false, false, Some(speed)) => Ok(ChangeKind::Speed(positive("changes.speed", speed)?)),
        _ => Err(WorkloadFault::Change),
    }
}

fn range(key: &'static str, [least, most]: [u32; 2]) -> Result<RangeInclusive<u32>, WorkloadFault> {
    if least == 0 || least > most {
        return Err(WorkloadFault::Range { key, least, most });
    }
    Ok(least..=most)
}

fn seconds(key: &'static str, value: f64) -> Result<Duration, WorkloadFault> {
    Duration::try_from_secs_f64(value).map_err(|_| WorkloadFault::Time { key, value })
}

fn positive(key: &'static str, value: f64) -> Result<f64, WorkloadFault> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(WorkloadFault::NotPositive { key, value })
    }
}
