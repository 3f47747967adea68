//! A number with its unit and where it comes from.
//!
//! A simulation is as honest as its constants, so a profile cannot state one without saying
//! how it was obtained.

use serde::Deserialize;

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
    pub(super) fn seconds(&self) -> Result<f64, String> {
        self.in_base_unit(TIMES)
    }

    pub(super) fn bytes(&self) -> Result<f64, String> {
        self.in_base_unit(SIZES)
    }

    /// A share between 0 and 1.
    pub(super) fn ratio(&self) -> Result<f64, String> {
        let value = self.in_base_unit(RATIOS)?;
        if value > 1.0 {
            Err(format!("{value} is more than the whole"))
        } else {
            Ok(value)
        }
    }

    pub(super) fn tokens(&self) -> Result<f64, String> {
        self.in_base_unit(TOKENS)
    }

    pub(super) fn steps(&self) -> Result<u32, String> {
        self.whole(STEPS)
    }

    /// Rows of a batch.
    pub(super) fn rows(&self) -> Result<u32, String> {
        self.whole(ROWS)
    }

    fn whole(&self, units: &[Unit]) -> Result<u32, String> {
        let value = self.in_base_unit(units)?;
        if value.fract() == 0.0 && value <= f64::from(u32::MAX) {
            Ok(value as u32)
        } else {
            Err(format!("{value} is not a whole number of {}", self.unit))
        }
    }

    fn in_base_unit(&self, units: &[Unit]) -> Result<f64, String> {
        check_origin(&self.origin)?;
        let Some((_, worth)) = units.iter().find(|(name, _)| *name == self.unit) else {
            let known: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "unit `{}` is not one of {}",
                self.unit,
                known.join(", ")
            ));
        };
        if !self.value.is_finite() || self.value < 0.0 {
            return Err(format!("{} is not a quantity", self.value));
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
    pub(super) fn checked(self) -> Result<Vec<f64>, String> {
        check_origin(&self.origin)?;
        match self
            .values
            .iter()
            .find(|value| !(0.0..=1.0).contains(*value))
        {
            Some(value) => Err(format!("{value} is not between 0 and 1")),
            None => Ok(self.values),
        }
    }
}

fn check_origin(origin: &str) -> Result<(), String> {
    if origin.trim().is_empty() {
        Err("the origin is missing".to_owned())
    } else {
        Ok(())
    }
}
