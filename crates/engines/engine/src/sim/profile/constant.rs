//! A number with its unit and where it comes from.
//!
//! A simulation is as honest as its constants, so a profile cannot state one without saying
//! how it was obtained.

use serde::Deserialize;

/// Why a constant cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConstantError {
    #[error("the origin is missing")]
    NoOrigin,
    #[error("unit `{unit}` is not one of {}", known.join(", "))]
    Unit {
        unit: String,
        known: Vec<&'static str>,
    },
    #[error("{0} is not a quantity")]
    NotAQuantity(f64),
    #[error("{value} is not a whole number of {unit}")]
    NotWhole { value: f64, unit: String },
    #[error("{0} is more than the whole")]
    AboveOne(f64),
    #[error("{0} is not between 0 and 1")]
    NotAShare(f64),
    #[error("a step takes time")]
    ZeroTime,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Constant {
    value: f64,
    unit: String,
    origin: String,
}

/// A unit and what it is worth in the base unit of its kind.
type Unit = (&'static str, f64);

const TIMES: &[Unit] = &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
const SIZES: &[Unit] = &[("B", 1.0), ("KiB", 1024.0), ("GB", 1e9)];
const RATIOS: &[Unit] = &[("ratio", 1.0)];
const TOKENS: &[Unit] = &[("tokens", 1.0)];
const STEPS: &[Unit] = &[("steps", 1.0)];
const ROWS: &[Unit] = &[("rows", 1.0)];

impl Constant {
    pub(super) fn seconds(&self) -> Result<f64, ConstantError> {
        self.in_base_unit(TIMES)
    }

    pub(super) fn bytes(&self) -> Result<f64, ConstantError> {
        self.in_base_unit(SIZES)
    }

    /// A share between 0 and 1.
    pub(super) fn ratio(&self) -> Result<f64, ConstantError> {
        let value = self.in_base_unit(RATIOS)?;
        if value > 1.0 {
            Err(ConstantError::AboveOne(value))
        } else {
            Ok(value)
        }
    }

    pub(super) fn tokens(&self) -> Result<f64, ConstantError> {
        self.in_base_unit(TOKENS)
    }

    pub(super) fn steps(&self) -> Result<u32, ConstantError> {
        self.whole(STEPS)
    }

    /// Rows of a batch.
    pub(super) fn rows(&self) -> Result<u32, ConstantError> {
        self.whole(ROWS)
    }

    fn whole(&self, units: &[Unit]) -> Result<u32, ConstantError> {
        let value = self.in_base_unit(units)?;
        if value.fract() == 0.0 && value <= f64::from(u32::MAX) {
            Ok(value as u32)
        } else {
            let unit = self.unit.clone();
            Err(ConstantError::NotWhole { value, unit })
        }
    }

    fn in_base_unit(&self, units: &[Unit]) -> Result<f64, ConstantError> {
        check_origin(&self.origin)?;
        let Some((_, worth)) = units.iter().find(|(name, _)| *name == self.unit) else {
            return Err(ConstantError::Unit {
                unit: self.unit.clone(),
                known: units.iter().map(|(name, _)| *name).collect(),
            });
        };
        if !self.value.is_finite() || self.value < 0.0 {
            return Err(ConstantError::NotAQuantity(self.value));
        }
        Ok(self.value * worth)
    }
}

/// Numbers between 0 and 1: acceptance by drafted position, times by workers that compute.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shares {
    values: Vec<f64>,
    origin: String,
}

impl Shares {
    pub(super) fn checked(self) -> Result<Vec<f64>, ConstantError> {
        check_origin(&self.origin)?;
        match self
            .values
            .iter()
            .find(|value| !(0.0..=1.0).contains(*value))
        {
            Some(value) => Err(ConstantError::NotAShare(*value)),
            None => Ok(self.values),
        }
    }
}

fn check_origin(origin: &str) -> Result<(), ConstantError> {
    if origin.trim().is_empty() {
        Err(ConstantError::NoOrigin)
    } else {
        Ok(())
    }
}
