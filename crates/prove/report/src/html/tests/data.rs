//! A small report with everything in it, and names that try to be markup.

use loadgen::by_mode::TurnNumberFigures;

use stats::cell_summary::{About, CellSummary};
use stats::cell_summary::{Guard, GuardKind};
use stats::figures::Figures;
use stats::headline::Headline;
use stats::intervals::{Difference, Interval, Verdict};
use stats::slo::SloSummary;
use stats::summary::{ReportData, SCHEMA, Summary};
use stats::traffic::Timeline;

/// Would end an attribute and begin an element.
pub(super) const NASTY: &str = "kv\"<script>&'";

fn cell(mode: &str, level: u32, ttft_ms: f64) -> CellSummary {
    let times = |value: f64| Figures {
        p50: Some(value),
        p90: Some(value * 1.5),
        p95: Some(value * 2.0),
        p99: None,
    };
    let turn = |turn: u32| TurnNumberFigures {
        turn,
        ttft_ms_p50: Some(ttft_ms),
        ttft_ms_p95: (turn != 2).then_some(ttft_ms * 2.0),
        samples: 100,
        cached_pct: None,
    };
    let interval = Interval {
        low: ttft_ms * 1.9,
        high: ttft_ms * 2.2,
    };
    CellSummary {
        mode: mode.to_owned(),
        concurrency: Some(level),
        runs: 6,
        requests: 12_345,
        ttft_ms: times(ttft_ms),
        tpot_ms: times(20.0),
        e2e_s: times(9.0),
        tops: 2000.0 + f64::from(level),
        rps: 2.5,
        goodput_rps: Some(2.25),
        goodput_pct: Some(90.0),
        kv_hit_pct: Some(88.8),
        slots: Some(64),
        turns: vec![turn(1), turn(2), turn(3)],
        intervals: [("ttft_ms_p95".to_owned(), interval)].into(),
        guards: vec![Guard {
            kind: GuardKind::NotSteady,
            detail: "<not> steady".to_owned(),
        }],
        ..CellSummary::default()
    }
}

pub(super) fn difference(mode: &str, concurrency: u32, verdict: Verdict) -> Difference {
    Difference {
        concurrency,
        mode: mode.to_owned(),
        against: "round-robin".to_owned(),
        figure: "ttft_ms_p95".to_owned(),
        value: 300.0,
        reference: 600.0,
        difference: -300.0,
        change_pct: Some(-50.0),
        interval: (verdict != Verdict::NotEnoughRuns).then_some(Interval {
            low: -310.0,
            high: -290.0,
        }),
        p: (verdict != Verdict::NotEnoughRuns).then_some(0.001),
        p_adjusted: None,
        verdict,
    }
}

pub(super) fn data() -> ReportData {
    let modes = ["round-robin", NASTY];
    let cells: Vec<CellSummary> = [60, 120, 180]
        .into_iter()
        .flat_map(|level| modes.map(|mode| cell(mode, level, f64::from(level) * 2.0)))
        .collect();
    let differences = vec![
        difference(NASTY, 60, Verdict::Better),
        difference(NASTY, 120, Verdict::NotSignificant),
    ];
    let objectives = "ttft_p95=600ms,tpot_p95=60ms".parse().unwrap();
    let timeline = Timeline {
        workers: [
            ("a<b".to_owned(), vec![1, 2, 70]),
            ("c".to_owned(), vec![0; 3]),
        ]
        .into(),
    };
    let headline = Headline {
        slo: SloSummary::new(objectives, &cells),
        crossovers: Vec::new(),
    };
    ReportData {
        summary: Summary {
            schema: SCHEMA,
            run_id: "sweep-1".to_owned(),
            about: About {
                simulated: true,
                testbed: "virtual".to_owned(),
                workload: "a&b".to_owned(),
                profile: "three".to_owned(),
                workers: Some(3),
                seed: 42,
                repeats: 6,
                warmup_s: 60.0,
                window_s: 300.0,
                order: "random".to_owned(),
                command: "homing sweep --modes 'a' > \"b\"".to_owned(),
            },
            modes: modes.map(str::to_owned).to_vec(),
            levels: vec![60, 120, 180],
            done: 6,
            planned: 9,
            cells,
            differences,
            headline: Some(headline),
            comparison: None,
        },
        timelines: vec![("round-robin".to_owned(), timeline)],
    }
}
