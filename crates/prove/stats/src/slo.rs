//! The highest load under which latency objectives hold.
//!
//! An objective is a percentile that must not exceed a time. A cell holds if it meets every
//! objective and no request of it failed: an error is not a fast answer. The headline of a mode
//! is the highest level that holds, reported with the lower levels that do not, because
//! nothing guarantees that a higher load is always worse: a level that happens to fit the
//! number of workers may hold where a lower one does not.
//!
//! For the same reason [`search`] does not bisect. It goes upward and gives a mode up only
//! after [`GIVES_UP_AFTER`] levels in a row have failed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Write as _};
use std::str::FromStr;

use loadgen::RequestRecord;
use serde::{Serialize, Serializer};

use crate::cell_summary::CellSummary;
use crate::figures::Figures;
use crate::intervals::NOT_ENOUGH_RUNS;

/// Levels in a row that fail before a mode is given up.
pub const GIVES_UP_AFTER: usize = 3;

/// What has to hold, at least one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Objectives(Vec<Objective>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Objective {
    metric: Metric,
    percentile: Percentile,
    at_most_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Ttft,
    Tpot,
    Itl,
    E2e,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Percentile {
    P50,
    P90,
    P95,
    P99,
}

impl Metric {
    const ALL: [(&str, Self); 4] = [
        ("ttft", Self::Ttft),
        ("tpot", Self::Tpot),
        ("itl", Self::Itl),
        ("e2e", Self::E2e),
    ];
}

impl Percentile {
    const ALL: [(&str, Self); 4] = [
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p95", Self::P95),
        ("p99", Self::P99),
    ];
}

fn by_name<T: Copy>(all: &[(&str, T)], name: &str) -> Option<T> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|&(_, value)| value)
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: &T) -> &'static str {
    let found = all.iter().find(|(_, known)| known == value);
    found.map_or("", |&(name, _)| name)
}

/// Why a text is no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an objective such as ttft_p95=600ms; \
     there are ttft, tpot, itl and e2e with _p50, _p90, _p95 or _p99, in ms or s"
)]
pub struct ObjectiveError(String);

impl FromStr for Objectives {
    type Err = ObjectiveError;

    /// `ttft_p95=600ms,tpot_p95=60ms`.
    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let parts = text.split(',').map(str::trim);
        let objective = |part: &str| objective(part).ok_or_else(|| ObjectiveError(part.to_owned()));
        parts.map(objective).collect::<Result<_, _>>().map(Self)
    }
}

fn objective(text: &str) -> Option<Objective> {
    let (name, time) = text.split_once('=')?;
    let (metric, percentile) = name.split_once('_')?;
    let (number, factor) = match time.strip_suffix("ms") {
        Some(number) => (number, 1.0),
        None => (time.strip_suffix('s')?, 1e3),
    };
    let at_most_ms = number.trim().parse::<f64>().ok()? * factor;
    Some(Objective {
        metric: by_name(&Metric::ALL, metric)?,
        percentile: by_name(&Percentile::ALL, percentile)?,
        at_most_ms: (at_most_ms.is_finite() && at_most_ms > 0.0).then_some(at_most_ms)?,
    })
}

impl Objective {
    fn name(&self) -> String {
        let metric = name_of(&Metric::ALL, &self.metric);
        let percentile = name_of(&Percentile::ALL, &self.percentile);
        format!("{metric}_{percentile}")
    }

    /// What is not known does not hold.
    fn holds(&self, cell: &CellSummary) -> bool {
        let (figures, milliseconds): (&Figures, f64) = match self.metric {
            Metric::Ttft => (&cell.ttft_ms, 1.0),
            Metric::Tpot => (&cell.tpot_ms, 1.0),
            Metric::Itl => (&cell.itl_ms, 1.0),
            Metric::E2e => (&cell.e2e_s, 1e3),
        };
        let figure = match self.percentile {
            Percentile::P50 => figures.p50,
            Percentile::P90 => figures.p90,
            Percentile::P95 => figures.p95,
            Percentile::P99 => figures.p99,
        };
        figure.is_some_and(|figure| figure * milliseconds <= self.at_most_ms)
    }
}

