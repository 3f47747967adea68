//! The report of a run: the table, and whether the objectives hold.

use std::fmt::{self, Display};

use ::loadgen::snapshot::{ConversationCounts, LastFailure, TotalCounts};
use ::loadgen::totals::Totals;
use ::loadgen::{Percentiles, Snapshot, TurnType};
use stats::CellSummary;
use stats::Objectives;
use stats::figures::Figures;

#[derive(Debug)]
pub(super) struct Report {
    heading: String,
    rows: Vec<Row>,
    totals: Totals,
    counts: TotalCounts,
    conversations: ConversationCounts,
    last_failure: Option<LastFailure>,
    /// What was asked for, and whether it holds.
    objectives: Vec<(Objectives, bool)>,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Milliseconds.
    percentiles: Option<Percentiles>,
    samples: u64,
}

impl Row {
    fn new(name: &'static str, percentiles: Option<Percentiles>, samples: u64) -> Self {
        Self {
            name,
            percentiles: percentiles.map(|percentiles| percentiles.scaled(1e3)),
            samples,
        }
    }
}

impl Report {
    pub(super) fn new(last: &Snapshot, totals: &Totals, objectives: &[Objectives]) -> Self {
        let cell = cell(totals);
        let judged = objectives
            .iter()
            .map(|objective| (objective.clone(), objective.hold(&cell)));
        let settings = &last.settings;
        let level = settings.arrivals_per_second.map_or_else(
            || format!("{} conversations at once", settings.concurrency),
            |rate| format!("{rate} conversations per second"),
        );
        let [initial, followup] = &totals.ttft_by_type;
        let exact = |name, samples: &::loadgen::Samples| {
            Row::new(name, samples.percentiles(), samples.len() as u64)
        };
        Self {
            heading: format!("{} {}, {level}", last.target.url, last.target.model),
            rows: vec![
                exact("TTFT", &totals.ttft),
                exact("  first turns", initial),
                exact("  later turns", followup),
                exact("TPOT", &totals.tpot),
                Row::new("ITL", totals.itl.percentiles(), totals.itl.total()),
                exact("E2E", &totals.e2e),
                exact("own lag", &totals.lag),
            ],
            counts: last.totals.clone(),
            conversations: last.conversations,
            last_failure: last.last_failure.clone(),
            objectives: judged.collect(),
            totals: totals.clone(),
        }
    }

    pub(super) fn objectives_hold(&self) -> bool {
        self.objectives.iter().all(|(_, holds)| *holds)
    }

    pub(super) fn nothing_answered(&self) -> bool {
        self.counts.requests == self.counts.failures
    }
}

/// In the form in which objectives are judged.
fn cell(totals: &Totals) -> CellSummary {
    let figures = |samples: &::loadgen::Samples, factor: f64| {
        Figures::from_shares(|share| Some(samples.percentile(share)? * factor))
    };
    CellSummary {
        mode: "live".to_owned(),
        requests: totals.requests,
        errors: totals.failed(),
        ttft_ms: figures(&totals.ttft, 1e3),
        tpot_ms: figures(&totals.tpot, 1e3),
        itl_ms: Figures::of_gaps(&totals.itl),
        e2e_s: figures(&totals.e2e, 1.0),
        ..CellSummary::default()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = &self.totals;
        writeln!(f, "{}\n", self.heading)?;
        let [p50, p95, p99, samples] = ["p50 ms", "p95 ms", "p99 ms", "samples"];
        writeln!(f, "{:<14} {p50:>9} {p95:>9} {p99:>9} {samples:>9}", "")?;
        for row in &self.rows {
            let value =
                |which: fn(&Percentiles) -> f64| milliseconds(row.percentiles.as_ref().map(which));
            writeln!(
                f,
                "{:<14} {:>9} {:>9} {:>9} {:>9}",
                row.name,
                value(|all| all.p50),
                value(|all| all.p95),
                value(|all| all.p99),
                row.samples,
            )?;
        }
        let failed = totals.failed();
        let share = 100.0 * failed as f64 / totals.requests.max(1) as f64;
        writeln!(
            f,
            "\n{} requests in {:.1} s, {failed} failed ({share:.1} %), {:.2} req/s, {:.0} tok/s",
            totals.requests,
            totals.measured().as_secs_f64(),
            totals.requests_per_second(),
            totals.tokens_per_second(),
        )?;
        writeln!(
            f,
            "{} prompt tokens, {} of them cached (first turns {}, later turns {})",
            totals.prompt_tokens.iter().sum::<u64>(),
            percent(totals.hit_rate()),
            percent(totals.hit_rate_of(TurnType::Initial)),
            percent(totals.hit_rate_of(TurnType::Followup)),
        )?;
        writeln!(
            f,
            "{} output tokens, {} per event",
            totals.output_tokens,
            number(totals.output_tokens as f64 / totals.chunks as f64),
        )?;
        let counts = &self.conversations;
        writeln!(
            f,
            "{} conversations: {} completed, {} stopped, {} abandoned",
            counts.begun, counts.completed, counts.stopped, counts.failed,
        )?;
        if self.counts.user_model_fallbacks > 0 {
            let count = self.counts.user_model_fallbacks;
            writeln!(
                f,
                "{count} questions that the user model did not write in time"
            )?;
        }
        for (kind, count) in &totals.failures {
            writeln!(f, "failed: {} {count}", kind.name())?;
        }
        if let Some(last) = &self.last_failure {
            writeln!(f, "last failure: {}", last.failure)?;
        }
        for (objective, holds) in &self.objectives {
            let verdict = if *holds { "holds" } else { "MISSED" };
            writeln!(f, "objective: {objective}: {verdict}")?;
        }
        Ok(())
    }
}

pub(super) fn milliseconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}

fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{:.1} %", 100.0 * share),
        false => "-".to_owned(),
    }
}

fn number(value: f64) -> String {
    match value.is_finite() {
        true => format!("{value:.2}"),
        false => "-".to_owned(),
    }
}
