//! How far a sweep is off from published measurements, cell by cell.
//!
//! A simulator is only worth its comparison with something real. The measurements compiled
//! in are those of `benches/published`; a profile that claims to reproduce them is held to
//! [`Tolerance`]s, and what lies beyond one is marked, not hidden.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde::Serialize;

use crate::cell_summary::CellSummary;

/// Measurements compiled in, by name.
const SHIPPED: [(&str, &str); 1] = [(
    "published",
    include_str!("../../../../benches/published/three-h200.csv"),
)];

/// How far off a figure may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tolerance {
    /// Relative to the measurement.
    Percent(f64),
    /// For figures that are percentages themselves.
    Points(f64),
    /// Shown for information.
    None,
}

/// A figure that measurements have.
struct Metric {
    /// Its column.
    name: &'static str,
    label: &'static str,
    /// Digits after the point.
    digits: usize,
    tolerance: Tolerance,
    of: fn(&CellSummary) -> Option<f64>,
}

const METRICS: [Metric; 9] = [
    metric(
        "ttft_ms_p50",
        "TTFT p50 ms",
        0,
        Tolerance::Percent(30.0),
        |cell| cell.ttft_ms.p50,
    ),
    metric(
        "ttft_ms_p95",
        "TTFT p95 ms",
        0,
        Tolerance::Percent(30.0),
        |cell| cell.ttft_ms.p95,
    ),
    metric(
        "itl_ms_p50",
        "ITL p50 ms",
        1,
        Tolerance::Percent(15.0),
        |cell| cell.itl_ms.p50,
    ),
    metric("itl_ms_p95", "ITL p95 ms", 1, Tolerance::None, |cell| {
        cell.itl_ms.p95
    }),
    metric("e2e_s_p50", "latency p50 s", 1, Tolerance::None, |cell| {
        cell.e2e_s.p50
    }),
    metric("e2e_s_p95", "latency p95 s", 1, Tolerance::None, |cell| {
        cell.e2e_s.p95
    }),
    metric("tops", "tokens/s", 0, Tolerance::Percent(15.0), |cell| {
        Some(cell.tops)
    }),
    metric("rps", "requests/s", 2, Tolerance::None, |cell| {
        Some(cell.rps)
    }),
    metric("kv_hit_pct", "hit %", 1, Tolerance::Points(8.0), |cell| {
        cell.kv_hit_pct
    }),
];

const fn metric(
    name: &'static str,
    label: &'static str,
    digits: usize,
    tolerance: Tolerance,
    of: fn(&CellSummary) -> Option<f64>,
) -> Metric {
    Metric {
        name,
        label,
        digits,
        tolerance,
        of,
    }
}

/// Published measurements, by level and mode.
#[derive(Clone, Debug)]
pub struct Measurements {
    name: &'static str,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    concurrency: u32,
    mode: String,
    /// In the order of [`METRICS`].
    figures: Vec<f64>,
}

/// Why there are no such measurements.
#[derive(Debug, thiserror::Error)]
pub enum MeasurementsError {
    #[error("no measurements `{name}`; available: {}", known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("measurements, line {line}: {fault}")]
    Malformed { line: usize, fault: RowFault },
}

/// What is wrong with a line of measurements.
#[derive(Debug, thiserror::Error)]
pub enum RowFault {
    #[error("there is no {0}")]
    Missing(&'static str),
    #[error("{column}: `{text}` is not a number")]
    NotANumber { column: &'static str, text: String },
}

/// A sweep beside measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub measurements: &'static str,
    pub cells: Vec<CellComparison>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellComparison {
    pub mode: String,
    pub concurrency: u32,
    pub figures: Vec<Deviation>,
}

/// One figure of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deviation {
    pub metric: &'static str,
    pub simulated: Option<f64>,
    pub measured: f64,
    /// In per cent of the measurement, or in points where it is a percentage itself.
    pub error: Option<f64>,
    /// `None` if nothing was promised.
    pub within: Option<bool>,
}

impl Measurements {
    /// The measurements of that name.
    pub fn named(name: &str) -> Result<Self, MeasurementsError> {
        let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) else {
            return Err(MeasurementsError::Unknown {
                name: name.to_owned(),
                known: SHIPPED.iter().map(|(name, _)| *name).collect(),
            });
        };
        Self::parse(name, text)
    }