impl Objective {
    /// Whether it holds in 95 of 100 sweeps, or fails in as many; `None` if neither is known.
    fn surely(&self, cell: &CellSummary) -> Option<bool> {
        let (unit, milliseconds) = match self.metric {
            Metric::Ttft | Metric::Tpot => ("ms", 1.0),
            Metric::E2e => ("s", 1e3),
            // Gaps have no interval.
            Metric::Itl => return None,
        };
        let metric = name_of(&Metric::ALL, &self.metric);
        let percentile = name_of(&Percentile::ALL, &self.percentile);
        let interval = cell
            .intervals
            .get(&format!("{metric}_{unit}_{percentile}"))?;
        let is_within = |value: f64| value * milliseconds <= self.at_most_ms;
        match (is_within(interval.low), is_within(interval.high)) {
            (_, true) => Some(true),
            (false, _) => Some(false),
            (true, false) => None,
        }
    }
}

impl Objectives {
    /// Whether chance decides if a cell holds: an objective lies within the interval of its
    /// figure, and no other surely fails.
    fn is_unsure(&self, cell: &CellSummary) -> bool {
        let mut known = self.0.iter().map(|objective| objective.surely(cell));
        cell.errors == 0
            && !known.clone().any(|holds| holds == Some(false))
            && known.any(|holds| holds.is_none())
    }

    /// Whether a single request was answered and stays within every time that a percentile
    /// must not exceed. Its ITL is its TPOT: the mean over its tokens, which an answer of one
    /// token does not have. One without any token was not answered.
    pub fn met_by(&self, record: &RequestRecord) -> bool {
        let within = |objective: &Objective| {
            let at_most = |felt: f64| felt <= objective.at_most_ms;
            match objective.metric {
                Metric::Ttft => record.ttft_ms.is_some_and(at_most),
                Metric::Tpot | Metric::Itl => record.tpot_ms.is_none_or(at_most),
                Metric::E2e => record.e2e_ms.is_some_and(at_most),
            }
        };
        record.error.is_none() && record.ttft_ms.is_some() && self.0.iter().all(within)
    }

    /// As [`FromStr`] reads them.
    pub fn notation(&self) -> String {
        let limits = self.limits_ms();
        let parts: Vec<String> = limits.map(|(name, ms)| format!("{name}={ms}ms")).collect();
        parts.join(",")
    }

    /// Each by its name, such as `ttft_p95`, with its milliseconds.
    pub fn limits_ms(&self) -> impl Iterator<Item = (String, f64)> {
        let objectives = self.0.iter();
        objectives.map(|objective| (objective.name(), objective.at_most_ms))
    }

    /// Whether a cell meets all of them and nothing failed.
    pub fn hold(&self, cell: &CellSummary) -> bool {
        cell.errors == 0 && self.0.iter().all(|objective| objective.holds(cell))
    }
}

impl Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, objective) in self.0.iter().enumerate() {
            let and = if index == 0 { "" } else { ", " };
            write!(
                f,
                "{and}{} at most {} ms",
                objective.name(),
                objective.at_most_ms
            )?;
        }
        Ok(())
    }
}

impl Serialize for Objectives {
    /// `{"ttft_p95_ms": 600.0}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |objective: &Objective| (objective.name() + "_ms", objective.at_most_ms);
        serializer.collect_map(self.0.iter().map(entry))
    }
}

/// What came of a sweep under objectives, by the name of the mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SloSummary {
    pub objectives: Objectives,
    /// The highest level that holds; `null` if none does.
    pub highest: BTreeMap<String, Option<u32>>,
    /// Lower levels that do not hold.
    pub failed_below: BTreeMap<String, Vec<u32>>,
    /// The highest level that was run.
    pub tried_up_to: BTreeMap<String, u32>,
    /// Levels at which chance decides, since an objective lies within the interval of its
    /// figure; `null` if there are not enough runs to say.
    pub unsure: BTreeMap<String, Option<Vec<u32>>>,
}

