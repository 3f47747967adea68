//! Plans that people ask for by name.

use std::str::FromStr;

use super::PartialPlan;
use crate::order::{UnknownName, named};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// What is run if nothing is said.
    #[default]
    Plain,
    /// As the published measurements: seven levels, six sweeps, 60 s + 300 s. Routing is off,
    /// then as it was published, then ours.
    Published,
    /// Five levels on four replicas: all with routing off, one switch, all with routing on.
    FiveLevel,
    /// Enough to see a difference, in some eleven minutes of real time.
    Quick,
    /// What `--story` runs if nothing else is said.
    Story,
}

impl Preset {
    pub const ALL: [(&str, Self); 3] = [
        ("published", Self::Published),
        ("five-level", Self::FiveLevel),
        ("quick", Self::Quick),
    ];

    /// All that it says. What a sweep must know is said by each of them.
    pub(super) fn partial(self) -> PartialPlan {
        let text = match self {
            Self::Plain => PLAIN,
            Self::Published => PUBLISHED,
            Self::FiveLevel => FIVE_LEVEL,
            Self::Quick => QUICK,
            Self::Story => STORY,
        };
        let partial = PartialPlan::parse(text).expect("presets are tested");
        match self {
            Self::Plain | Self::Story => partial,
            Self::Published | Self::FiveLevel | Self::Quick => partial.or(Self::Plain.partial()),
        }
    }
}

impl FromStr for Preset {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named("preset", name, &Self::ALL)
    }
}

const PLAIN: &str = r#"
levels = "60..180:20"
modes = "round-robin,kv-blocks,kv"
warmup = "60s"
window = "300s"
workload = "specification"
order = "random"
"#;

const PUBLISHED: &str = r#"
repeats = 6
"#;

const FIVE_LEVEL: &str = r#"
levels = "40..120:20"
modes = "round-robin,kv"
workload = "four-replicas"
order = "grouped"
"#;

const QUICK: &str = r#"
levels = "60,120"
modes = "round-robin,kv"
warmup = "40s"
window = "60s"
"#;

const STORY: &str = r#"
levels = "30,60,120,180"
warmup = "60s"
window = "300s"
workload = "specification"
order = "random"
"#;
