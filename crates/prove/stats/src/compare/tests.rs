//! Errors are computed, marked, and not invented where there is nothing to compare.

use expect_test::expect;

use super::*;
use crate::figures::Figures;

const TEXT: &str = "\
# a comment
concurrency,mode,ttft_ms_p50,ttft_ms_p95,kv_hit_pct,tops,rps,itl_ms_p50,itl_ms_p95,e2e_s_p50,e2e_s_p95
60,round-robin,200,400,90,2000,2.5,25,30,20,25
180,kv,300,800,80,3000,4,50,60,40,50";

fn cell(concurrency: Option<u32>, ttft_p95: Option<f64>) -> CellSummary {
    let figures = |p50, p95| Figures {
        p50: Some(p50),
        p95,
        ..Figures::default()
    };
    CellSummary {
        mode: "round-robin".to_owned(),
        concurrency,
        requests: 1,
        ttft_ms: figures(250.0, ttft_p95),
        tpot_ms: figures(1.0, None),
        itl_ms: figures(24.0, Some(33.0)),
        e2e_s: figures(20.0, Some(25.0)),
        tops: 2400.0,
        rps: 2.5,
        kv_hit_pct: Some(83.0),
        ..CellSummary::default()
    }
}

#[test]
fn every_figure_has_its_error_and_what_is_too_far_off_is_marked() {
    let measurements = Measurements::parse("test", TEXT).unwrap();
    let comparison = measurements.compare(&[cell(Some(60), Some(800.0))]);
    assert_eq!(comparison.beyond(), 2);
    expect![[r#"
        Simulated / test measurement, error in % (hit rate: in points); * is beyond the tolerance

        mode          conc |     TTFT p50 ms     |     TTFT p95 ms     |     ITL p50 ms      |     ITL p95 ms      |    latency p50 s    |    latency p95 s    |      tokens/s       |     requests/s      |        hit %       
        round-robin     60 |    250 / 200   +25  |    800 / 400  +100* |  24.0 / 25.0    -4  |  33.0 / 30.0   +10  |  20.0 / 20.0    +0  |  25.0 / 25.0    +0  |  2400 / 2000   +20* |  2.50 / 2.50    +0  |  83.0 / 90.0    -7 

        2 of 5 figures beyond the tolerance (TTFT p50 ms 30 %, TTFT p95 ms 30 %, ITL p50 ms 15 %, tokens/s 15 %, hit % 8 points)
    "#]].assert_eq(&comparison.table());
}

#[test]
fn a_figure_that_the_sweep_lacks_is_beyond_every_tolerance() {
    let measurements = Measurements::parse("test", TEXT).unwrap();
    let comparison = measurements.compare(&[cell(Some(60), None)]);
    assert_eq!(comparison.cells[0].figures[1].within, Some(false));
    assert!(comparison.table().contains("- / 400"));
}

#[test]
fn cells_without_a_measurement_are_left_out() {
    let measurements = Measurements::parse("test", TEXT).unwrap();
    let cells = [
        cell(Some(80), None),
        cell(Some(180), None),
        cell(None, None),
    ];
    assert!(measurements.compare(&cells).cells.is_empty());
}

#[test]
fn the_shipped_measurements_can_be_read() {
    let published = Measurements::named("published").unwrap();
    assert_eq!(published.rows.len(), 14);
    let crossover = published.rows.last().unwrap();
    assert_eq!(
        (crossover.concurrency, crossover.mode.as_str()),
        (180, "kv-blocks")
    );
    assert_eq!(crossover.figures[1], 3143.0);
}

#[test]
fn what_cannot_be_read_is_named() {
    for (text, expected) in [
        (
            TEXT.replace("2000", "many"),
            "line 3: tops: `many` is not a number",
        ),
        (TEXT.replace(",rps", ",rates"), "line 3: there is no rps"),
        (TEXT.replace(",40,50", ""), "line 4: there is no e2e_s_p50"),
    ] {
        let error = Measurements::parse("test", &text).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    assert!(
        Measurements::named("rumours")
            .unwrap_err()
            .to_string()
            .contains("available: published")
    );
}