impl SloSummary {
    /// Cells without a level, as a replay's, say nothing.
    pub fn new(objectives: Objectives, cells: &[CellSummary]) -> Self {
        let mut levels: BTreeMap<String, BTreeMap<u32, bool>> = BTreeMap::new();
        let mut unsure: BTreeMap<String, Option<Vec<u32>>> = BTreeMap::new();
        for cell in cells {
            if let Some(level) = cell.concurrency {
                let of_mode = levels.entry(cell.mode.clone()).or_default();
                of_mode.insert(level, objectives.hold(cell));
                let unsure = unsure.entry(cell.mode.clone()).or_insert(Some(Vec::new()));
                match unsure {
                    Some(levels) if !cell.intervals.is_empty() => {
                        levels.extend(objectives.is_unsure(cell).then_some(level));
                    }
                    _ => *unsure = None,
                }
            }
        }
        let mut summary = Self {
            objectives,
            highest: BTreeMap::new(),
            failed_below: BTreeMap::new(),
            tried_up_to: BTreeMap::new(),
            unsure,
        };
        for (mode, levels) in levels {
            let held = levels.iter().filter(|(_, holds)| **holds);
            let highest = held.map(|(&level, _)| level).next_back();
            let failed = levels.iter().filter(|(_, holds)| !**holds);
            let below = failed
                .map(|(&level, _)| level)
                .filter(|&level| highest.is_some_and(|highest| level < highest));
            summary.failed_below.insert(mode.clone(), below.collect());
            let tried = levels.keys().next_back();
            summary
                .tried_up_to
                .extend(tried.map(|&up| (mode.clone(), up)));
            summary.highest.insert(mode, highest);
        }
        summary
    }

    /// The lines printed under the table.
    pub fn lines(&self) -> String {
        let mut text = format!("Highest level with {}:\n", self.objectives);
        for (mode, highest) in &self.highest {
            let level = highest.map_or("none".to_owned(), |level| level.to_string());
            write!(text, "{mode:<13} {level:>5}").expect("a string takes any text");
            if let Some(up) = self.tried_up_to.get(mode) {
                write!(text, "  tried up to {up}").expect("a string takes any text");
            }
            let failed = self.failed_below.get(mode).map_or(&[][..], Vec::as_slice);
            if !failed.is_empty() {
                let failed: Vec<_> = failed.iter().map(u32::to_string).collect();
                write!(text, ", but not at {}", failed.join(", "))
                    .expect("a string takes any text");
            }
            let unsure = self.unsure.get(mode).and_then(Option::as_ref);
            if let Some(unsure) = unsure.filter(|unsure| !unsure.is_empty()) {
                let unsure: Vec<_> = unsure.iter().map(u32::to_string).collect();
                write!(text, ", unsure at {}", unsure.join(", ")).expect("a string takes any text");
            }
            text.push('\n');
        }
        if self.unsure.values().any(Option::is_none) {
            writeln!(text, "How sure that is: {NOT_ENOUGH_RUNS}.")
                .expect("a string takes any text");
        }
        text
    }
}

/// Runs levels upward, each with the contestants that are still in: who fails
/// [`GIVES_UP_AFTER`] levels in a row is not run at higher ones. `run` gives a cell for each
/// contestant it is handed, in their order.
pub fn search<C: Clone, R: AsRef<CellSummary>>(
    levels: &[u32],
    contestants: &[C],
    objectives: &Objectives,
    mut run: impl FnMut(u32, &[C]) -> Vec<R>,
) -> Vec<R> {
    let mut still_in: Vec<(C, usize)> = contestants.iter().cloned().map(|one| (one, 0)).collect();
    let mut all = Vec::new();
    for &level in &BTreeSet::from_iter(levels.iter().copied()) {
        let handed: Vec<C> = still_in.iter().map(|(one, _)| one.clone()).collect();
        if handed.is_empty() {
            break;
        }
        let cells = run(level, &handed);
        for ((_, failures), cell) in still_in.iter_mut().zip(&cells) {
            let holds = objectives.hold(cell.as_ref());
            *failures = if holds { 0 } else { *failures + 1 };
        }
        still_in.retain(|(_, failures)| *failures < GIVES_UP_AFTER);
        all.extend(cells);
    }
    all
}
