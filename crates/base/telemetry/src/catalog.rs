//! The one table of every metric that any stage reports.
//!
//! Names that operators already have dashboards for are kept to the letter
//! (`dynamo_*`, `trtllm_*`, `DCGM_*`, `loadgen_*`); what is ours alone is `homing_*`. The table is
//! split by the stage that reports, in the order in which a request meets them.
//!
//! # Guarantees
//!
//! - **The order is the exposition's.** The registry renders families as listed here.
//! - **The page is generated.** [`markdown`] is the whole of `docs/metrics.md`.
//! - **`promtool check metrics` finds nothing.** Two names bend for it: Dynamo's
//!   `kv_cache_events_applied` counts without the suffix `_total`, so it is untyped; and
//!   the DCGM exporter's label `modelName` is `model_name` here.

use std::fmt::Write;
use std::sync::LazyLock;

mod buckets;
mod definitions;
mod dynamo;
mod engine;
mod engines;
mod frontend;
mod loadgen;
mod net;
mod router;
mod traces;
mod worker;

pub use definitions::{DEFINITIONS, Definition};
pub use dynamo::metrics::*;
pub use engine::metrics::*;
pub use engines::metrics::*;
pub use frontend::metrics::*;
pub use loadgen::metrics::*;
pub use net::metrics::*;
pub use router::metrics::*;
pub use traces::metrics::*;
pub use worker::metrics::*;

/// The label that tells the models of a process apart; of some families, only where there are
/// several.
pub(crate) const MODEL: &str = "model";

/// One metric family: what it is called, how it counts and what it means.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    /// Label names, in the order in which cells are asked for by label value.
    pub labels: &'static [&'static str],
    /// Upper bounds, ascending, without the infinite one; empty unless a histogram.
    pub buckets: &'static [f64],
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Quantiles over the last 60 seconds, with a cumulative sum and count.
    Summary,
    /// Counts like a counter under a name that lacks a counter's suffix.
    Untyped,
}

impl Kind {
    /// The word that Prometheus' text format uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }
}

type Labels = &'static [&'static str];

impl Metric {
    const fn new(kind: Kind, name: &'static str, labels: Labels, help: &'static str) -> Self {
        Self {
            name,
            kind,
            help,
            labels,
            buckets: &[],
        }
    }

    const fn counter(name: &'static str, labels: Labels, help: &'static str) -> Self {
        Self::new(Kind::Counter, name, labels, help)
    }

    const fn gauge(name: &'static str, labels: Labels, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, labels, help)
    }

    const fn summary(name: &'static str, labels: Labels, help: &'static str) -> Self {
        Self::new(Kind::Summary, name, labels, help)
    }

    const fn untyped(name: &'static str, labels: Labels, help: &'static str) -> Self {
        Self::new(Kind::Untyped, name, labels, help)
    }

    const fn histogram(
        name: &'static str,
        labels: Labels,
        buckets: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind: Kind::Histogram,
            help,
            labels,
            buckets,
        }
    }

    /// Whether it is a counter of time, by Prometheus' own convention of names.
    pub(crate) fn counts_time(&self) -> bool {
        self.kind == Kind::Counter && self.name.ends_with("_seconds_total")
    }
}

/// The metrics that one stage reports.
#[derive(Debug)]
struct Stage {
    title: &'static str,
    about: &'static str,
    metrics: &'static [&'static Metric],
}

/// Declares a stage's metrics as statics and lists them in the same breath, so that none
/// can be declared and not listed.
macro_rules! metrics {
    ($($name:ident = $metric:expr;)*) => {
        pub(super) static ALL: &[&$crate::catalog::Metric] = &[$(&metrics::$name),*];

        pub(super) mod metrics {
            use super::*;

            $(pub static $name: $crate::catalog::Metric = $metric;)*
        }
    };
}
use metrics;

static STAGES: [Stage; 9] = [
    frontend::STAGE,
    router::STAGE,
    net::STAGE,
    engines::STAGE,
    dynamo::STAGE,
    traces::STAGE,
    worker::STAGE,
    engine::STAGE,
    loadgen::STAGE,
];

/// Every metric, in the order of exposition.
pub fn all() -> &'static [&'static Metric] {
    static ALL: LazyLock<Vec<&'static Metric>> = LazyLock::new(|| {
        STAGES
            .iter()
            .flat_map(|stage| stage.metrics)
            .copied()
            .collect()
    });
    &ALL
}

/// Renders the page `docs/metrics.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         <!-- Generated by `cargo xtask codegen` from `crates/base/telemetry/src/catalog`. Edit there. -->\n\n\
         Everything that `/metrics` can show, by the stage that reports it, in the order of the \
         page. A family appears once its first value exists. Seconds are seconds, sizes are \
         tokens or blocks unless the name says otherwise. Summaries are quantiles (0.5, 0.95, \
         0.99) of the last 60 seconds by nearest rank and print `NaN` when those saw nothing; \
         their `_sum` and `_count` are cumulative.\n",
    );
    page.push_str(
        "\n## Latencies\n\nAs a client measures them. Tokens are the server's count (`usage`), \
         never the number of events.\n\n",
    );
    for Definition { name, meaning } in &DEFINITIONS {
        let _ = writeln!(page, "- **{name}**, {meaning}.");
    }
    for stage in &STAGES {
        let _ = write!(page, "\n## {}\n\n{}\n\n", stage.title, stage.about);
        page.push_str("| name | type | labels | meaning |\n|---|---|---|---|\n");
        for metric in stage.metrics {
            let labels: Vec<String> = metric
                .labels
                .iter()
                .map(|label| format!("`{label}`"))
                .collect();
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.kind.name(),
                labels.join(", "),
                metric.help,
            );
        }
    }
    page
}

#[cfg(test)]
mod tests;
