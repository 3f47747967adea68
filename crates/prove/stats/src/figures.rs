//! What the runs of one mode at one level come to.
//!
//! # Definitions
//!
//! - A request belongs to the window in which it was **sent**. What it does later counts, even
//!   beyond the window's end, so that slow requests are not lost at the edge.
//! - **A figure of several runs is the median of the runs' figures** ([`RunFigures`]): a run is
//!   one sample, and this is what intervals are about. It means the same however many runs
//!   there are. Not the mean, which a tail makes a matter of luck: with random routing one run
//!   in a hundred has a TTFT p99 four times that of the others.
//! - **Percentiles** of a run are nearest ranks over all its requests. Failed requests have no
//!   latency; **adjusted** percentiles count them as infinitely slow, and do not exist where
//!   such a one would be the percentile of a run.
//! - **TOPS** counts the tokens of answers, as the server's usage says, that fall into the
//!   window, whoever sent the request: an answer's tokens are spread evenly from its first
//!   token to its end. **RPS** counts the answers that end in the window.
//! - **Goodput** counts requests that meet every objective by themselves.
//! - **In flight** on a worker is what was placed there and had not ended, looked at each
//!   second. **Queue time** is what a request waited in the router and in the engine.

use std::collections::BTreeMap;

use loadgen::by_mode::TurnNumberFigures;
use loadgen::samples::nearest_rank;
use loadgen::{Histogram, RequestRecord};
use serde::Serialize;

use crate::raw::RawCell;

/// The percentiles that are reported.
pub const SHARES: [f64; 4] = [0.50, 0.90, 0.95, 0.99];

/// Percentiles; one that does not exist is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
}

impl Figures {
    /// Of values in any order.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len();
        Self::ranked(&values, count)
    }

    /// As if there were `missing` more values, beyond all others.
    fn adjusted(mut values: Vec<f64>, missing: usize) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len() + missing;
        Self::ranked(&values, count)
    }

    fn ranked(sorted: &[f64], count: usize) -> Self {
        Self::from_shares(|share| {
            let rank = nearest_rank(share, count as u64);
            sorted.get(rank as usize).copied()
        })
    }

    /// Of gaps between tokens, in milliseconds.
    pub fn of_gaps(gaps: &Histogram) -> Self {
        Self::from_shares(|share| gaps.percentile(share).map(|seconds| seconds * 1e3))
    }

    /// Builds the percentiles from a function that returns the value at a share.
    pub fn from_shares(mut at: impl FnMut(f64) -> Option<f64>) -> Self {
        let [p50, p90, p95, p99] = SHARES.map(|share| at(share).and_then(figure));
        Self { p50, p90, p95, p99 }
    }

    /// Of runs, where they all have it.
    fn middle(runs: &[Self]) -> Self {
        let one = |of: fn(&Self) -> Option<f64>| middle(runs.iter().map(of));
        Self {
            p50: one(|run| run.p50),
            p90: one(|run| run.p90),
            p95: one(|run| run.p95),
            p99: one(|run| run.p99),
        }
    }

    /// In the order of [`SHARES`].
    pub fn all(&self) -> [Option<f64>; 4] {
        [self.p50, self.p90, self.p95, self.p99]
    }
}

/// Six digits after the point: microseconds of a second, and no noise of binary fractions.
pub fn figure(value: f64) -> Option<f64> {
    value.is_finite().then(|| (value * 1e6).round() / 1e6)
}

/// The median of what all runs have.
fn middle(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    figure(median(values))
}

/// The middle one, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(at(half.wrapping_sub(1)), at(half)),
        _ => at(half),
    }
}

/// What one run comes to, or the medians of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunFigures {
    pub ttft_ms: Figures,
    pub tpot_ms: Figures,
    pub itl_ms: Figures,
    pub e2e_s: Figures,
    pub adjusted_ttft_ms: Figures,
    pub adjusted_e2e_s: Figures,
    pub tops: Option<f64>,
    pub rps: Option<f64>,
    pub kv_hit_pct: Option<f64>,
}

