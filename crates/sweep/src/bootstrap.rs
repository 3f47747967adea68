//! How sure a figure is, and whether two modes differ.
//!
//! Requests of one conversation are no independent samples: they share a history, a worker and
//! often a fate. So conversations are drawn again, with all their requests, and never single
//! requests. What is a rate has no conversations; there, tenths of a window are drawn.
//!
//! Modes are compared in **pairs**: a conversation is the same in every mode, so in each
//! resample it is drawn equally often for all of them, and the difference of the two figures is
//! looked at, not the figures. What both modes have in common (long texts, crowded moments)
//! drops out. A difference whose interval holds 0 is said to be not significant.

use std::collections::BTreeMap;

use contract::random::{Random, mix};
use loadgen::RequestRecord;
use loadgen::samples::nearest_rank;
use serde::Serialize;

use crate::figures::{Pool, SHARES, figure, tokens_within};

/// Enough for the ends of a 95 % interval to be steady in their second digit.
const RESAMPLES: usize = 1000;
/// What lies outside of an interval, on either side.
const TAIL: f64 = 0.025;
/// Parts of a window that are drawn for rates.
const SLICES: usize = 10;

const CONVERSATIONS: u64 = 0xb007;
const TIMES: u64 = 0xb008;

/// 95 % of the resamples lie within it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// A latency that is compared.
struct Family {
    name: &'static str,
    of: fn(&RequestRecord) -> Option<f64>,
    factor: f64,
}

const FAMILIES: [Family; 3] = [
    Family {
        name: "ttft_ms",
        of: |record| record.ttft_ms,
        factor: 1.0,
    },
    Family {
        name: "tpot_ms",
        of: |record| record.tpot_ms,
        factor: 1.0,
    },
    Family {
        name: "e2e_s",
        of: |record| record.e2e_ms,
        factor: 1e-3,
    },
];

/// Every figure that gets an interval, in order: percentiles of the families, then rates.
/// Of a rate, more is better; of a latency, less.
const RATES: [&str; 3] = ["kv_hit_pct", "tops", "rps"];
const FIGURES: usize = FAMILIES.len() * SHARES.len() + RATES.len();

/// The figures of one mode in one resample, or as measured.
type Row = [f64; FIGURES];

/// Names such as `ttft_ms_p95`, in the order of a row.
fn names() -> impl Iterator<Item = String> {
    let percentiles = FAMILIES.iter().flat_map(|family| {
        let shares = SHARES.iter();
        shares.map(|share| format!("{}_p{:.0}", family.name, share * 100.0))
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
    pub value: f64,
    pub reference: f64,
    /// In hundredths of the reference.
    pub change_pct: Option<f64>,
    /// Of the value less the reference.
    pub interval: Interval,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Better,
    Worse,
    NotSignificant,
}

impl Verdict {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NotSignificant => "not significant",
        }
    }
}

/// All modes at one level.
#[derive(Debug)]
pub struct Resampled {
    /// By mode, in the order in which they were given.
    measured: Vec<Row>,
    resamples: Vec<Vec<Row>>,
}

impl Resampled {
    pub fn new(pools: &[Pool<'_>], seed: u64) -> Self {
        let (clusters, conversations) = conversations(pools);
        let modes: Vec<Mode> = pools.iter().zip(conversations).map(Mode::new).collect();
        let runs = pools.iter().map(|pool| pool.runs.len()).max().unwrap_or(0);
        let mut resamples = vec![Vec::with_capacity(RESAMPLES); modes.len()];
        let (mut drawn, mut times) = (vec![0_u32; clusters], vec![0_u32; runs * SLICES]);
        for number in 0..RESAMPLES {
            draw(&mut drawn, mix(seed, CONVERSATIONS, number as u64));
            draw(&mut times, mix(seed, TIMES, number as u64));
            for (mode, rows) in modes.iter().zip(&mut resamples) {
                rows.push(mode.row(&drawn, &times));
            }
        }
        let (once, always) = (vec![1; clusters], vec![1; runs * SLICES]);
        Self {
            measured: modes.iter().map(|mode| mode.row(&once, &always)).collect(),
            resamples,
        }
    }

    /// Of one mode.
    pub fn intervals(&self, mode: usize) -> Intervals {
        let rows = &self.resamples[mode];
        let named = names().enumerate().filter_map(|(index, name)| {
            let values = rows.iter().map(|row| row[index]);
            Some((name, interval(values.collect())?))
        });
        named.collect()
    }

    /// Of a mode against another, in the order of the figures.
    pub fn differences(&self, mode: usize, reference: usize) -> Vec<Compared> {
        let compared = names().enumerate().filter_map(|(index, name)| {
            let pairs = self.resamples[mode].iter().zip(&self.resamples[reference]);
            let differences = pairs.map(|(mine, theirs)| mine[index] - theirs[index]);
            let interval = interval(differences.collect())?;
            let (value, reference) = (self.measured[mode][index], self.measured[reference][index]);
            let more_is_better = RATES.contains(&name.as_str());
            Some(Compared {
                verdict: verdict(interval, more_is_better),
                change_pct: figure(100.0 * (value / reference - 1.0)),
                value: figure(value)?,
                reference: figure(reference)?,
                figure: name,
                interval,
            })
        });
        compared.collect()
    }
}

/// A [`Difference`] without its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub figure: String,
    pub value: f64,
    pub reference: f64,
    pub change_pct: Option<f64>,
    pub interval: Interval,
    pub verdict: Verdict,
}

