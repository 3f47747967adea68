//! `power-of-two`: two drawn at random, the less loaded wins.
//!
//! Nearly as even as looking at every worker, and robust when several routers share a
//! fleet: they do not all run to the same worker.

use std::cmp::Ordering;

use contract::random::Random as Draws;

use super::{Candidate, Choice, Policy, Reason, RequestView};
use crate::mode::ModeName;

#[derive(Debug)]
pub struct PowerOfTwo;

impl Policy for PowerOfTwo {
    fn name(&self) -> &'static str {
        ModeName::PowerOfTwo.as_str()
    }

    fn choose(
        &mut self,
        _request: &RequestView,
        candidates: &mut [Candidate],
        draws: &mut Draws,
    ) -> Choice {
        if candidates.len() == 1 {
            return Choice {
                index: 0,
                reason: Reason::OnlyOne,
            };
        }
        let first = draws.below(candidates.len());
        // Skipping over the first keeps the second uniform over the others.
        let second = draws.below(candidates.len() - 1);
        let second = if second >= first { second + 1 } else { second };
        let (index, other) = if candidates[second].cmp_load(&candidates[first]) == Ordering::Less {
            (second, first)
        } else {
            (first, second)
        };
        Choice {
            index,
            reason: Reason::LessLoadedOfTwo {
                other: candidates[other].worker,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{busy, choose, idle};

    #[test]
    fn the_most_loaded_never_wins_and_all_others_do() {
        let candidates = [
            busy(0, 9, 64),
            busy(1, 1, 64),
            busy(2, 5, 64),
            busy(3, 5, 64),
        ];
        let mut draws = Draws::new(3);
        let mut wins = [0_u32; 4];
        for _ in 0..6000 {
            wins[choose(&mut PowerOfTwo, &candidates, &mut draws) as usize] += 1;
        }
        // Worker 1 wins each of the three pairs out of six that it is in; 2 and 3 win
        // against 0 and half of the pair that they form.
        assert_eq!(wins[0], 0, "two distinct workers are drawn");
        for (worker, expected) in [(1, 3000_u32), (2, 1500), (3, 1500)] {
            assert!(wins[worker].abs_diff(expected) < 150, "{wins:?}");
        }
    }

    #[test]
    fn one_candidate_is_enough() {
        assert_eq!(choose(&mut PowerOfTwo, &[idle(4)], &mut Draws::new(1)), 4);
    }
}
