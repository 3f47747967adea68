//! Objectives in words, and levels that hold or do not.

use router::ModeName;

use super::*;
use crate::intervals::Interval;

fn cell(mode: ModeName, level: u32, ttft_p95: f64) -> CellSummary {
    let figures = |p95| Figures {
        p50: Some(p95 / 2.0),
        p95: Some(p95),
        ..Figures::default()
    };
    CellSummary {
        mode: mode.as_str().to_owned(),
        concurrency: Some(level),
        requests: 100,
        ttft_ms: figures(ttft_p95),
        tpot_ms: figures(50.0),
        itl_ms: figures(50.0),
        e2e_s: figures(30.0),
        ..CellSummary::default()
    }
}

fn objectives(text: &str) -> Objectives {
    text.parse().unwrap()
}

#[test]
fn objectives_are_percentiles_with_times() {
    let parsed = objectives("ttft_p95=600ms, tpot_p95=0.06s");
    assert_eq!(
        parsed.to_string(),
        "ttft_p95 at most 600 ms, tpot_p95 at most 60 ms"
    );
    assert_eq!(
        serde_json::to_string(&parsed).unwrap(),
        r#"{"ttft_p95_ms":600.0,"tpot_p95_ms":60.0}"#
    );
    for text in [
        "",
        "ttft",
        "ttft=600ms",
        "ttft_p95=600",
        "ttft_p91=600ms",
        "speed_p95=1s",
        "ttft_p95=0ms",
        "ttft_p95=-1s",
        "ttft_p95=NaNms",
        "ttft_p95=600ms,",
    ] {
        let error = text.parse::<Objectives>().unwrap_err().to_string();
        assert!(error.contains("is not an objective"), "{text}");
    }
}

#[test]
fn a_cell_holds_if_every_figure_does_and_nothing_failed() {
    for (text, holds) in [
        ("ttft_p95=600ms", true),
        ("ttft_p95=599ms", false),
        ("ttft_p50=300ms,tpot_p95=50ms", true),
        ("ttft_p50=300ms,tpot_p95=49ms", false),
        ("e2e_p95=30s", true),
        ("e2e_p95=29999ms", false),
        ("itl_p50=25ms", true),
        // Nobody knows.
        ("ttft_p99=1000s", false),
    ] {
        let cell = cell(ModeName::Kv, 10, 600.0);
        assert_eq!(objectives(text).hold(&cell), holds, "{text}");
        let failed = CellSummary { errors: 1, ..cell };
        assert!(!objectives(text).hold(&failed), "{text}");
    }
}

#[test]
fn the_headline_is_the_highest_level_that_holds_with_those_below_that_do_not() {
    let kv = [100.0, 700.0, 200.0, 900.0];
    let mut cells: Vec<_> = (1..)
        .zip(kv)
        .map(|(tens, ttft)| cell(ModeName::Kv, 10 * tens, ttft))
        .collect();
    cells.push(cell(ModeName::Random, 10, 601.0));
    let summary = SloSummary::new(objectives("ttft_p95=600ms"), &cells);
    assert_eq!(
        serde_json::to_string(&summary).unwrap(),
        r#"{"objectives":{"ttft_p95_ms":600.0},"highest":{"kv":30,"random":null},"failed_below":{"kv":[20],"random":[]},"tried_up_to":{"kv":40,"random":10},"unsure":{"kv":null,"random":null}}"#
    );
    assert_eq!(
        summary.lines(),
        "Highest level with ttft_p95 at most 600 ms:\n\
         kv               30  tried up to 40, but not at 20\n\
         random         none  tried up to 10\n\
         How sure that is: not enough runs.\n"
    );
}

