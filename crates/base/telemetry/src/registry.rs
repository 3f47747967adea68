//! Hands out cells and renders them.
//!
//! Cells are found by metric and label values, once, when a stage starts or a label value
//! first occurs; nothing on the token path comes here. A family keeps its cells in a
//! sorted list, so a look-up allocates nothing and the text has one order.
//!
//! # Guarantees
//!
//! - **Same labels, same cell**, from any clone of the registry.
//! - **Misuse is a bug, not a series.** An uncatalogued metric, a wrong kind or a wrong
//!   number of labels panics at the first call rather than exposing nonsense.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::catalog::{self, Kind, MODEL, Metric};
use crate::cell::{Cell, Counter, Gauge, Histogram, Summary, TimeCounter};
use crate::encode;

/// All cells of a process, or of one simulated cluster. Clones share them.
#[derive(Clone)]
pub struct Registry {
    /// One for each metric of the catalogue, in its order.
    families: Arc<RwLock<Vec<Family>>>,
    /// What is handed out is this model's.
    model: Option<Arc<str>>,
}

struct Family {
    metric: &'static Metric,
    /// Ascending by label values.
    cells: Vec<(Box<[Box<str>]>, Cell)>,
}

impl Registry {
    pub fn new() -> Self {
        let families = catalog::all()
            .iter()
            .map(|&metric| Family {
                metric,
                cells: Vec::new(),
            })
            .collect();
        Self {
            families: Arc::new(RwLock::new(families)),
            model: None,
        }
    }

    /// The same cells, seen by one of several models: those it hands out have a label `model`
    /// beyond the catalogue's, unless the catalogue has it too.
    #[must_use]
    pub fn of_model(&self, model: &str) -> Self {
        Self {
            families: Arc::clone(&self.families),
            model: Some(model.into()),
        }
    }

    /// A counter, or the counting cell of an untyped metric.
    pub fn counter(&self, metric: &'static Metric, labels: &[&str]) -> Counter {
        match self.cell(metric, labels) {
            Cell::Counter(counter) => counter,
            Cell::Time(_) | Cell::Gauge(_) | Cell::Histogram(_) | Cell::Summary(_) => {
                mismatch(metric, "counter")
            }
        }
    }

    /// The cell of a counter whose name ends with `_seconds_total`.
    pub fn time(&self, metric: &'static Metric, labels: &[&str]) -> TimeCounter {
        match self.cell(metric, labels) {
            Cell::Time(time) => time,
            Cell::Counter(_) | Cell::Gauge(_) | Cell::Histogram(_) | Cell::Summary(_) => {
                mismatch(metric, "counter of time")
            }
        }
    }

    pub fn gauge(&self, metric: &'static Metric, labels: &[&str]) -> Gauge {
        match self.cell(metric, labels) {
            Cell::Gauge(gauge) => gauge,
            Cell::Counter(_) | Cell::Time(_) | Cell::Histogram(_) | Cell::Summary(_) => {
                mismatch(metric, "gauge")
            }
        }
    }

    pub fn histogram(&self, metric: &'static Metric, labels: &[&str]) -> Histogram {
        match self.cell(metric, labels) {
            Cell::Histogram(histogram) => histogram,
            Cell::Counter(_) | Cell::Time(_) | Cell::Gauge(_) | Cell::Summary(_) => {
                mismatch(metric, "histogram")
            }
        }
    }

    pub fn summary(&self, metric: &'static Metric, labels: &[&str]) -> Summary {
        match self.cell(metric, labels) {
            Cell::Summary(summary) => summary,
            Cell::Counter(_) | Cell::Time(_) | Cell::Gauge(_) | Cell::Histogram(_) => {
                mismatch(metric, "summary")
            }
        }
    }

    /// Stops exposing one cell, as when what it measured is gone.
    pub fn forget(&self, metric: &'static Metric, labels: &[&str]) {
        let labels = self.all_labels(metric, labels);
        let mut families = self.families.write();
        let family = &mut families[position(metric)];
        if let Ok(at) = family.find(&labels) {
            family.cells.remove(at);
        }
    }