impl RunFigures {
    pub fn of(run: &RawCell) -> Self {
        let pool = Pool {
            runs: std::slice::from_ref(run),
        };
        let (ttft_ms, adjusted_ttft_ms) = pool.felt(|record| record.ttft_ms);
        let (tpot_ms, _) = pool.felt(|record| record.tpot_ms);
        let (e2e_s, adjusted_e2e_s) = pool.felt(|record| record.e2e_ms.map(|ms| ms / 1e3));
        let (tokens, ended) = pool.throughput();
        let (prompt, cached) = pool.usage();
        Self {
            ttft_ms,
            tpot_ms,
            itl_ms: Figures::of_gaps(&run.facts.itl),
            e2e_s,
            adjusted_ttft_ms,
            adjusted_e2e_s,
            tops: figure(tokens / pool.seconds()),
            rps: figure(ended / pool.seconds()),
            kv_hit_pct: percent(cached, prompt),
        }
    }

    pub fn middle(runs: &[Self]) -> Self {
        let figures = |of: fn(&Self) -> Figures| {
            let of_runs: Vec<Figures> = runs.iter().map(of).collect();
            Figures::middle(&of_runs)
        };
        let one = |of: fn(&Self) -> Option<f64>| middle(runs.iter().map(of));
        Self {
            ttft_ms: figures(|run| run.ttft_ms),
            tpot_ms: figures(|run| run.tpot_ms),
            itl_ms: figures(|run| run.itl_ms),
            e2e_s: figures(|run| run.e2e_s),
            adjusted_ttft_ms: figures(|run| run.adjusted_ttft_ms),
            adjusted_e2e_s: figures(|run| run.adjusted_e2e_s),
            tops: one(|run| run.tops),
            rps: one(|run| run.rps),
            kv_hit_pct: one(|run| run.kv_hit_pct),
        }
    }
}

/// Part of a whole in hundredths, if there is a whole.
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    figure(100.0 * part / whole)
}

/// Runs of one mode at one level.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    pub runs: &'a [RawCell],
}

impl<'a> Pool<'a> {
    /// Requests sent in a window, each with the index of its run.
    pub fn measured(self) -> impl Iterator<Item = (usize, &'a RequestRecord)> {
        self.runs.iter().enumerate().flat_map(|(index, run)| {
            let window = run.window();
            let records = run.records.iter();
            records
                .filter(move |record| window.contains(&record.sent_s))
                .map(move |record| (index, record))
        })
    }

    pub fn latencies(self, of: fn(&RequestRecord) -> Option<f64>) -> Vec<f64> {
        let answered = self.measured().filter(|(_, record)| record.error.is_none());
        answered.filter_map(|(_, record)| of(record)).collect()
    }

    pub fn seconds(self) -> f64 {
        let lengths = self.runs.iter().map(|run| run.window());
        lengths.map(|window| window.end - window.start).sum()
    }

    /// Latencies as a client felt them, of requests that were answered; and of all.
    pub fn felt(self, of: fn(&RequestRecord) -> Option<f64>) -> (Figures, Figures) {
        let values = self.latencies(of);
        let missing = self.measured().count() - values.len();
        (
            Figures::of(values.clone()),
            Figures::adjusted(values, missing),
        )
    }

    /// Tokens that came, and requests that ended, within the windows.
    pub fn throughput(self) -> (f64, f64) {
        let mut tokens = 0.0;
        let mut ended = 0.0;
        for run in self.runs {
            let window = run.window();
            for record in run.records.iter().filter(|record| record.error.is_none()) {
                tokens += tokens_within(record, window.start, window.end);
                ended += f64::from(u8::from(window.contains(&record.ended_s)));
            }
        }
        (tokens, ended)
    }

    /// Prompt tokens, and those of them that were cached.
    pub fn usage(self) -> (f64, f64) {
        usage(self.measured().map(|(_, record)| record))
    }

