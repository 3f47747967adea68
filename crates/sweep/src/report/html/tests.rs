//! The page as a whole, and the parts that could go wrong quietly.

use std::collections::BTreeSet;

use loadgen::by_mode::TurnNumberFigures;
use proptest::prelude::*;

use super::axis::Axis;
use super::chart::{Chart, runs};
use super::html;
use super::look::{COLOURS, Look};
use super::text;
use crate::bootstrap::{Difference, Interval, Verdict};
use crate::compare::{CellComparison, Comparison, Deviation};
use crate::figures::Figures;
use crate::guards::{Guard, GuardKind};
use crate::headline::{Crossover, Headline};
use crate::slo::SloSummary;
use crate::summary::{About, CellSummary, ReportData, SCHEMA, Summary};
use crate::traffic::Timeline;

/// Would end an attribute and begin an element.
const NASTY: &str = "kv\"<script>&'";

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
        runs: 1,
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

fn difference(mode: &str, concurrency: u32, verdict: Verdict) -> Difference {
    Difference {
        concurrency,
        mode: mode.to_owned(),
        against: "round-robin".to_owned(),
        figure: "ttft_ms_p95".to_owned(),
        value: 300.0,
        reference: 600.0,
        change_pct: Some(-50.0),
        interval: Interval {
            low: -310.0,
            high: -290.0,
        },
        verdict,
    }
}

