//! The router's decision in the short form that an answer carries.

use openai::routing::MOST_CANDIDATES;
use openai::{Routing, RoutingCandidate};
use router::{Candidate, Decision};

/// Only made for a request that asks for it: it copies the candidates' figures.
pub(crate) fn summary(decision: &Decision) -> Routing {
    let row = |candidate: &Candidate| RoutingCandidate {
        worker: candidate.worker.to_string(),
        overlap_blocks: candidate.overlap_blocks,
        in_flight: candidate.in_flight,
        cost: candidate.cost,
        ttft_ms: candidate.terms.map(|terms| terms.ttft_ms),
    };
    let rows = decision.candidates.iter().map(row).collect();
    Routing {
        mode: decision.mode.to_owned(),
        reason: decision.reason.to_string(),
        blocks: decision.blocks,
        queued_ms: decision.queued_ms,
        predicted_ttft_ms: decision.predicted_ttft_ms,
        candidates: cheapest(rows, &decision.winner.to_string()),
    }
}

/// The cheapest first. Those without a cost are equal, and of equals the chosen one is first.
fn cheapest(mut rows: Vec<RoutingCandidate>, chosen: &str) -> Vec<RoutingCandidate> {
    rows.sort_by(|left, right| {
        let cost = |one: &RoutingCandidate| one.cost.unwrap_or(f64::INFINITY);
        let other = |one: &RoutingCandidate| one.worker != chosen;
        let by_cost = cost(left).total_cmp(&cost(right));
        by_cost.then(other(left).cmp(&other(right)))
    });
    let place = rows.iter().position(|row| row.worker == chosen);
    if let Some(place) = place.filter(|&place| place >= MOST_CANDIDATES) {
        rows.swap(place, MOST_CANDIDATES - 1);
    }
    rows.truncate(MOST_CANDIDATES);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(costs: &[Option<f64>], chosen: u32, expected: &[u32]) {
        let row = |(worker, &cost): (u32, &Option<f64>)| RoutingCandidate {
            worker: worker.to_string(),
            overlap_blocks: 0,
            in_flight: 0,
            cost,
            ttft_ms: None,
        };
        let rows = (0_u32..).zip(costs).map(row).collect();
        let workers: Vec<u32> = cheapest(rows, &chosen.to_string())
            .iter()
            .map(|row| row.worker.parse().unwrap())
            .collect();
        assert_eq!(workers, expected);
    }

    #[test]
    fn the_cheapest_are_listed_and_the_chosen_one_always() {
        check(&[Some(3.0), Some(1.0), Some(2.0)], 1, &[1, 2, 0]);
        // Chosen although it is not the cheapest: somebody wanted it so.
        check(&[Some(3.0), Some(1.0), Some(2.0)], 0, &[1, 2, 0]);
        check(&[None, None, None], 2, &[2, 0, 1]);
        check(&[Some(f64::INFINITY), Some(5.0)], 1, &[1, 0]);
        let costs: Vec<_> = (0..30_u32).map(|cost| Some(f64::from(cost))).collect();
        let mut expected: Vec<u32> = (0..16).collect();
        check(&costs, 3, &expected);
        expected[15] = 29;
        check(&costs, 29, &expected);
        check(&[], 0, &[]);
    }
}
