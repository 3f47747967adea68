//! What makes a cell doubtful.
//!
//! A guard does not remove a cell: it stands beside its figures wherever they are shown.

use crate::cell_summary::{CellSummary, Guard, GuardKind};
use crate::raw::RawCell;

/// In a hundred requests.
const MOST_ERRORS_PCT: f64 = 1.0;
/// The client's own lateness, compared with the median TTFT that it is part of.
const MOST_LAG_PCT: f64 = 5.0;
/// Fewer have no 95th percentile worth the name: it would be one of the worst five.
const FEWEST_REQUESTS: u64 = 100;
/// Between two ways to count the same hits, in hundredths of the prompt.
const MOST_HIT_DIFFERENCE: f64 = 2.0;

pub(crate) fn guards(cell: &CellSummary, runs: &[RawCell]) -> Vec<Guard> {
    let mut guards = Vec::new();
    let mut doubt = |kind, detail: String| guards.push(Guard { kind, detail });
    let errors_pct = 100.0 * cell.errors as f64 / cell.requests as f64;
    if errors_pct > MOST_ERRORS_PCT {
        doubt(
            GuardKind::Errors,
            format!("{errors_pct:.1} % of the requests failed"),
        );
    }
    if cell.requests < FEWEST_REQUESTS {
        doubt(
            GuardKind::FewSamples,
            format!("{} requests are too few for a tail", cell.requests),
        );
    }
    if let (Some(lag), Some(ttft)) = (cell.lag_ms_p95, cell.ttft_ms.p50)
        && lag * 100.0 > ttft * MOST_LAG_PCT
    {
        doubt(
            GuardKind::ClientLag,
            format!("the load generator sent up to {lag:.0} ms late (p95)"),
        );
    }
    if runs.iter().any(|run| !run.facts.mode_confirmed) {
        doubt(
            GuardKind::ModeUnconfirmed,
            "the deployment did not say that it routed in this mode".to_owned(),
        );
    }
    let others = answers_of_other_modes(runs);
    if others > 0 {
        doubt(
            GuardKind::OtherMode,
            format!("{others} answers say that they were routed in another mode"),
        );
    }
    if runs.iter().any(|run| !run.facts.steady) {
        doubt(
            GuardKind::NotSteady,
            "load was not steady when the window began".to_owned(),
        );
    }
    if let (Some(told), Some(counted)) = (cell.run_hit_pct, cell.server_hit_pct)
        && (told - counted).abs() > MOST_HIT_DIFFERENCE
    {
        doubt(
            GuardKind::HitRatesDisagree,
            format!("hit rate {told:.1} % by usage, {counted:.1} % by the server's counters"),
        );
    }
    guards
}

/// Requests of a window whose answers tell of a mode that is not the cell's.
fn answers_of_other_modes(runs: &[RawCell]) -> usize {
    let others = runs.iter().flat_map(|run| {
        let window = run.window();
        let told = run.records.iter().filter_map(|record| {
            let routing = record.routing.as_ref()?;
            Some((record.sent_s, routing.mode.as_str()))
        });
        let facts = &run.facts;
        let expected = facts.router_mode.as_ref().unwrap_or(&facts.name.mode);
        told.filter(move |(sent_s, mode)| {
            window.contains(sent_s) && *mode != expected && !mode.is_empty()
        })
    });
    others.count()
}
