//! The catalogue's own rules, among them those that `promtool check metrics` applies.

use std::collections::BTreeSet;

use super::*;

#[test]
fn names_are_unique_and_belong_to_a_known_family() {
    let mut seen = BTreeSet::new();
    for metric in all() {
        assert!(seen.insert(metric.name), "{} is listed twice", metric.name);
        let known = ["dynamo_", "trtllm_", "DCGM_FI_", "homing_", "loadgen_"];
        assert!(
            known.iter().any(|prefix| metric.name.starts_with(prefix)),
            "{}",
            metric.name
        );
    }
}

#[test]
fn names_and_labels_keep_prometheus_conventions() {
    for Metric {
        name,
        kind,
        help,
        labels,
        buckets,
    } in all()
    {
        assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
        assert!(
            !["_sum", "_count", "_bucket"]
                .iter()
                .any(|end| name.ends_with(end)),
            "{name}"
        );
        assert!(help.ends_with('.') && !help.contains('|'), "{name}: {help}");
        assert_eq!(*kind == Kind::Histogram, !buckets.is_empty(), "{name}");
        assert!(buckets.is_sorted_by(|a, b| a < b), "{name}: {buckets:?}");
        let distinct: BTreeSet<_> = labels.iter().collect();
        assert_eq!(distinct.len(), labels.len(), "{name}: {labels:?}");
        for label in *labels {
            assert!(!["le", "quantile"].contains(label), "{name}: {label}");
            let camel = label
                .as_bytes()
                .windows(2)
                .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
            assert!(!camel, "{name}: {label}");
        }
    }
}

#[track_caller]
fn check_buckets(actual: &[f64], minimum: f64, maximum: f64, count: usize) {
    let spread = (maximum / minimum).ln();
    let expected = (0..count).map(|step| match step {
        0 => 0.0,
        _ => two_figures(minimum * (spread * step as f64 / (count - 1) as f64).exp()),
    });
    assert_eq!(actual, expected.collect::<Vec<f64>>());
}

fn two_figures(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap()
}

#[test]
fn the_frontend_cuts_where_dynamo_does() {
    check_buckets(buckets::TIME_TO_FIRST_TOKEN, 0.001, 480.0, 18);
    check_buckets(buckets::INTER_TOKEN, 0.001, 2.0, 13);
    check_buckets(buckets::REQUEST_DURATION, 1.0, 512.0, 10);
    check_buckets(buckets::INPUT_TOKENS, 50.0, 128_000.0, 12);
    check_buckets(buckets::OUTPUT_TOKENS, 50.0, 32_000.0, 10);
}

#[test]
fn the_page_has_a_row_for_every_metric() {
    let page = markdown();
    for metric in all() {
        let row = format!("| `{}` | {} |", metric.name, metric.kind.name());
        assert_eq!(page.matches(&row).count(), 1, "{row}");
    }
    assert_eq!(
        page.lines().filter(|line| line.starts_with("| `")).count(),
        all().len()
    );
    assert!(page.contains("cargo xtask codegen"));
}
