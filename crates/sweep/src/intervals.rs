//! How sure a figure is, and whether two modes differ.
//!
//! Requests of a run share its queues, its workers and the router's draws: a run is slow or
//! fast as a whole. So **a run is one sample**, however many requests it has, and what differs
//! from run to run, each with a seed of its own, is what an interval is made of. Drawing
//! conversations of the same runs again leaves that out, and intervals made so held the truth
//! in as few as 8 of 100 sweeps where they said 95.
//!
//! A cell's figure is the mean of its runs' figures, and its interval is Student's: as many
//! runs as there are, and what they differ by. Fewer than [`NEEDED_RUNS`] have neither interval
//! nor verdict. Percentiles of all requests together, with each run left out in turn, were
//! tried first: a percentile jumps from one request to the next, and with so few runs that made
//! one report in eight say something where nothing differed.
//!
//! Modes are compared in **pairs**: a repeat's conversations are the same in every mode, so the
//! difference is taken run by run. What both modes have in common (long texts, crowded moments)
//! drops out. Of the many differences of a report those are called significant that remain so
//! by Holm's rule ([`judge`]): where nothing differs, at most one report in twenty has a verdict.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::figures::{Figures, Pool, RunFigures, SHARES, figure};
use crate::raw::RawCell;
use crate::student::{critical, holm, two_sided};

/// Fewer runs of a cell have no intervals and no verdicts. With five, intervals of all figures
/// hold the truth as often as they say (`cargo xtask bench coverage`); with fewer they would
/// too, but at twice the width and more.
pub const NEEDED_RUNS: usize = 5;
/// What lies outside of an interval, on both sides together; and what may be called
/// significant by chance, in a whole report.
const OUTSIDE: f64 = 0.05;
/// Below this share of the figures a difference is rounding.
const ROUNDING: f64 = 1e-9;

/// Said wherever there is no interval or verdict for want of runs.
pub const NOT_ENOUGH_RUNS: &str = "not enough runs";

/// In 95 of 100 sweeps the true figure lies within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// A latency's name, and its percentiles in a run.
type Family = (&'static str, fn(&RunFigures) -> Figures);

/// Every figure that gets an interval, in order: percentiles of latencies, then rates. Of a
/// rate, more is better; of a latency, less.
const FAMILIES: [Family; 3] = [
    ("ttft_ms", |run| run.ttft_ms),
    ("tpot_ms", |run| run.tpot_ms),
    ("e2e_s", |run| run.e2e_s),
];
const RATES: [&str; 3] = ["kv_hit_pct", "tops", "rps"];
const FIGURES: usize = FAMILIES.len() * SHARES.len() + RATES.len();

/// The figures of one run; one that it does not have is no number.
type Row = [f64; FIGURES];

fn row(run: &RunFigures) -> Row {
    let percentiles = FAMILIES.iter().flat_map(|(_, of)| of(run).all());
    let rates = [run.kv_hit_pct, run.tops, run.rps];
    let mut row = [f64::NAN; FIGURES];
    for (place, value) in row.iter_mut().zip(percentiles.chain(rates)) {
        *place = value.unwrap_or(f64::NAN);
    }
    row
}

/// Names such as `ttft_ms_p95`, in the order of a row.
fn names() -> impl Iterator<Item = String> {
    let percentiles = FAMILIES.iter().flat_map(|(family, _)| {
        let shares = SHARES.iter();
        shares.map(move |share| format!("{family}_p{:.0}", share * 100.0))
    });
    percentiles.chain(RATES.map(str::to_owned))
}

/// The intervals of one cell, by the figure's name.
pub type Intervals = BTreeMap<String, Interval>;

/// One figure of one mode against another's at the same level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub concurrency: u32,
    pub mode: String,
    pub against: String,
    pub figure: String,
    /// Of the repeats that both modes have.
    pub value: f64,
    pub reference: f64,
    /// In hundredths of the reference.
    pub change_pct: Option<f64>,
    /// Of the value less the reference, this one alone; `null` if there are not enough runs.
    pub interval: Option<Interval>,
    /// How often chance alone makes a difference as large; `null` likewise.
    #[serde(serialize_with = "rounded")]
    pub p: Option<f64>,
    /// The same by Holm's rule, all differences of the report considered. Decides the verdict.
    #[serde(serialize_with = "rounded")]
    pub p_adjusted: Option<f64>,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Better,
    Worse,
    NotSignificant,
    NotEnoughRuns,
}

impl Verdict {
    /// As programs read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotSignificant => "not-significant",
            Self::NotEnoughRuns => "not-enough-runs",
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotSignificant => "not significant",
            Self::NotEnoughRuns => NOT_ENOUGH_RUNS,
        }
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// Nine digits after the point: smaller ones have no meaning with so few runs.
fn rounded<S: Serializer>(p: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    p.map(|p| (p * 1e9).round() / 1e9).serialize(serializer)
}

/// Gives every difference of a report its verdict, by Holm's rule over all of them.
pub(crate) fn judge(differences: &mut [Difference]) {
    let asked: Vec<f64> = differences.iter().filter_map(|one| one.p).collect();
    let mut adjusted = holm(&asked).into_iter();
    for one in differences {
        let Some(p) = one.p.and_then(|_| adjusted.next()) else {
            one.verdict = Verdict::NotEnoughRuns;
            continue;
        };
        one.p_adjusted = Some(p);
        let more_is_better = RATES.contains(&one.figure.as_str());
        one.verdict = match p <= OUTSIDE {
            false => Verdict::NotSignificant,
            true if (one.value > one.reference) == more_is_better => Verdict::Better,
            true => Verdict::Worse,
        };
    }
}

