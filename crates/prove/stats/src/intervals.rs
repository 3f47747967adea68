//! How sure a figure is, and whether two modes differ.
//!
//! Requests of a run share its queues, its workers and the router's draws: a run is slow or
//! fast as a whole. So **a run is one sample**, however many requests it has, and what differs
//! from run to run, each with a seed of its own, is what an interval is made of. Drawing
//! conversations of the same runs again leaves that out, and intervals made so held the truth
//! in as few as 8 of 100 sweeps where they said 95.
//!
//! A cell's figure is the **median** of its runs' figures, and its interval goes from one run
//! to another: of six runs, all are above the true median, or all below, in 2 of 64 cases, so
//! the lowest and the highest are a 97 % interval, whatever the figure's distribution. Fewer
//! than [`NEEDED_RUNS`] cannot have 95 % and have neither interval nor verdict. Two ways to have
//! narrower ones were measured and failed. Means with Student's t: the tail of a run is much
//! that of the others, and once in a hundred several times it, so that intervals of a mean TTFT
//! p99 held it in 43 of 100 sweeps. Percentiles of all requests together with each run left out in
//! turn: a percentile jumps, and one report in eight said something where nothing differed.
//!
//! Modes are compared in **pairs**: a repeat's conversations are the same in every mode, so the
//! difference is taken run by run, and what both have in common (long texts, crowded moments)
//! drops out. A difference is significant if its interval leaves 0 out and a t test of the
//! runs' ratios says so by Holm's rule over all differences of the report ([`judge`]). Where
//! modes do not differ, ratios are as often above 1 as below, however long their tails, and
//! that is all that such a test needs: at most one such report in twenty has a verdict.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::figures::{Figures, Pool, RunFigures, SHARES, figure, median};
use crate::raw::RawCell;
use crate::student::{holm, left_out, two_sided};

/// Fewer runs of a cell have no intervals and no verdicts: of five, all are on one side of the
/// truth in 2 of 32 cases, which is more than 5 %.
pub const NEEDED_RUNS: usize = 6;
/// Error rate: the probability that a value lies outside its interval, on both sides together;
/// and the probability that a whole report has a false positive.
const OUTSIDE: f64 = 0.05;
/// Below this share of a figure a difference is rounding.
const ROUNDING: f64 = 1e-9;

/// Said wherever there is no interval or verdict for want of runs.
pub const NOT_ENOUGH_RUNS: &str = "not enough runs";

/// In at least 95 of 100 sweeps the true figure lies within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Around the median of what runs came to; `None` if there are not enough of them, or one
    /// has no such figure: then nothing is known about how sure it is.
    fn new(mut runs: Vec<f64>) -> Option<Self> {
        if runs.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let outside = left_out(runs.len(), OUTSIDE)?;
        runs.sort_unstable_by(f64::total_cmp);
        Some(Self {
            low: figure(runs[outside])?,
            high: figure(runs[runs.len() - 1 - outside])?,
        })
    }

    /// Or below it; `None` if 0 lies within.
    fn is_above_zero(self) -> Option<bool> {
        match (self.low > 0.0, self.high < 0.0) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        }
    }
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
pub const FIGURES: usize = FAMILIES.len() * SHARES.len() + RATES.len();

/// The figures of one run; one that it does not have is no number.
pub type Row = [f64; FIGURES];

pub fn row(run: &RunFigures) -> Row {
    let percentiles = FAMILIES.iter().flat_map(|(_, of)| of(run).all());
    let rates = [run.kv_hit_pct, run.tops, run.rps];
    let mut row = [f64::NAN; FIGURES];
    for (place, value) in row.iter_mut().zip(percentiles.chain(rates)) {
        *place = value.unwrap_or(f64::NAN);
    }
    row
}

