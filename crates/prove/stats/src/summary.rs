//! What a sweep comes to: the figures of every cell, how sure they are, and what follows.
//!
//! Computed from raw cells and nothing else, so the same cells give the same summary, byte for
//! byte. `summary.json` is an interface: fields are added, never renamed. A figure that
//! does not exist (the percentile of no sample) is `null`, never 0.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::baseline::baseline;
use crate::cell_summary::{About, CellSummary};
use crate::compare::Comparison;
use crate::figures::Pool;
use crate::headline::Headline;
use crate::intervals::{Difference, Level, NEEDED_RUNS, Verdict};
use crate::raw::RawCell;
use crate::slo::Objectives;
use crate::traffic::Timeline;

/// The version of `summary.json`.
pub const SCHEMA: u32 = 1;

/// A whole sweep or replay.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub schema: u32,
    /// Equal for equal plans and figures.
    pub run_id: String,
    #[serde(flatten)]
    pub about: About,
    /// Modes in the order of the plan; the first is what others are compared with.
    pub modes: Vec<String>,
    /// Ascending; empty for a replay.
    pub levels: Vec<u32>,
    /// Runs that are done, and those that were planned.
    pub done: usize,
    pub planned: usize,
    /// By level, and at each level in the order of the modes.
    pub cells: Vec<CellSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// In the file: `slo` and `crossovers`.
    #[serde(flatten)]
    pub headline: Option<Headline>,
    /// Beside published measurements, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

impl Summary {
    /// Of experiments that compare contestants without pairing them.
    pub fn of_cells(about: About, cells: Vec<CellSummary>) -> Self {
        let mut modes: Vec<String> = Vec::new();
        for cell in &cells {
            if !modes.contains(&cell.mode) {
                modes.push(cell.mode.clone());
            }
        }
        let levels: BTreeSet<u32> = cells.iter().filter_map(|cell| cell.concurrency).collect();
        let runs: u32 = cells.iter().map(|cell| cell.runs).sum();
        Self {
            schema: SCHEMA,
            run_id: baseline(&about, &cells, "", 0).run_id,
            about,
            modes,
            levels: levels.into_iter().collect(),
            done: runs as usize,
            planned: runs as usize,
            cells,
            differences: Vec::new(),
            headline: None,
            comparison: None,
        }
    }
}

impl Summary {
    /// Whether any mode was compared with the first and judged better, worse or neither.
    pub fn has_verdicts(&self) -> bool {
        let mut all = self.differences.iter();
        all.any(|one| one.verdict != Verdict::NotEnoughRuns)
    }

    /// What intervals and verdicts of it are worth, in a sentence or two.
    pub fn certainty(&self) -> String {
        let of_levels = || self.cells.iter().filter(|cell| cell.concurrency.is_some());
        let few = of_levels().filter(|cell| (cell.runs as usize) < NEEDED_RUNS);
        let (few, all) = (few.count(), of_levels().count());
        let mut text = String::new();
        if few > 0 {
            let fewest = of_levels().map(|cell| cell.runs).min().unwrap_or(0);
            let which = match few == all {
                true => String::new(),
                false => format!(" in {few} of {all} cells"),
            };
            text += &format!(
                "Not enough runs{which} to say what is chance: {fewest} where {NEEDED_RUNS} are \
                 needed (--repeats {NEEDED_RUNS}). There is no interval and no verdict."
            );
        }
        if self.has_verdicts() {
            let judged = self.differences.iter().filter(|one| one.p.is_some());
            let told = judged
                .clone()
                .filter(|one| one.verdict != Verdict::NotSignificant);
            let space = if text.is_empty() { "" } else { " " };
            text += &format!(
                "{space}Of {} differences {} are significant, judged together (Holm, 5 %).",
                judged.count(),
                told.count(),
            );
        }
        text
    }
}

/// A summary with what only charts need.
#[derive(Clone, Debug)]
pub struct ReportData {
    pub summary: Summary,
    /// Of the first run of each mode at the highest level.
    pub timelines: Vec<(String, Timeline)>,
}

/// All modes at one level: their cells with intervals, and each against the first, not judged
/// yet.
pub fn level(
    concurrency: u32,
    modes: &[(&str, &[RawCell])],
    objectives: &Objectives,
) -> (Vec<CellSummary>, Vec<Difference>) {
    let pools: Vec<Pool<'_>> = modes.iter().map(|&(_, runs)| Pool { runs }).collect();
    let cells = modes.iter().zip(&pools).map(|(&(mode, _), &pool)| {
        CellSummary::new(mode, Some(concurrency), pool, Some(objectives))
    });
    let names: Vec<&str> = modes.iter().map(|&(mode, _)| mode).collect();
    let differences = Level::new(&pools).against_first(concurrency, &names);
    (cells.collect(), differences)
}