/// The mean of what runs came to, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    value: f64,
    /// Of the value, in its unit.
    error: f64,
    freedom: u32,
}

impl Estimate {
    /// `None` if there are not enough runs, or one has no such figure: then nothing is known
    /// about how sure it is.
    fn new(runs: &[f64]) -> Option<Self> {
        if runs.len() < NEEDED_RUNS || runs.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let count = runs.len() as f64;
        let value = runs.iter().sum::<f64>() / count;
        let squares: f64 = runs.iter().map(|run| (run - value).powi(2)).sum();
        Some(Self {
            value,
            error: (squares / (count - 1.0) / count).sqrt(),
            freedom: runs.len() as u32 - 1,
        })
    }

    fn interval(&self) -> (f64, f64) {
        let reach = critical(OUTSIDE, self.freedom) * self.error;
        (self.value - reach, self.value + reach)
    }

    /// How often chance alone is as far from 0; `size` tells what is rounding.
    fn p(&self, size: f64) -> f64 {
        match self.value.abs() <= ROUNDING * size {
            true => 1.0,
            false => two_sided(self.value / self.error, self.freedom),
        }
    }
}

/// Of a cell by its runs; none if it has not enough of them.
pub(crate) fn intervals(runs: &[RunFigures]) -> Intervals {
    let rows: Vec<Row> = runs.iter().map(row).collect();
    let named = names().enumerate().filter_map(|(index, name)| {
        let runs: Vec<f64> = rows.iter().map(|row| row[index]).collect();
        let (low, high) = Estimate::new(&runs)?.interval();
        // No figure is below 0, and a share is at most the whole.
        let most = match name.ends_with("_pct") {
            true => 100.0,
            false => f64::MAX,
        };
        let interval = Interval {
            low: figure(low.max(0.0))?,
            high: figure(high.min(most))?,
        };
        Some((name, interval))
    });
    named.collect()
}

/// The same figures' means, by name.
pub(crate) fn means(runs: &[RunFigures]) -> Vec<(String, f64)> {
    let mean = row(&RunFigures::mean(runs));
    names().zip(mean).collect()
}

/// All modes at one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    /// In the order in which they were given; each run with its repeat, by which modes are
    /// paired.
    modes: Vec<Vec<(u32, Row)>>,
}

impl Level {
    pub(crate) fn new(pools: &[Pool<'_>]) -> Self {
        let of_run = |run: &RawCell| (run.facts.name.repeat, row(&RunFigures::of(run)));
        let modes = pools
            .iter()
            .map(|pool| pool.runs.iter().map(of_run).collect());
        Self {
            modes: modes.collect(),
        }
    }

    /// Of modes with equally many runs each, in the order of their repeats.
    pub(crate) fn of(modes: &[Vec<RunFigures>]) -> Self {
        let modes = modes.iter().map(|runs| {
            let numbered = (1..).zip(runs.iter().map(row));
            numbered.collect()
        });
        Self {
            modes: modes.collect(),
        }
    }

    /// Each mode against the first, not judged yet.
    pub(crate) fn against_first(&self, concurrency: u32, names: &[&str]) -> Vec<Difference> {
        let others = names.iter().enumerate().skip(1);
        let compared = others.flat_map(|(index, mode)| {
            let all = self.differences(index, 0).into_iter();
            all.map(move |one| Difference {
                concurrency,
                mode: (*mode).to_owned(),
                against: names[0].to_owned(),
                figure: one.figure,
                value: one.value,
                reference: one.reference,
                change_pct: one.change_pct,
                interval: one.interval,
                p: one.p,
                p_adjusted: None,
                verdict: Verdict::NotEnoughRuns,
            })
        });
        compared.collect()
    }

    /// Of a mode against another, in the order of the figures, over the repeats that both have.
    fn differences(&self, mode: usize, reference: usize) -> Vec<Compared> {
        let pairs: Vec<(Row, Row)> = self.modes[mode]
            .iter()
            .filter_map(|(repeat, mine)| {
                let mut theirs = self.modes[reference].iter();
                let (_, theirs) = theirs.find(|(other, _)| other == repeat)?;
                Some((*mine, *theirs))
            })
            .collect();
        let compared = names().enumerate().filter_map(|(index, name)| {
            let mean = |of: fn(&(Row, Row)) -> &Row| {
                pairs.iter().map(|pair| of(pair)[index]).sum::<f64>() / pairs.len() as f64
            };
            let (value, reference) = (mean(|pair| &pair.0), mean(|pair| &pair.1));
            let runs: Vec<f64> = pairs
                .iter()
                .map(|(mine, theirs)| mine[index] - theirs[index])
                .collect();
            let estimate = Estimate::new(&runs);
            let interval = estimate.and_then(|estimate| {
                let (low, high) = estimate.interval();
                Some(Interval {
                    low: figure(low)?,
                    high: figure(high)?,
                })
            });
            Some(Compared {
                figure: name,
                value: figure(value)?,
                reference: figure(reference)?,
                change_pct: figure(100.0 * (value / reference - 1.0)),
                interval,
                p: estimate.map(|estimate| estimate.p(value.abs().max(reference.abs()))),
            })
        });
        compared.collect()
    }
}

/// A [`Difference`] without its place and verdict.
struct Compared {
    figure: String,
    value: f64,
    reference: f64,
    change_pct: Option<f64>,
    interval: Option<Interval>,
    p: Option<f64>,
}

#[cfg(test)]
mod tests;
