//! Intervals cover what they should, pairs see what single figures do not.

use loadgen::{Histogram, TurnType};

use super::*;
use crate::raw::{CellFacts, CellName, RawCell, SCHEMA};
use crate::summary::CellSummary;

/// A request of a conversation with this TTFT, a second after the last one.
fn request(number: u64, conversation: u64, ttft_ms: f64) -> RequestRecord {
    let sent_s = number as f64 * 0.1;
    RequestRecord {
        conversation_id: conversation.to_string(),
        conversation,
        turn: 0,
        turns: 1,
        turn_type: TurnType::Initial,
        attempt: 0,
        due_s: sent_s,
        sent_s,
        ended_s: sent_s + 2.0 + ttft_ms / 1e3,
        dispatch_lag_ms: 0.0,
        ttft_ms: Some(ttft_ms),
        tpot_ms: Some(20.0),
        itl_p50_ms: None,
        longest_gap_ms: None,
        e2e_ms: Some(2000.0 + ttft_ms),
        prompt_tokens: Some(1000),
        cached_tokens: Some(500),
        output_tokens: Some(100),
        chunks: Some(100),
        finish_reason: None,
        worker: Some((conversation % 3).to_string()),
        server_timing: None,
        routing: None,
        error: None,
    }
}

fn run(repeat: u32, records: Vec<RequestRecord>) -> RawCell {
    let end = records.len() as f64 * 0.1;
    RawCell {
        facts: CellFacts {
            schema: SCHEMA,
            name: CellName {
                mode: "m".to_owned(),
                concurrency: 1,
                repeat,
            },
            router_mode: None,
            seed: 0,
            simulated: true,
            profile: String::new(),
            workers: None,
            window_begin_s: 0.0,
            window_end_s: end,
            measured_from_ms: None,
            steady: true,
            mode_confirmed: true,
            slots: None,
            server: None,
            speculation: None,
            virtual_run: None,
            itl: Histogram::default(),
        },
        records,
    }
}

/// Conversations of four requests that share what makes them slow.
fn runs(seed: u64, shift_ms: f64) -> Vec<RawCell> {
    let of_run = |repeat: u32| {
        let records = (0..400).map(|number| {
            let conversation = number / 4;
            let own = Random::new(mix(seed, u64::from(repeat), conversation)).unit();
            let noise = Random::new(mix(seed, number, 1)).unit();
            request(
                number,
                conversation,
                100.0 + 400.0 * own + 5.0 * noise + shift_ms,
            )
        });
        run(repeat, records.collect())
    };
    vec![of_run(1), of_run(2)]
}

fn interval_of(resampled: &Resampled, name: &str) -> Interval {
    resampled.intervals(0)[name]
}

#[test]
fn measured_rows_are_the_reported_figures() {
    let runs = runs(3, 0.0);
    let pool = Pool { runs: &runs };
    let cell = CellSummary::new("m", Some(1), pool, None);
    for (name, value) in figures_of(pool) {
        let reported = cell.value(&name).unwrap();
        assert!(
            (reported - value).abs() < 1e-5,
            "{name}: {reported} {value}"
        );
    }
}

#[test]
fn intervals_hold_the_figure_and_are_wider_by_conversation_than_by_request() {
    let runs = runs(5, 0.0);
    let pool = Pool { runs: &runs };
    let together = Resampled::new(&[pool], 1);
    // The same requests, each a conversation of its own.
    let mut alone = runs.clone();
    for (index, record) in alone
        .iter_mut()
        .flat_map(|run| &mut run.records)
        .enumerate()
    {
        record.conversation = index as u64;
    }
    let alone = Resampled::new(&[Pool { runs: &alone }], 1);
    let cell = CellSummary::new("m", Some(1), pool, None);
    let names = ["ttft_ms_p50", "ttft_ms_p95", "tops", "kv_hit_pct"];
    for name in names {
        let Interval { low, high } = interval_of(&together, name);
        let value = cell.value(name).unwrap();
        assert!(
            low <= value && value <= high,
            "{name}: {low} {value} {high}"
        );
    }
    let width = |resampled: &Resampled| {
        let Interval { low, high } = interval_of(resampled, "ttft_ms_p50");
        high - low
    };
    let (together, alone) = (width(&together), width(&alone));
    assert!(together > 1.4 * alone, "{together} {alone}");
}

#[test]
fn the_interval_of_a_median_covers_the_truth_as_often_as_it_says() {
    // 100 + 400 u is uniform: its median is 302.5 with the noise's mean.
    let covered = (0..60).filter(|&seed| {
        let runs = runs(seed, 0.0);
        let resampled = Resampled::new(&[Pool { runs: &runs }], seed);
        let Interval { low, high } = interval_of(&resampled, "ttft_ms_p50");
        low <= 302.5 && 302.5 <= high
    });
    // 95 % of 60 is 57; seeds are fixed, so this is one number.
    let covered = covered.count();
    assert!(covered >= 53, "{covered}");
}

#[test]
fn pairs_see_a_difference_that_single_intervals_hide() {
    let (reference, slower) = (runs(7, 0.0), runs(7, 8.0));
    let pools = [Pool { runs: &reference }, Pool { runs: &slower }];
    let resampled = Resampled::new(&pools, 1);
    let [first, second] = [0, 1].map(|mode| resampled.intervals(mode)["ttft_ms_p50"]);
    assert!(first.high > second.low, "the two overlap");
    let verdict = |mode, reference, name: &str| {
        let all = resampled.differences(mode, reference);
        let one = all.into_iter().find(|one| one.figure == name).unwrap();
        one.verdict
    };
    assert_eq!(verdict(1, 0, "ttft_ms_p50"), Verdict::Worse);
    assert_eq!(verdict(0, 1, "ttft_ms_p50"), Verdict::Better);
    assert_eq!(verdict(1, 0, "kv_hit_pct"), Verdict::NotSignificant);
    assert_eq!(verdict(1, 0, "tpot_ms_p95"), Verdict::NotSignificant);
}

#[test]
fn the_same_seed_gives_the_same_intervals() {
    let runs = runs(9, 0.0);
    let pool = Pool { runs: &runs };
    let intervals = |seed| Resampled::new(&[pool], seed).intervals(0);
    assert_eq!(intervals(4), intervals(4));
    assert_ne!(intervals(4), intervals(5));
}

#[test]
fn more_of_a_rate_is_better_and_more_of_a_latency_is_worse() {
    let above = Interval {
        low: 1.0,
        high: 2.0,
    };
    let below = Interval {
        low: -2.0,
        high: -1.0,
    };
    let around = Interval {
        low: -1.0,
        high: 1.0,
    };
    for (interval, more_is_better, expected) in [
        (above, true, Verdict::Better),
        (above, false, Verdict::Worse),
        (below, true, Verdict::Worse),
        (below, false, Verdict::Better),
        (around, true, Verdict::NotSignificant),
        (around, false, Verdict::NotSignificant),
    ] {
        assert_eq!(verdict(interval, more_is_better), expected);
    }
}

#[test]
fn nothing_measured_has_no_interval() {
    let empty = [run(1, Vec::new())];
    let resampled = Resampled::new(&[Pool { runs: &empty }], 1);
    assert!(resampled.intervals(0).is_empty());
}
