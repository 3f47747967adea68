//! Prometheus' text format 0.0.4.
//!
//! Pure writing: which cells exist and in what order is the registry's business. Floats
//! are written in full rather than in scientific notation; both are valid and the first
//! can be read.

use std::fmt::Write;
use std::time::Duration;

use crate::catalog::{MODEL, Metric};
use crate::cell::Cell;

/// Of every summary, and what the dashboards ask for.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];

/// The two lines that introduce a family.
pub(crate) fn header(text: &mut String, metric: &Metric) {
    text.push_str("# HELP ");
    text.push_str(metric.name);
    text.push(' ');
    escape(text, metric.help, Escape::Help);
    let _ = writeln!(text, "\n# TYPE {} {}", metric.name, metric.kind.name());
}

/// The lines of one cell, as it is at the given time.
pub(crate) fn cell(
    text: &mut String,
    metric: &Metric,
    values: &[Box<str>],
    cell: &Cell,
    now: Duration,
) {
    let mut lines = Lines {
        text,
        metric,
        values,
    };
    match cell {
        Cell::Counter(counter) => lines.write("", None, counter.get() as f64),
        // One division rounds once: the shortest digits come out.
        Cell::Time(time) => lines.write("", None, time.get().as_nanos() as f64 / 1e9),
        Cell::Gauge(gauge) => lines.write("", None, gauge.get()),
        Cell::Histogram(histogram) => {
            let mut count = 0;
            for (bound, below) in histogram.cumulative() {
                lines.write("_bucket", Some(("le", bound)), below as f64);
                count = below;
            }
            lines.write("_sum", None, histogram.sum());
            lines.write("_count", None, count as f64);
        }
        Cell::Summary(summary) => {
            let found = summary.quantiles(now, QUANTILES);
            for (quantile, value) in QUANTILES.into_iter().zip(found) {
                lines.write("", Some(("quantile", quantile)), value);
            }
            lines.write("_sum", None, summary.sum());
            lines.write("_count", None, summary.count() as f64);
        }
    }
}

/// What the lines of one cell have in common.
struct Lines<'a> {
    text: &'a mut String,
    metric: &'a Metric,
    values: &'a [Box<str>],
}

impl Lines<'_> {
    fn write(&mut self, suffix: &str, extra: Option<(&str, f64)>, value: f64) {
        self.text.push_str(self.metric.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        let names = self.metric.labels.iter().chain([&MODEL]);
        for (name, value) in names.zip(self.values) {
            self.text.push(separator);
            self.text.push_str(name);
            self.text.push_str("=\"");
            escape(self.text, value, Escape::LabelValue);
            self.text.push('"');
            separator = ',';
        }
        if let Some((name, bound)) = extra {
            self.text.push(separator);
            self.text.push_str(name);
            self.text.push_str("=\"");
            float(self.text, bound);
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        self.text.push(' ');
        float(self.text, value);
        self.text.push('\n');
    }
}

fn float(text: &mut String, value: f64) {
    if value == f64::INFINITY {
        text.push_str("+Inf");
    } else if value == f64::NEG_INFINITY {
        text.push_str("-Inf");
    } else {
        // NaN prints as the format spells it.
        let _ = write!(text, "{value}");
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Escape {
    Help,
    LabelValue,
}

fn escape(text: &mut String, raw: &str, place: Escape) {
    for character in raw.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if place == Escape::LabelValue => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_float(value: f64, expected: &str) {
        let mut text = String::new();
        float(&mut text, value);
        assert_eq!(text, expected);
    }

    #[test]
    fn floats_are_spelled_as_prometheus_reads_them() {
        check_float(0.0, "0");
        check_float(1.0, "1");
        check_float(0.000001, "0.000001");
        check_float(-2.5, "-2.5");
        check_float(9_007_199_254_740_991.0, "9007199254740991");
        check_float(f64::INFINITY, "+Inf");
        check_float(f64::NEG_INFINITY, "-Inf");
        check_float(f64::NAN, "NaN");
    }

    #[track_caller]
    fn check_escape(raw: &str, help: &str, label: &str) {
        for (place, expected) in [(Escape::Help, help), (Escape::LabelValue, label)] {
            let mut text = String::new();
            escape(&mut text, raw, place);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn quotes_are_escaped_in_label_values_only() {
        check_escape("plain é", "plain é", "plain é");
        check_escape("a\"b", "a\"b", "a\\\"b");
        check_escape("a\\b", "a\\\\b", "a\\\\b");
        check_escape("a\nb", "a\\nb", "a\\nb");
    }
}
