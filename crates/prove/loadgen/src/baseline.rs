//! A baseline: what load levels do to a fleet under several modes, for pages to draw beside
//! what is measured live.
//!
//! A laboratory writes one and a console reads it, in the same process or through a file, so
//! the type lies below both. An interface: fields are added, never renamed. A figure that does
//! not exist is `null`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::by_mode::TurnNumberFigures;

/// The version of the file.
pub const SCHEMA: u32 = 1;

/// The results of a whole sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Baseline {
    pub schema: u32,
    /// Equal for equal plans and figures.
    pub run_id: String,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// How it was computed or the file's name, to be displayed.
    pub source: String,
    pub simulated: bool,
    /// The simulated hardware and model.
    pub profile: String,
    pub workload: String,
    pub workers: u32,
    pub seed: u64,
    /// Runs behind each cell; its figures are their medians.
    pub repeats: u32,
    pub warmup_s: f64,
    pub window_s: f64,
    pub levels: Vec<BaselineLevel>,
}

/// All modes at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct BaselineLevel {
    /// Conversations at once.
    pub concurrency: u32,
    pub cells: Vec<BaselineCell>,
}

/// One mode at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct BaselineCell {
    pub mode: String,
    pub requests: u64,
    pub errors: u64,
    pub ttft_ms: BaselineFigures,
    pub tpot_ms: BaselineFigures,
    pub itl_ms: BaselineFigures,
    pub e2e_ms: BaselineFigures,
    /// Completed requests per second.
    pub rps: f64,
    /// Output tokens per second.
    pub tops: f64,
    /// Cached prompt tokens in percent of all.
    pub kv_hit_pct: Option<f64>,
    pub turns: Vec<TurnNumberFigures>,
    /// Against the level's first mode, by the figure's name, such as `ttft_ms_p95`: `better`,
    /// `worse` or `not-significant`. Empty if there are not enough runs to say, and for the
    /// first mode.
    #[serde(default)]
    pub verdicts: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct BaselineFigures {
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

/// Why a text is no baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("not a valid baseline: {0}")]
    Json(#[from] serde_json::Error),
    #[error("schema {found} is not supported; this version reads {SCHEMA}")]
    Schema { found: u64 },
}

impl Baseline {
    /// From the text of its file.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u64,
        }
        // First of all, because another version's fields may be others.
        let Version { schema: found } = serde_json::from_str(text)?;
        match found == u64::from(SCHEMA) {
            true => Ok(serde_json::from_str(text)?),
            false => Err(BaselineError::Schema { found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_baseline_is_told_from_another_version() {
        for (text, part) in [
            ("", "not a valid baseline: EOF"),
            ("{}", "missing field `schema`"),
            (r#"{ "schema": 2 }"#, "schema 2 is not supported"),
            (r#"{ "schema": 1 }"#, "missing field `run_id`"),
        ] {
            let error = Baseline::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