fn data() -> ReportData {
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
                repeats: 1,
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

/// Elements as they open and close; panics where they do not match.
#[track_caller]
fn check_tags(page: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    // A style sheet has no tags, but may have `>`.
    let style = page.find("<style>").unwrap() + 7..page.find("</style>").unwrap();
    let page = [&page[..style.start], &page[style.end..]].concat();
    let mut rest = page.strip_prefix("<!doctype html>").unwrap();
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>'),
            "a bare > in {}",
            &rest[..start]
        );
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<'), "a bare < in {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag}");
        let name = tag.trim_matches('/').split(' ').next().unwrap();
        match tag {
            _ if tag.starts_with('/') => {
                let opened: Option<String> = open.pop();
                assert_eq!(opened.as_deref(), Some(name), "closed in {rest:.200}");
            }
            _ if tag.ends_with('/') || name == "meta" || name == "br" => seen.push(tag.to_owned()),
            _ => {
                open.push(name.to_owned());
                seen.push(tag.to_owned());
            }
        }
        rest = &rest[end + 1..];
    }
    assert_eq!(open, Vec::<String>::new());
    seen
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_else() {
    let page = html(&data());
    let tags = check_tags(&page);
    let mut ids = BTreeSet::new();
    for id in tags.iter().filter_map(|tag| tag.split(" id=\"").nth(1)) {
        let id = id.split('"').next().unwrap();
        assert!(ids.insert(id.to_owned()), "{id} twice");
    }
    assert!(ids.contains("figure-ttft-ms-p95"), "{ids:?}");
    for tag in &tags {
        let foreign = ["script", "link", "img", "iframe"];
        assert!(!foreign.contains(&tag.split(' ').next().unwrap()), "{tag}");
        assert!(!tag.contains("href") && !tag.contains("src="), "{tag}");
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    assert!(!page.contains("NaN"), "a number that is none");
}

#[test]
fn equal_data_give_equal_bytes() {
    assert_eq!(html(&data()), html(&data()));
}

#[test]
fn names_are_text_and_never_markup() {
    let page = html(&data());
    assert!(!page.contains("<script"));
    assert!(page.contains("kv&quot;&lt;script&gt;&amp;&#39;"));
    assert!(page.contains("a&lt;b") && page.contains("&lt;not&gt; steady"));
    assert!(page.contains("homing sweep --modes &#39;a&#39; &gt; &quot;b&quot;"));
}

#[test]
fn a_simulation_says_so_in_every_figure() {
    let mut data = data();
    let page = html(&data);
    let figures = page.matches("<figure").count();
    assert_eq!(figures, 5 + 1 + 3 + 1);
    assert_eq!(
        page.matches("<figcaption><strong class=\"mark\">SIMULATED")
            .count(),
        figures
    );
    assert_eq!(page.matches("role=\"img\" aria-label=\"").count(), figures);
    assert!(page.contains("<p class=\"banner simulated\">"));
    assert!(page.contains("partial: 6 of 9 runs"));
    data.summary.about.simulated = false;
    data.summary.done = 9;
    let page = html(&data);
    assert!(!page.contains("SIMULATED") && !page.contains("partial:"));
}

#[test]
fn the_headline_tells_of_turning_points_or_that_there_are_none() {
    let mut data = data();
    assert!(html(&data).contains("no mode became worse than round-robin at any level"));
    data.summary
        .differences
        .insert(0, difference(NASTY, 40, Verdict::Worse));
    assert!(html(&data).contains("No mode stays worse than round-robin"));
    let crossover = Crossover {
        mode: "kv".to_owned(),
        against: "round-robin".to_owned(),
        figure: "ttft_ms_p50".to_owned(),
        concurrency: 120,
        better_until: Some(60),
        value: 3.0,
        reference: 2.0,
        analysis: "Because.".to_owned(),
    };
    let headline = data.summary.headline.as_mut().unwrap();
    headline.crossovers.push(crossover);
    let page = html(&data);
    assert!(page.contains("Because. It was better until 60."), "{page}");
    assert!(!page.contains("No mode stays worse"));
}

#[test]
fn deviations_beyond_a_tolerance_are_marked() {
    let mut data = data();
    let figure = |simulated, within| Deviation {
        metric: "kv_hit_pct",
        simulated,
        measured: 90.0,
        error: simulated.map(|value: f64| value - 90.0),
        within,
    };
    data.summary.comparison = Some(Comparison {
        measurements: "published",
        cells: vec![CellComparison {
            mode: "round-robin".to_owned(),
            concurrency: 60,
            figures: vec![
                figure(Some(80.0), Some(false)),
                figure(Some(91.0), Some(true)),
                figure(None, None),
            ],
        }],
    });
    let page = html(&data);
    check_tags(&page);
    assert!(page.contains("1 of 2 figures with a tolerance are beyond it"));
    assert!(page.contains("<td class=\"over\">80.0 / 90.0<br><small>−10.0 points&#8239;▲</small>"));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut data = data();
    data.timelines.clear();
    let summary = &mut data.summary;
    summary.headline = None;
    summary.differences.clear();
    summary.levels.clear();
    // A replay has no levels.
    for cell in &mut summary.cells {
        (cell.concurrency, cell.turns) = (None, Vec::new());
    }
    check_tags(&html(&data));
    data.summary.cells.clear();
    data.summary.modes.clear();
    check_tags(&html(&data));
}

#[test]
fn numbers_follow_one_rule() {
    for (value, expected) in [
        (0.0, "0.00"),
        (-0.001, "0.00"),
        (1.234, "1.23"),
        (9.996, "10.0"),
        (99.96, "100"),
        (-1234.5, "−1234"),
        (12_345.0, "12\u{202f}345"),
        (f64::NAN, "–"),
    ] {
        assert_eq!(text::number(value), expected, "{value}");
    }
    assert_eq!(text::change(Some(-12.34)), "−12.3 %");
    assert_eq!(text::change(Some(0.04)), "0.0 %");
    assert_eq!(text::short(0.25), "0.25");
    assert_eq!(text::short(600.0), "600");
    assert_eq!(text::optional(None), "–");
}

#[test]
fn what_is_missing_leaves_a_gap() {
    let values = [Some(1), None, Some(2), Some(3), None];
    assert_eq!(runs(&values), [vec![1], vec![2, 3]]);
    let axis = || Axis::from_zero(&[0.0, 10.0]);
    let mut chart = Chart::new("t", axis(), axis(), "x");
    let points = [
        Some((0.0, 1.0)),
        Some((1.0, 1.0)),
        Some((2.0, f64::NAN)),
        Some((3.0, 1.0)),
        Some((4.0, 1.0)),
    ];
    chart.line(Look::mode(0), &points);
    chart.point(Look::mode(0), (f64::NAN, 1.0), "nowhere");
    let drawing = chart.svg("");
    assert_eq!(drawing.matches("class=\"line m0\"").count(), 2);
    assert!(!drawing.contains("nowhere") && !drawing.contains("NaN"));
}

#[test]
fn lines_differ_in_more_than_colour() {
    let looks = (0..COLOURS).map(|number| {
        let look = Look::mode(number);
        (look.dashes(), look.marker((0.0, 0.0), 4.0))
    });
    let (dashes, markers): (BTreeSet<_>, BTreeSet<_>) = looks.unzip();
    assert_eq!((dashes.len(), markers.len()), (COLOURS, COLOURS));
}

proptest! {
    #[test]
    fn ticks_ascend_and_cover_the_values(
        values in prop::collection::vec(prop_oneof![-1e9..1e9_f64, 0.0..1.0_f64, 1e-6..1e12_f64], 0..20)
    ) {
        for axis in [Axis::from_zero(&values), Axis::fitting(&values), Axis::marked(&values)] {
            for &value in &values {
                let place = axis.place(value).unwrap();
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&place), "{value} at {place}: {axis:?}");
            }
        }
        for axis in [Axis::from_zero(&values), Axis::fitting(&values)] {
            prop_assert!(axis.ticks.windows(2).all(|pair| pair[0] < pair[1]), "{axis:?}");
            prop_assert!((2..=20).contains(&axis.ticks.len()), "{axis:?}");
            let ends = [axis.ticks[0], axis.ticks[axis.ticks.len() - 1]].map(|tick| axis.place(tick));
            prop_assert!(ends[0].unwrap().abs() < 1e-9 && (ends[1].unwrap() - 1.0).abs() < 1e-9);
        }
    }
}
