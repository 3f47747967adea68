//! The routing modes by name, with their parameters.
//!
//! A [`Mode`] is what an operator chose, checked: each variant carries its own parameters,
//! so one that has no effect cannot be set on it. [`Mode::policy`] turns it into the code
//! that decides. Names are written with hyphens; underscores are read too, because
//! deployments written for other routers spell `round_robin`.

mod spec;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

pub use self::spec::{CostTerm, MODES, ModeSpec};

/// How workers are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Mode {
    RoundRobin,
    Random,
    LeastLoaded,
    PowerOfTwo,
    KvBlocks(BlockWeights),
    Kv,
}

impl Mode {
    /// The mode of that name. The weights are for `kv-blocks`; the others have none.
    pub fn new(name: ModeName, weights: BlockWeights) -> Self {
        match name {
            ModeName::RoundRobin => Self::RoundRobin,
            ModeName::Random => Self::Random,
            ModeName::LeastLoaded => Self::LeastLoaded,
            ModeName::PowerOfTwo => Self::PowerOfTwo,
            ModeName::KvBlocks => Self::KvBlocks(weights),
            ModeName::Kv => Self::Kv,
        }
    }

    pub fn name(&self) -> ModeName {
        match self {
            Self::RoundRobin => ModeName::RoundRobin,
            Self::Random => ModeName::Random,
            Self::LeastLoaded => ModeName::LeastLoaded,
            Self::PowerOfTwo => ModeName::PowerOfTwo,
            Self::KvBlocks(_) => ModeName::KvBlocks,
            Self::Kv => ModeName::Kv,
        }
    }

    /// The parameters, of the mode that has some.
    pub fn weights(&self) -> Option<BlockWeights> {
        match self {
            Self::KvBlocks(weights) => Some(*weights),
            Self::RoundRobin | Self::Random | Self::LeastLoaded | Self::PowerOfTwo | Self::Kv => {
                None
            }
        }
    }

    /// Whether requests wait in the router while every worker is full.
    pub fn binds_late(&self) -> bool {
        self.name().spec().binds_late
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    /// The mode with default parameters.
    fn from_str(text: &str) -> Result<Self, ModeError> {
        Ok(Self::new(text.parse()?, BlockWeights::default()))
    }
}

/// A mode without its parameters, in the order of [`MODES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModeName {
    Kv,
    KvBlocks,
    RoundRobin,
    Random,
    LeastLoaded,
    PowerOfTwo,
}

impl ModeName {
    /// In the order of the table.
    pub const ALL: [Self; MODES.len()] = {
        let mut all = [Self::Kv; MODES.len()];
        let mut at = 0;
        while at < MODES.len() {
            all[at] = MODES[at].mode;
            at += 1;
        }
        all
    };

    /// Its row of the table.
    pub const fn spec(self) -> &'static ModeSpec {
        &MODES[self as usize]
    }

    pub const fn as_str(self) -> &'static str {
        self.spec().name
    }
}

impl fmt::Display for ModeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ModeName {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let hyphenated = text.replace('_', "-");
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == hyphenated)
            .ok_or_else(|| ModeError::Unknown {
                name: text.to_owned(),
            })
    }
}

impl Serialize for ModeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Parameters of `kv-blocks`. To hold them is to know that they are finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BlockWeights {
    overlap_score_weight: f64,
    router_temperature: f64,
}

impl BlockWeights {
    pub fn new(overlap_score_weight: f64, router_temperature: f64) -> Result<Self, ModeError> {
        for (parameter, value) in [
            ("overlap_score_weight", overlap_score_weight),
            ("router_temperature", router_temperature),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(ModeError::OutOfRange { parameter, value });
            }
        }
        Ok(Self {
            overlap_score_weight,
            router_temperature,
        })
    }

    /// What a block to compute costs, in blocks in use.
    pub fn overlap_score_weight(&self) -> f64 {
        self.overlap_score_weight
    }

    /// Zero takes the cheapest worker; more draws among them, the cheap ones more often.
    pub fn router_temperature(&self) -> f64 {
        self.router_temperature
    }
}

impl Default for BlockWeights {
    /// The weights of the published formula.
    fn default() -> Self {
        Self {
            overlap_score_weight: 1.0,
            router_temperature: 0.0,
        }
    }
}

/// Why a mode was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModeError {
    #[error("unknown router mode `{name}`: expected one of {}", ModeName::ALL.map(ModeName::as_str).join(", "))]
    Unknown { name: String },
    #[error("{parameter} must be a finite number of at least 0, not {value}")]
    OutOfRange { parameter: &'static str, value: f64 },
}

impl ModeError {
    /// The offending field of a request.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "mode",
            Self::OutOfRange { parameter, .. } => parameter,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn names_are_read_with_hyphens_and_underscores() {
        for name in ModeName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            assert_eq!(name.as_str().replace('-', "_").parse(), Ok(name));
            let mode = Mode::new(name, BlockWeights::default());
            assert_eq!(name.as_str().parse(), Ok(mode));
            assert_eq!((mode.name(), mode.policy().name()), (name, name.as_str()));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "best".parse::<Mode>().unwrap_err();
        expect!["unknown router mode `best`: expected one of kv, kv-blocks, round-robin, random, least-loaded, power-of-two"]
            .assert_eq(&error.to_string());
    }

    #[test]
    fn weights_outside_their_range_are_refused_by_name() {
        for (weight, temperature, parameter) in [
            (-1.0, 0.0, "overlap_score_weight"),
            (f64::NAN, 0.0, "overlap_score_weight"),
            (1.0, f64::INFINITY, "router_temperature"),
            (1.0, -0.1, "router_temperature"),
        ] {
            let error = BlockWeights::new(weight, temperature).unwrap_err();
            assert!(error.to_string().starts_with(parameter), "{error}");
        }
        assert!(BlockWeights::new(0.0, 2.5).is_ok());
    }
}
