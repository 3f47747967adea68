//! SMG (SGLang's gateway) `cache_aware` with KV events: the longest match, unless the fleet
//! is out of balance.
//!
//! 1. If the busiest worker has more than 64 requests more than the idlest and more than 1.5
//!    times as many, the fewest requests.
//! 2. Otherwise the longest match; ties: fewer requests.
//!
//! Defaults of its command line. The threshold of 0.3 of the prompt, below which a match is
//! ignored, belongs to its approximate mode; with events any match counts. Simpler here: the
//! last tie goes to chance and not to the smaller tree; its bounds on cache usage are off by
//! default and left out.

use contract::random::Random;
use router::{Candidate, Choice, Policy, RequestView};

use super::{by_requests, extremes, first, holder, least_loaded};

const BALANCE_ABSOLUTE: u32 = 64;
const BALANCE_RELATIVE: f64 = 1.5;

#[derive(Debug)]
pub struct Smg;

impl Smg {
    pub const NAME: &'static str = "smg";
}

impl Policy for Smg {
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
        let apart = most - fewest > BALANCE_ABSOLUTE
            && f64::from(most) > BALANCE_RELATIVE * f64::from(fewest);
        if apart {
            let index = first(candidates, |_| true, by_requests, draws);
            return least_loaded(candidates, index.expect("there is a candidate"));
        }
        let longest = |left: &Candidate, right: &Candidate| {
            let overlap = right.overlap_blocks.cmp(&left.overlap_blocks);
            overlap.then_with(|| by_requests(left, right))
        };
        let index = first(candidates, |_| true, longest, draws);
        holder(candidates, index.expect("there is a candidate"))
    }
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
    fn the_longest_match_wins_and_requests_break_ties() {
        check(&mut Smg, &[with(10, 0), with(11, 60)], 1);
        check(&mut Smg, &[with(11, 3), with(11, 2)], 1);
        check(&mut Smg, &[with(0, 3), with(0, 2)], 1);
    }

    #[test]
    fn affinity_is_dropped_only_far_out_of_balance() {
        check(&mut Smg, &[with(90, 64), with(0, 0)], 0);
        check(&mut Smg, &[with(90, 65), with(0, 0)], 1);
        // 100 apart, but not half as many again.
        check(&mut Smg, &[with(90, 300), with(0, 200)], 0);
        check(&mut Smg, &[with(90, 301), with(0, 200)], 1);
    }
}
