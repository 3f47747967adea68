//! What a sweep gives to people and to scripts: JSON, CSV and a table.
//!
//! `summary.json` is an interface: fields are added, never renamed. A figure that does not
//! exist (the percentile of no sample) is `null`, never 0.

use std::fmt::Write as _;
use std::path::Path;

use loadgen::Percentiles;
use loadgen::by_mode::TurnNumberFigures;
use serde::Serialize;

use crate::baseline;
use crate::cell::Measured;
use crate::compare::Comparison;
use crate::slo::SloSummary;

/// The version of `summary.json`.
pub const SCHEMA: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub schema: u32,
    pub seed: u64,
    pub profile: String,
    pub simulated: bool,
    /// The workload's or the trace's name.
    pub workload: String,
    pub workers: u32,
    pub cells: Vec<CellSummary>,
    /// If it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Only if objectives were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<SloSummary>,
}

/// One mode at one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// The contestant's name.
    pub mode: &'static str,
    /// Conversations at once; `null` for a replay, where the trace decides.
    pub concurrency: Option<u32>,
    /// Sent within the window.
    pub requests: u64,
    /// Of those, failed or unfinished.
    pub errors: u64,
    pub ttft_ms: Figures,
    pub tpot_ms: Figures,
    pub itl_ms: Figures,
    pub e2e_s: Figures,
    /// Output tokens a second.
    pub tops: f64,
    /// Completed requests a second.
    pub rps: f64,
    pub kv_hit_pct: Option<f64>,
    pub inflight_spread: SpreadSummary,
    pub dispatched_past_slots: u64,
    /// By turn number; a trace has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnNumberFigures>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub p50: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpreadSummary {
    pub mean: Option<f64>,
    pub max: u32,
}

impl Figures {
    fn new(percentiles: Option<Percentiles>, factor: f64) -> Self {
        let Some(percentiles) = percentiles else {
            return Self::default();
        };
        let Percentiles { p50, p95, p99 } = percentiles.scaled(factor);
        Self {
            p50: figure(p50),
            p95: figure(p95),
            p99: figure(p99),
        }
    }
}

/// Six digits after the point: microseconds of a second, and no noise of binary fractions.
pub(crate) fn figure(value: f64) -> Option<f64> {
    value.is_finite().then(|| (value * 1e6).round() / 1e6)
}

impl CellSummary {
    pub fn new(mode: &'static str, concurrency: Option<u32>, measured: &Measured) -> Self {
        let tally = &measured.tally;
        Self {
            mode,
            concurrency,
            requests: tally.requests,
            errors: tally.errors,
            ttft_ms: Figures::new(tally.ttft.percentiles(), 1e3),
            tpot_ms: Figures::new(tally.tpot.percentiles(), 1e3),
            itl_ms: Figures::new(tally.itl.percentiles(), 1e3),
            e2e_s: Figures::new(tally.e2e.percentiles(), 1.0),
            tops: figure(tally.tokens_per_second()).unwrap_or(0.0),
            rps: figure(tally.requests_per_second()).unwrap_or(0.0),
            kv_hit_pct: figure(100.0 * tally.hit_rate()),
            inflight_spread: SpreadSummary {
                mean: figure(measured.spread.mean()),
                max: measured.spread.max(),
            },
            dispatched_past_slots: measured.dispatched_past_slots,
            turns: match concurrency {
                Some(_) => baseline::turns(tally),
                None => Vec::new(),
            },
        }
    }
}

impl Summary {
    /// Writes `summary.json` and `cells.csv` into a folder, which is made if need be.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        std::fs::write(folder.join("summary.json"), json)?;
        std::fs::write(folder.join("cells.csv"), self.csv())
    }

    /// One line for each cell.
    pub fn csv(&self) -> String {
        let mut csv = String::from(
            "mode,concurrency,requests,errors,\
             ttft_ms_p50,ttft_ms_p95,ttft_ms_p99,tpot_ms_p50,tpot_ms_p95,tpot_ms_p99,\
             itl_ms_p50,itl_ms_p95,itl_ms_p99,e2e_s_p50,e2e_s_p95,e2e_s_p99,\
             tops,rps,kv_hit_pct,inflight_spread_mean,inflight_spread_max,\
             dispatched_past_slots,simulated\n",
        );
        for cell in &self.cells {
            let mut fields = vec![
                cell.mode.to_owned(),
                cell.concurrency.map_or(String::new(), |n| n.to_string()),
                cell.requests.to_string(),
                cell.errors.to_string(),
            ];
            for figures in [cell.ttft_ms, cell.tpot_ms, cell.itl_ms, cell.e2e_s] {
                fields.extend([figures.p50, figures.p95, figures.p99].map(optional));
            }
            fields.extend([
                cell.tops.to_string(),
                cell.rps.to_string(),
                optional(cell.kv_hit_pct),
                optional(cell.inflight_spread.mean),
                cell.inflight_spread.max.to_string(),
                cell.dispatched_past_slots.to_string(),
                self.simulated.to_string(),
            ]);
            csv.push_str(&fields.join(","));
            csv.push('\n');
        }
        csv
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut table = format!(
            "SIMULATED: {} on {} workers, profile {}, seed {}\n\n\
             {:<13} {:>5} {:>8} {:>6} | {:>7} {:>7} {:>7} | {:>6} {:>6} | {:>6} {:>6} | {:>6} {:>6} | {:>7} {:>6} | {:>5} {:>6} {:>4} {:>5}\n\
             {:<13} {:>5} {:>8} {:>6} | {:^23} | {:^13} | {:^13} | {:^13} | {:>7} {:>6} | {:>5} {:^11} {:>5}\n",
            self.workload,
            self.workers,
            self.profile,
            self.seed,
            "",
            "",
            "",
            "",
            "p50",
            "p95",
            "p99",
            "p50",
            "p95",
            "p50",
            "p95",
            "p50",
            "p95",
            "",
            "",
            "",
            "mean",
            "max",
            "past",
            "mode",
            "conc",
            "requests",
            "errors",
            "TTFT ms",
            "TPOT ms",
            "ITL ms",
            "latency s",
            "tok/s",
            "req/s",
            "hit %",
            "spread",
            "slots",
        );
        for cell in &self.cells {
            let concurrency = cell.concurrency.map_or("-".to_owned(), |n| n.to_string());
            writeln!(
                table,
                "{:<13} {:>5} {:>8} {:>6} | {:>7} {:>7} {:>7} | {:>6} {:>6} | {:>6} {:>6} | {:>6} {:>6} | {:>7.0} {:>6.2} | {:>5} {:>6} {:>4} {:>5}",
                cell.mode,
                concurrency,
                cell.requests,
                cell.errors,
                rounded(cell.ttft_ms.p50, 0),
                rounded(cell.ttft_ms.p95, 0),
                rounded(cell.ttft_ms.p99, 0),
                rounded(cell.tpot_ms.p50, 1),
                rounded(cell.tpot_ms.p95, 1),
                rounded(cell.itl_ms.p50, 1),
                rounded(cell.itl_ms.p95, 1),
                rounded(cell.e2e_s.p50, 1),
                rounded(cell.e2e_s.p95, 1),
                cell.tops,
                cell.rps,
                rounded(cell.kv_hit_pct, 1),
                rounded(cell.inflight_spread.mean, 1),
                cell.inflight_spread.max,
                cell.dispatched_past_slots,
            )
            .expect("a string takes any text");
        }
        table
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn rounded(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