/// Names such as `ttft_ms_p95`, in the order of a row.
pub fn names() -> impl Iterator<Item = String> {
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
    /// Medians of the repeats that both modes have.
    pub value: f64,
    pub reference: f64,
    /// The median of the repeats' differences, which is not the difference of the medians.
    pub difference: f64,
    /// The same in hundredths of the reference.
    pub change_pct: Option<f64>,
    /// Of the difference, this one alone; `null` if there are not enough runs.
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

    /// The verdict in words.
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
pub fn judge(differences: &mut [Difference]) {
    let asked: Vec<f64> = differences.iter().filter_map(|one| one.p).collect();
    let mut adjusted = holm(&asked).into_iter();
    for one in differences {
        let Some(p) = one.p.and_then(|_| adjusted.next()) else {
            one.verdict = Verdict::NotEnoughRuns;
            continue;
        };
        one.p_adjusted = Some(p);
        let more_is_better = RATES.contains(&one.figure.as_str());
        let is_more = one.interval.and_then(Interval::is_above_zero);
        one.verdict = match is_more.filter(|_| p <= OUTSIDE) {
            None => Verdict::NotSignificant,
            Some(is_more) if is_more == more_is_better => Verdict::Better,
            Some(_) => Verdict::Worse,
        };
    }
}

/// How often chance alone makes runs of two modes differ as much: a t test of their ratios, or
/// of their differences where a ratio makes no sense.
fn chance(pairs: &[(f64, f64)]) -> f64 {
    let is_ratio = pairs
        .iter()
        .all(|(mine, theirs)| *mine > 0.0 && *theirs > 0.0);
    let apart = pairs.iter().map(|(mine, theirs)| match is_ratio {
        true => (mine / theirs).ln(),
        false => mine - theirs,
    });
    let apart: Vec<f64> = apart.collect();
    let size = match is_ratio {
        true => 1.0,
        false => pairs.iter().fold(0.0_f64, |most, (mine, theirs)| {
            most.max(mine.abs()).max(theirs.abs())
        }),
    };
    let count = apart.len() as f64;
    let mean = apart.iter().sum::<f64>() / count;
    if mean.abs() <= ROUNDING * size {
        return 1.0;
    }
    let squares: f64 = apart.iter().map(|one| (one - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    two_sided(mean / error, apart.len() as u32 - 1)
}

/// Of a cell by its runs; none if it has not enough of them.
pub fn intervals(runs: &[Row]) -> Intervals {
    let named = names().enumerate().filter_map(|(index, name)| {
        let runs = runs.iter().map(|row| row[index]);
        Some((name, Interval::new(runs.collect())?))
    });
    named.collect()
}

/// The same figures' medians, by name.
pub fn medians(runs: &[Row]) -> Vec<(String, f64)> {
    let of_figure = |index: usize| median(runs.iter().map(|row| row[index]).collect());
    let named = names().enumerate();
    named
        .map(|(index, name)| (name, of_figure(index)))
        .collect()
}

/// All modes at one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// In the order in which they were given; each run with its repeat, by which modes are
    /// paired.
    modes: Vec<Vec<(u32, Row)>>,
}

impl Level {
    pub fn new(pools: &[Pool<'_>]) -> Self {
        let of_run = |run: &RawCell| (run.facts.name.repeat, row(&RunFigures::of(run)));
        let modes = pools
            .iter()
            .map(|pool| pool.runs.iter().map(of_run).collect());
        Self {
            modes: modes.collect(),
        }
    }

    /// Of modes with equally many runs each, in the order of their repeats.
    pub fn of(modes: &[Vec<Row>]) -> Self {
        let modes = modes
            .iter()
            .map(|runs| (1..).zip(runs.iter().copied()).collect());
        Self {
            modes: modes.collect(),
        }
    }

    /// Each mode against the first, not judged yet.
    pub fn against_first(&self, concurrency: u32, names: &[&str]) -> Vec<Difference> {
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
                difference: one.difference,
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
            let of_figure = pairs
                .iter()
                .map(|(mine, theirs)| (mine[index], theirs[index]));
            let of_figure: Vec<(f64, f64)> = of_figure.collect();
            let (mine, theirs): (Vec<f64>, Vec<f64>) = of_figure.iter().copied().unzip();
            let apart = of_figure.iter().map(|(mine, theirs)| mine - theirs);
            let apart: Vec<f64> = apart.collect();
            let reference = median(theirs);
            let difference = median(apart.clone());
            let interval = Interval::new(apart);
            Some(Compared {
                figure: name,
                value: figure(median(mine))?,
                reference: figure(reference)?,
                difference: figure(difference)?,
                change_pct: figure(100.0 * difference / reference),
                p: interval.map(|_| chance(&of_figure)),
                interval,
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
    difference: f64,
    change_pct: Option<f64>,
    interval: Option<Interval>,
    p: Option<f64>,
}

#[cfg(test)]
mod tests;