    /// Stops exposing every cell of every metric whose label `label` is `value`: all that
    /// a worker that left had reported.
    pub fn forget_where(&self, label: &str, value: &str) {
        for family in self.families.write().iter_mut() {
            if let Some(at) = family.metric.labels.iter().position(|&name| name == label) {
                let labels = family.metric.labels;
                let ours = |values: &[Box<str>]| {
                    let model = values.get(labels.len());
                    model.map(|model| &**model) == self.model.as_deref()
                };
                family
                    .cells
                    .retain(|(values, _)| &*values[at] != value || !ours(values));
            }
        }
    }

    /// With the model's, if that is a label of its own.
    fn all_labels<'a>(&'a self, metric: &Metric, labels: &[&'a str]) -> Vec<&'a str> {
        assert_eq!(
            labels.len(),
            metric.labels.len(),
            "{} is labelled {:?}",
            metric.name,
            metric.labels,
        );
        let model = self.model.as_deref();
        let model = model.filter(|_| !metric.labels.contains(&MODEL));
        labels.iter().copied().chain(model).collect()
    }

    /// The state of all cells in Prometheus' text format 0.0.4.
    ///
    /// `now` is on the clock that the summaries were observed with.
    pub fn render(&self, now: Duration) -> String {
        let families = self.families.read();
        let cells: usize = families.iter().map(|family| family.cells.len()).sum();
        // Most cells take one line; histograms take some twenty.
        let mut text = String::with_capacity(512 * cells);
        for family in families.iter().filter(|family| !family.cells.is_empty()) {
            encode::header(&mut text, family.metric);
            for (values, cell) in &family.cells {
                encode::cell(&mut text, family.metric, values, cell, now);
            }
        }
        text
    }

    fn cell(&self, metric: &'static Metric, labels: &[&str]) -> Cell {
        let labels = self.all_labels(metric, labels);
        let labels = &labels[..];
        let family_at = position(metric);
        {
            let families = self.families.read();
            let family = &families[family_at];
            if let Ok(at) = family.find(labels) {
                return family.cells[at].1.clone();
            }
        }
        let mut families = self.families.write();
        let family = &mut families[family_at];
        match family.find(labels) {
            // Another thread was first between the two locks.
            Ok(at) => family.cells[at].1.clone(),
            Err(at) => {
                let cell = Cell::new(metric);
                let values = labels.iter().map(|&value| Box::from(value)).collect();
                family.cells.insert(at, (values, cell.clone()));
                cell
            }
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = self.families.read();
        let cells: usize = families.iter().map(|family| family.cells.len()).sum();
        formatter
            .debug_struct("Registry")
            .field("cells", &cells)
            .finish_non_exhaustive()
    }
}

impl Family {
    /// Where the cell with these label values is, or would be.
    fn find(&self, labels: &[&str]) -> Result<usize, usize> {
        self.cells.binary_search_by(|(values, _)| -> Ordering {
            values
                .iter()
                .map(|value| &**value)
                .cmp(labels.iter().copied())
        })
    }
}

impl Cell {
    fn new(metric: &'static Metric) -> Self {
        match metric.kind {
            Kind::Counter if metric.counts_time() => Self::Time(TimeCounter::default()),
            Kind::Counter | Kind::Untyped => Self::Counter(Counter::default()),
            Kind::Gauge => Self::Gauge(Gauge::default()),
            Kind::Histogram => Self::Histogram(Histogram::new(metric.buckets)),
            Kind::Summary => Self::Summary(Summary::default()),
        }
    }
}

/// Where the catalogue lists `metric`. Compares addresses: the statics are the identity.
fn position(metric: &'static Metric) -> usize {
    catalog::all()
        .iter()
        .position(|&listed| std::ptr::eq(listed, metric))
        .unwrap_or_else(|| panic!("{} is not in the catalogue", metric.name))
}

fn mismatch(metric: &Metric, asked: &str) -> ! {
    panic!("{} is a {}, not a {asked}", metric.name, metric.kind.name())
}

#[cfg(test)]
mod tests;
