//! Numbers, axes, lines: what a page is made of.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::axis::Axis;
use super::super::chart::{Chart, runs};
use super::super::look::{COLOURS, Look, Point};
use super::super::text;

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
        (0.0, 1.0),
        (1.0, 1.0),
        (2.0, f64::NAN),
        (3.0, 1.0),
        (4.0, 1.0),
    ];
    let points = points.map(|(x, y)| Some(Point::new(x, y)));
    chart.line(Look::mode(0), &points);
    chart.point(Look::mode(0), Point::new(f64::NAN, 1.0), "nowhere");
    let drawing = chart.svg("");
    assert_eq!(drawing.matches("class=\"line m0\"").count(), 2);
    assert!(!drawing.contains("nowhere") && !drawing.contains("NaN"));
}

#[test]
fn lines_differ_in_more_than_colour() {
    let looks = (0..COLOURS).map(|number| {
        let look = Look::mode(number);
        (look.dashes(), look.marker(Point::new(0.0, 0.0), 4.0))
    });
    let (dashes, markers): (BTreeSet<_>, BTreeSet<_>) = looks.unzip();
    assert_eq!((dashes.len(), markers.len()), (COLOURS, COLOURS));
}

proptest! {
    #[test]
    fn ticks_ascend_and_cover_the_values(
        values in prop::collection::vec(prop_oneof![-1e9..1e9_f64, 0.0..1.0_f64, 1e-6..1e12_f64], 0..20)
    ) {
        for axis in [Axis::from_zero(&values), Axis::fitting(&values), Axis::around(&values), Axis::marked(&values)] {
            for &value in &values {
                let place = axis.place(value).unwrap();
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&place), "{value} at {place}: {axis:?}");
            }
        }
        for axis in [Axis::from_zero(&values), Axis::fitting(&values), Axis::around(&values)] {
            prop_assert!(axis.ticks.windows(2).all(|pair| pair[0] < pair[1]), "{axis:?}");
            prop_assert!((2..=20).contains(&axis.ticks.len()), "{axis:?}");
            let ends = [axis.ticks[0], axis.ticks[axis.ticks.len() - 1]].map(|tick| axis.place(tick));
            prop_assert!(ends[0].unwrap().abs() < 1e-9 && (ends[1].unwrap() - 1.0).abs() < 1e-9);
        }
    }
}