#[test]
fn a_level_whose_objective_lies_within_the_interval_is_unsure() {
    let sure = |level: u32, low: f64, high: f64| {
        let mut cell = cell(ModeName::Kv, level, f64::midpoint(low, high));
        for figure in ["ttft_ms_p95", "tpot_ms_p95"] {
            let interval = match figure {
                "ttft_ms_p95" => Interval { low, high },
                _ => Interval {
                    low: 49.0,
                    high: 51.0,
                },
            };
            cell.intervals.insert(figure.to_owned(), interval);
        }
        cell
    };
    let cells = [
        sure(10, 100.0, 200.0),
        sure(20, 500.0, 650.0),
        sure(30, 550.0, 700.0),
        sure(40, 601.0, 700.0),
    ];
    for (text, expected, line) in [
        ("ttft_p95=600ms", vec![20, 30], ", unsure at 20, 30\n"),
        (
            "ttft_p95=600ms,tpot_p95=60ms",
            vec![20, 30],
            ", unsure at 20, 30\n",
        ),
        // Surely over one of them: the other does not matter.
        ("ttft_p95=600ms,tpot_p95=10ms", vec![], "tried up to 40\n"),
        // Gaps between tokens have no interval.
        (
            "itl_p95=60ms",
            vec![10, 20, 30, 40],
            ", unsure at 10, 20, 30, 40\n",
        ),
    ] {
        let summary = SloSummary::new(objectives(text), &cells);
        assert_eq!(summary.unsure["kv"], Some(expected), "{text}");
        assert!(summary.lines().ends_with(line), "{}", summary.lines());
    }
    // One level without is enough to say nothing of the mode.
    let mut fewer = cells.to_vec();
    fewer[1].intervals.clear();
    let summary = SloSummary::new(objectives("ttft_p95=600ms"), &fewer);
    assert_eq!(summary.unsure["kv"], None);
}

#[test]
fn a_search_gives_a_mode_up_after_three_failures_in_a_row() {
    // By level: `kv` fails at 20 and 30, holds at 40, fails from 50 on; `random` always fails.
    let ttft = |mode: ModeName, level: u32| match (mode, level) {
        (ModeName::Kv, 10 | 40) => 100.0,
        _ => 1000.0,
    };
    let mut handed = Vec::new();
    let cells = search(
        &[90, 80, 70, 60, 50, 40, 30, 20, 10, 10],
        &[ModeName::Random, ModeName::Kv],
        &objectives("ttft_p95=600ms"),
        |level, modes| {
            handed.push((level, modes.len()));
            let run = |&mode: &ModeName| cell(mode, level, ttft(mode, level));
            modes.iter().map(run).collect()
        },
    );
    assert_eq!(
        handed,
        [
            (10, 2),
            (20, 2),
            (30, 2),
            (40, 1),
            (50, 1),
            (60, 1),
            (70, 1)
        ]
    );
    assert_eq!(cells.len(), 10);
    let summary = SloSummary::new(objectives("ttft_p95=600ms"), &cells);
    assert_eq!(summary.highest["kv"], Some(40));
    assert_eq!(summary.failed_below["kv"], [20, 30]);
    assert_eq!(summary.highest["random"], None);
}

#[test]
fn a_request_counts_only_if_it_was_answered_and_in_time() {
    let check = |felt: serde_json::Value, expected: bool| {
        let mut record = serde_json::json!({
            "conversation_id": "c", "conversation": 0, "turn": 0, "turns": 1,
            "turn_type": "initial", "attempt": 0, "due_s": 0.0, "sent_s": 0.0, "ended_s": 1.0,
            "dispatch_lag_ms": 0.0,
        });
        for (name, value) in felt.as_object().unwrap() {
            record[name] = value.clone();
        }
        let record = serde_json::from_value(record).unwrap();
        for text in ["ttft_p95=600ms,tpot_p95=60ms", "tpot_p95=60ms"] {
            assert_eq!(objectives(text).met_by(&record), expected, "{text}: {felt}");
        }
    };
    use serde_json::json;
    check(
        json!({ "ttft_ms": 500.0, "tpot_ms": 50.0, "e2e_ms": 900.0 }),
        true,
    );
    check(
        json!({ "ttft_ms": 500.0, "tpot_ms": 70.0, "e2e_ms": 900.0 }),
        false,
    );
    check(json!({ "ttft_ms": 500.0, "e2e_ms": 500.0 }), true);
    check(json!({ "e2e_ms": 5.0 }), false);
}