    /// By turn number, from 1.
    pub fn turns(self) -> Vec<TurnNumberFigures> {
        let mut turns: BTreeMap<u32, (Vec<f64>, f64, f64)> = BTreeMap::new();
        for (_, record) in self.measured().filter(|(_, record)| record.error.is_none()) {
            let (ttft, prompt, cached) = turns.entry(record.turn).or_default();
            ttft.extend(record.ttft_ms);
            *prompt += f64::from(record.prompt_tokens.unwrap_or(0));
            *cached += f64::from(record.cached_tokens.unwrap_or(0));
        }
        let figures = |(turn, (ttft, prompt, cached)): (u32, (Vec<f64>, f64, f64))| {
            let samples = ttft.len() as u64;
            let Figures { p50, p95, .. } = Figures::of(ttft);
            TurnNumberFigures {
                turn: turn + 1,
                ttft_ms_p50: p50,
                ttft_ms_p95: p95,
                samples,
                cached_pct: percent(cached, prompt),
            }
        };
        turns.into_iter().map(figures).collect()
    }
}

/// Prompt tokens of requests, and those of them that were cached.
pub fn usage<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> (f64, f64) {
    records.fold((0.0, 0.0), |(prompt, cached), record| {
        match (record.prompt_tokens, record.cached_tokens) {
            (Some(all), Some(some)) => (prompt + f64::from(all), cached + f64::from(some)),
            _ => (prompt, cached),
        }
    })
}

/// An answer's tokens that fall between two moments.
pub fn tokens_within(record: &RequestRecord, begin_s: f64, end_s: f64) -> f64 {
    let (Some(tokens), Some(ttft_ms)) = (record.output_tokens, record.ttft_ms) else {
        return 0.0;
    };
    let first_s = record.sent_s + ttft_ms / 1e3;
    let took = record.ended_s - first_s;
    if took <= 0.0 {
        // All at once.
        let inside = begin_s <= first_s && first_s < end_s;
        return f64::from(tokens) * f64::from(u8::from(inside));
    }
    let inside = record.ended_s.min(end_s) - first_s.max(begin_s);
    f64::from(tokens) * inside.max(0.0) / took
}

/// How long a request waited in the router and in the engine, if the server reported it.
pub fn queue_ms(record: &RequestRecord) -> Option<f64> {
    let in_router = record.routing.as_ref().map(|routing| routing.queued_ms);
    let timing = record.server_timing.as_ref();
    let in_engine = timing.and_then(|timing| timing.get("prefill_wait_time_ms")?.as_f64());
    match (in_router, in_engine) {
        (None, None) => None,
        (router, engine) => Some(router.unwrap_or(0.0) + engine.unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let found = Figures::of((1..=100).rev().map(f64::from).collect());
        assert_eq!(found.all(), [50.0, 90.0, 95.0, 99.0].map(Some));
        assert_eq!(Figures::of(vec![7.0]).all(), [Some(7.0); 4]);
        assert_eq!(Figures::of(Vec::new()), Figures::default());
    }

    #[test]
    fn failed_requests_are_slower_than_any_other() {
        let found = Figures::adjusted((1..=94).map(f64::from).collect(), 6);
        assert_eq!(found.all(), [Some(50.0), Some(90.0), None, None]);
        let all_well = Figures::adjusted(vec![1.0, 2.0], 0);
        assert_eq!(all_well, Figures::of(vec![1.0, 2.0]));
    }

    #[test]
    fn tokens_come_evenly_between_the_first_and_the_end() {
        let line = r#"{"conversation_id":"1","conversation":1,"turn":0,"turns":3,
            "turn_type":"initial","attempt":0,"due_s":10,"sent_s":10,"ended_s":31,
            "dispatch_lag_ms":0,"ttft_ms":1000,"output_tokens":200}"#;
        let record: RequestRecord = serde_json::from_str(line).unwrap();
        for (begin, end, expected) in [
            (0.0, 100.0, 200.0),
            (21.0, 100.0, 100.0),
            (0.0, 16.0, 50.0),
            (0.0, 11.0, 0.0),
            (31.0, 40.0, 0.0),
        ] {
            let found = tokens_within(&record, begin, end);
            assert!((found - expected).abs() < 1e-9, "{begin}..{end}: {found}");
        }
        let at_once = RequestRecord {
            ended_s: 11.0,
            ..record
        };
        assert_eq!(tokens_within(&at_once, 11.0, 12.0), 200.0);
        assert_eq!(tokens_within(&at_once, 12.0, 13.0), 0.0);
    }
}
