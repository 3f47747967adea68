//! AIBrix `prefix-cache`: the longest match that is not busier than most.
//!
//! 1. If the busiest worker has more than 8 requests more than the idlest, only workers with
//!    the fewest requests take part.
//! 2. Of those, workers that hold some of the prompt, longest match first, then fewest
//!    requests: the first with at most mean + 1 standard deviation requests.
//! 3. If there is none, the fewest requests.
//!
//! Defaults as in the code (its manual says 16 and 2 standard deviations). Simpler here: the
//! index is exact, where the original guesses from what it has routed; ties go to chance.

use contract::random::Random;
use router::{Candidate, Choice, Policy, RequestView};

use super::{by_requests, extremes, first, holder, least_loaded};

const IMBALANCE: u32 = 8;
const DEVIATIONS: f64 = 1.0;

#[derive(Debug)]
pub struct Aibrix;

impl Aibrix {
    pub const NAME: &'static str = "aibrix";
}

impl Policy for Aibrix {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(
        &mut self,
        _request: &RequestView<'_>,
        candidates: &mut [Candidate],
        draws: &mut Random,
    ) -> Choice {
        let (fewest, most) = extremes(candidates);
        let limit = if most - fewest > IMBALANCE {
            f64::from(fewest)
        } else {
            usual(candidates)
        };
        let matched = |candidate: &Candidate| {
            candidate.overlap_blocks > 0 && f64::from(candidate.in_flight) <= limit
        };
        let longest = |left: &Candidate, right: &Candidate| {
            let overlap = right.overlap_blocks.cmp(&left.overlap_blocks);
            overlap.then_with(|| by_requests(left, right))
        };
        if let Some(index) = first(candidates, matched, longest, draws) {
            return holder(candidates, index);
        }
        let index = first(candidates, |_| true, by_requests, draws);
        least_loaded(candidates, index.expect("there is a candidate"))
    }
}

/// As many requests as a worker may have that is not busier than most.
fn usual(candidates: &[Candidate]) -> f64 {
    let count = candidates.len() as f64;
    let requests = || candidates.iter().map(|one| f64::from(one.in_flight));
    let mean = requests().sum::<f64>() / count;
    let variance = requests().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
    mean + DEVIATIONS * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::tests::{Worker, check};

    fn with(overlap: u32, in_flight: u32) -> Worker {
        Worker {
            overlap,
            in_flight,
            ..Worker::default()
        }
    }

    #[test]
    fn the_longest_match_wins_while_it_is_not_busier_than_most() {
        // Mean 3.7 and deviation 0.5: 4 will do.
        check(&mut Aibrix, &[with(20, 3), with(90, 4), with(0, 4)], 1);
        check(&mut Aibrix, &[with(90, 4), with(90, 3), with(0, 4)], 1);
        // Mean 3.3: it will not.
        check(&mut Aibrix, &[with(20, 3), with(90, 4), with(0, 3)], 0);
        // Mean 3.3 and deviation 3.4: 8 is too many, and the next match does.
        check(&mut Aibrix, &[with(20, 2), with(90, 8), with(0, 0)], 0);
        // Nobody holds anything.
        check(&mut Aibrix, &[with(0, 2), with(0, 5), with(0, 1)], 2);
    }

    #[test]
    fn an_imbalance_leaves_only_the_idlest() {
        // Mean 6.3 and deviation 3.8, so 9 would do; but 8 apart is the limit.
        check(&mut Aibrix, &[with(90, 9), with(80, 9), with(0, 1)], 0);
        check(&mut Aibrix, &[with(90, 10), with(80, 10), with(0, 1)], 2);
        check(&mut Aibrix, &[with(90, 10), with(5, 1), with(0, 1)], 1);
    }
}