fn verdict(interval: Interval, more_is_better: bool) -> Verdict {
    match (interval.low > 0.0, interval.high < 0.0) {
        (true, _) if more_is_better => Verdict::Better,
        (true, _) => Verdict::Worse,
        (_, true) if more_is_better => Verdict::Worse,
        (_, true) => Verdict::Better,
        (false, false) => Verdict::NotSignificant,
    }
}

/// `None` if a resample had no such figure: then nothing is known about how sure it is.
fn interval(mut values: Vec<f64>) -> Option<Interval> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values[nearest_rank(share, values.len() as u64) as usize];
    Some(Interval {
        low: figure(at(TAIL))?,
        high: figure(at(1.0 - TAIL))?,
    })
}

/// Draws as many as there are, with replacement: how often each was drawn.
fn draw(counts: &mut [u32], seed: u64) {
    counts.fill(0);
    let mut random = Random::new(seed);
    for _ in 0..counts.len() {
        counts[random.below(counts.len())] += 1;
    }
}

/// Numbers all conversations of a level, the same conversation equally in every mode; and the
/// numbers of each mode's requests.
fn conversations(pools: &[Pool<'_>]) -> (usize, Vec<Vec<u32>>) {
    let mut known: BTreeMap<(usize, u64), u32> = BTreeMap::new();
    let numbered = pools.iter().map(|pool| {
        let requests = pool.measured().map(|(run, record)| {
            let next = known.len() as u32;
            *known.entry((run, record.conversation)).or_insert(next)
        });
        requests.collect::<Vec<u32>>()
    });
    let numbered = numbered.collect();
    (known.len(), numbered)
}

/// What a mode's figures are computed from.
struct Mode {
    /// For each family, values in ascending order with their conversations.
    latencies: [Vec<(f64, u32)>; FAMILIES.len()],
    /// Prompt tokens and cached ones, with their conversations.
    usage: Vec<(f64, f64, u32)>,
    /// Tokens, ended requests and seconds of each slice.
    slices: Vec<(f64, f64, f64)>,
}

impl Mode {
    fn new((pool, conversations): (&Pool<'_>, Vec<u32>)) -> Self {
        let numbered = || pool.measured().zip(&conversations);
        let latencies = std::array::from_fn(|index| {
            let family: &Family = &FAMILIES[index];
            let answered = numbered().filter(|((_, record), _)| record.error.is_none());
            let mut values: Vec<(f64, u32)> = answered
                .filter_map(|((_, record), &number)| {
                    Some(((family.of)(record)? * family.factor, number))
                })
                .collect();
            values.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
            values
        });
        let usage = numbered().filter_map(|((_, record), &number)| {
            let (prompt, cached) = (record.prompt_tokens?, record.cached_tokens?);
            Some((f64::from(prompt), f64::from(cached), number))
        });
        Self {
            latencies,
            usage: usage.collect(),
            slices: slices(*pool),
        }
    }

    fn row(&self, drawn: &[u32], times: &[u32]) -> Row {
        let mut row = [f64::NAN; FIGURES];
        for (family, values) in self.latencies.iter().enumerate() {
            let found = percentiles(values, drawn);
            for (place, found) in found.into_iter().enumerate() {
                row[family * SHARES.len() + place] = found.unwrap_or(f64::NAN);
            }
        }
        let (mut prompt, mut cached) = (0.0, 0.0);
        for &(all, some, number) in &self.usage {
            let often = f64::from(drawn[number as usize]);
            prompt += often * all;
            cached += often * some;
        }
        let (mut tokens, mut ended, mut seconds) = (0.0, 0.0, 0.0);
        for (&(its_tokens, its_ended, its_seconds), &often) in self.slices.iter().zip(times) {
            tokens += f64::from(often) * its_tokens;
            ended += f64::from(often) * its_ended;
            seconds += f64::from(often) * its_seconds;
        }
        let rates = [100.0 * cached / prompt, tokens / seconds, ended / seconds];
        row[FIGURES - RATES.len()..].copy_from_slice(&rates);
        row
    }
}

/// Nearest ranks of values that count as often as their conversations were drawn.
fn percentiles(values: &[(f64, u32)], drawn: &[u32]) -> [Option<f64>; SHARES.len()] {
    let often = |number: u32| u64::from(drawn[number as usize]);
    let total: u64 = values.iter().map(|&(_, number)| often(number)).sum();
    let mut found = [None; SHARES.len()];
    if total == 0 {
        return found;
    }
    let ranks = SHARES.map(|share| nearest_rank(share, total));
    let (mut before, mut next) = (0, 0);
    for &(value, number) in values {
        before += often(number);
        while next < ranks.len() && before > ranks[next] {
            found[next] = Some(value);
            next += 1;
        }
    }
    found
}

fn slices(pool: Pool<'_>) -> Vec<(f64, f64, f64)> {
    let of_run = pool.runs.iter().flat_map(|run| {
        let window = run.window();
        let length = (window.end - window.start) / SLICES as f64;
        let mut slices = vec![(0.0, 0.0, length); SLICES];
        for record in run.records.iter().filter(|record| record.error.is_none()) {
            for (index, (tokens, ended, _)) in slices.iter_mut().enumerate() {
                let begin = window.start + length * index as f64;
                let end = begin + length;
                *tokens += tokens_within(record, begin, end);
                let inside = begin <= record.ended_s && record.ended_s < end;
                *ended += f64::from(u8::from(inside));
            }
        }
        slices
    });
    of_run.collect()
}

/// For checks against the figures that are reported.
#[cfg(test)]
pub(crate) fn figures_of(pool: Pool<'_>) -> BTreeMap<String, f64> {
    let resampled = Resampled::new(&[pool], 0);
    names().zip(resampled.measured[0]).collect()
}

#[cfg(test)]
mod tests;
