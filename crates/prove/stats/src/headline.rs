//! What a sweep says in one breath: how much load each mode bears, and where one mode stops
//! being better than another, with the reason.
//!
//! The published analysis of KV routing found by hand that its advantage in TTFT turns into a
//! disadvantage at high load: momentary imbalance pushes one worker past its batch limit, and
//! requests wait there. The same comparison is made here for every mode, in numbers.

use serde::Serialize;

use crate::cell_summary::CellSummary;
use crate::intervals::{Difference, Verdict};
use crate::slo::{Objectives, SloSummary};

/// Figures whose turning point is looked for.
const WATCHED: [(&str, &str); 2] = [("ttft_ms_p50", "TTFT p50"), ("ttft_ms_p95", "TTFT p95")];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    pub slo: SloSummary,
    pub crossovers: Vec<Crossover>,
}

/// From a level on, a mode is worse than the first mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossover {
    pub mode: String,
    pub against: String,
    pub figure: String,
    /// The lowest level from which on it is worse and never better again.
    pub concurrency: u32,
    /// The highest lower level at which it was better; `null` if it never was.
    pub better_until: Option<u32>,
    pub value: f64,
    pub reference: f64,
    /// What the workers went through there, in words.
    pub analysis: String,
}

impl Headline {
    pub fn new(objectives: Objectives, cells: &[CellSummary], differences: &[Difference]) -> Self {
        let mut modes: Vec<&str> = differences.iter().map(|one| one.mode.as_str()).collect();
        modes.sort_unstable();
        modes.dedup();
        let crossovers = modes.into_iter().flat_map(|mode| {
            WATCHED.iter().filter_map(move |&(figure, label)| {
                let of_figure = |one: &&Difference| one.mode == mode && one.figure == figure;
                let course: Vec<_> = differences.iter().filter(of_figure).collect();
                crossover(&course, cells, label)
            })
        });
        Self {
            crossovers: crossovers.collect(),
            slo: SloSummary::new(objectives, cells),
        }
    }
}

/// Differences of one figure in order of level.
fn crossover(course: &[&Difference], cells: &[CellSummary], label: &str) -> Option<Crossover> {
    let last_better = course
        .iter()
        .rposition(|one| one.verdict == Verdict::Better);
    let from = last_better.map_or(0, |index| index + 1);
    let turn = course[from..]
        .iter()
        .find(|one| one.verdict == Verdict::Worse)?;
    let at = |mode: &str| {
        let mut cells = cells.iter();
        cells.find(|cell| cell.mode == mode && cell.concurrency == Some(turn.concurrency))
    };
    Some(Crossover {
        mode: turn.mode.clone(),
        against: turn.against.clone(),
        figure: turn.figure.clone(),
        concurrency: turn.concurrency,
        better_until: last_better.map(|index| course[index].concurrency),
        value: turn.value,
        reference: turn.reference,
        analysis: analysis(label, at(&turn.mode)?, at(&turn.against)?, turn),
    })
}

/// Spread, batch limit and queue time of both, as sentences.
fn analysis(label: &str, mode: &CellSummary, other: &CellSummary, turn: &Difference) -> String {
    let [mine, theirs] = [mode, other].map(|cell| &cell.traffic);
    let mut text = format!(
        "From {} conversations on, {} has the longer {label}: {:.0} ms against {:.0} ms with {}.",
        turn.concurrency, turn.mode, turn.value, turn.reference, turn.against,
    );
    if let (Some(mine), Some(theirs)) = (mine.inflight_spread.mean, theirs.inflight_spread.mean) {
        text += &format!(
            " The busiest and the idlest worker were {mine:.0} requests apart on average, \
             against {theirs:.0}.",
        );
    }
    if let Some(slots) = mode.slots.filter(|_| mine.inflight_max > 0) {
        let verb = match mine.inflight_max > slots {
            true => "past",
            false => "within",
        };
        text += &format!(
            " One worker held up to {} at once, {verb} its batch limit of {slots}; \
             with {} the most was {}.",
            mine.inflight_max, turn.against, theirs.inflight_max,
        );
    }
    if let (Some(mine_max), Some(theirs_max)) = (mine.queue_ms_max, theirs.queue_ms_max) {
        text += &format!(
            " The longest wait for a place in a batch was {:.2} s, against {:.2} s",
            mine_max / 1e3,
            theirs_max / 1e3,
        );
        if let (Some(mine), Some(theirs)) = (mine.queue_skew, theirs.queue_skew) {
            text += &format!(
                "; mean waits of the workers differed by a factor of {mine:.2}, against {theirs:.2}"
            );
        }
        text.push('.');
    }
    text
}