    fn parse(name: &'static str, text: &str) -> Result<Self, MeasurementsError> {
        let mut lines = text.lines().enumerate();
        let mut lines = lines.by_ref().filter(|(_, line)| !line.starts_with('#'));
        let (_, header) = lines.next().unwrap_or_default();
        let columns: Vec<&str> = header.split(',').collect();
        let rows = lines.map(|(index, line)| {
            Row::parse(&columns, line).map_err(|fault| MeasurementsError::Malformed {
                line: index + 1,
                fault,
            })
        });
        Ok(Self {
            name,
            rows: rows.collect::<Result<_, _>>()?,
        })
    }

    /// Sets cells beside the measurements that there are of their mode and level.
    pub fn compare(&self, cells: &[CellSummary]) -> Comparison {
        let compared = cells.iter().filter_map(|cell| {
            let mode = cell.mode.to_owned();
            let measured =
                |row: &&Row| Some(row.concurrency) == cell.concurrency && row.mode == mode;
            let row = self.rows.iter().find(measured)?;
            let figures = METRICS.iter().zip(&row.figures);
            Some(CellComparison {
                concurrency: row.concurrency,
                figures: figures
                    .map(|(metric, &measured)| Deviation::new(metric, (metric.of)(cell), measured))
                    .collect(),
                mode,
            })
        });
        Comparison {
            measurements: self.name,
            cells: compared.collect(),
        }
    }
}

impl Row {
    fn parse(columns: &[&str], line: &str) -> Result<Self, RowFault> {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |name: &'static str| {
            let index = columns.iter().position(|column| *column == name);
            let field = index.and_then(|index| fields.get(index).copied());
            field.ok_or(RowFault::Missing(name))
        };
        let number = |column: &'static str| {
            let text = field(column)?;
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| RowFault::NotANumber {
                column,
                text: text.to_owned(),
            })
        };
        let figures = METRICS.iter().map(|metric| number(metric.name));
        Ok(Self {
            concurrency: number("concurrency")? as u32,
            mode: field("mode")?.to_owned(),
            figures: figures.collect::<Result<_, _>>()?,
        })
    }
}

impl Deviation {
    fn new(metric: &Metric, simulated: Option<f64>, measured: f64) -> Self {
        let percent = |value: f64| 100.0 * (value / measured - 1.0);
        let (error, limit) = match metric.tolerance {
            Tolerance::Percent(limit) => (simulated.map(percent), Some(limit)),
            Tolerance::Points(limit) => (simulated.map(|value| value - measured), Some(limit)),
            Tolerance::None => (simulated.map(percent), None),
        };
        Self {
            metric: metric.name,
            simulated,
            measured,
            error: error.map(|error| (error * 10.0).round() / 10.0),
            // What was not measured at all is not within anything.
            within: limit.map(|limit| error.is_some_and(|error| error.abs() <= limit)),
        }
    }
}

impl Comparison {
    /// Figures that are further off than promised.
    pub fn beyond(&self) -> usize {
        let figures = self.cells.iter().flat_map(|cell| &cell.figures);
        figures
            .filter(|figure| figure.within == Some(false))
            .count()
    }

    /// A text table: simulated, measured and error of every figure.
    pub fn table(&self) -> String {
        let mut table = format!(
            "Simulated / {} measurement, error in % (hit rate: in points); * is beyond the tolerance\n\n{:<13} {:>4}",
            self.measurements, "mode", "conc"
        );
        let mut push = |text: std::fmt::Arguments<'_>| {
            table.write_fmt(text).expect("a string takes any text");
        };
        for metric in &METRICS {
            push(format_args!(" | {:^19}", metric.label));
        }
        for cell in &self.cells {
            push(format_args!("\n{:<13} {:>4}", cell.mode, cell.concurrency));
            for (metric, figure) in METRICS.iter().zip(&cell.figures) {
                push(format_args!(" | {:>19}", figure.text(metric.digits)));
            }
        }
        let promised = METRICS.iter().filter_map(|metric| match metric.tolerance {
            Tolerance::Percent(limit) => Some(format!("{} {limit} %", metric.label)),
            Tolerance::Points(limit) => Some(format!("{} {limit} points", metric.label)),
            Tolerance::None => None,
        });
        let promised: Vec<String> = promised.collect();
        let beyond = self.beyond();
        let figures = self.cells.len() * promised.len();
        push(format_args!(
            "\n\n{beyond} of {figures} figures beyond the tolerance ({})\n",
            promised.join(", ")
        ));
        table
    }
}

impl Deviation {
    fn text(&self, digits: usize) -> String {
        let Some((simulated, error)) = self.simulated.zip(self.error) else {
            return format!("- / {:.digits$}", self.measured);
        };
        let mark = if self.within == Some(false) { "*" } else { " " };
        format!(
            "{simulated:.digits$} / {:.digits$} {error:>+5.0}{mark}",
            self.measured
        )
    }
}
