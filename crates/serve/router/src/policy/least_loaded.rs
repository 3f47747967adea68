//! `least-loaded`: the worker with the smallest share of its slots taken.
//!
//! Ties are broken in rotation. Always taking the first would send every request of a quiet
//! system to one worker; drawing would spread a burst unevenly.

use std::cmp::Ordering;

use contract::WorkerId;
use contract::random::Random as Draws;

use super::{Candidate, Choice, Policy, Reason, RequestView, after};
use crate::mode::ModeName;

#[derive(Debug, Default)]
pub struct LeastLoaded {
    last: Option<WorkerId>,
}

impl Policy for LeastLoaded {
    fn name(&self) -> &'static str {
        ModeName::LeastLoaded.as_str()
    }

    fn choose(
        &mut self,
        _request: &RequestView,
        candidates: &mut [Candidate],
        _draws: &mut Draws,
    ) -> Choice {
        let start = after(self.last, candidates);
        let mut index = start;
        for other in (start + 1..candidates.len()).chain(0..start) {
            if candidates[other].cmp_load(&candidates[index]) == Ordering::Less {
                index = other;
            }
        }
        let Candidate {
            worker,
            in_flight,
            slots,
            ..
        } = candidates[index];
        self.last = Some(worker);
        Choice {
            index,
            reason: Reason::LeastLoaded { in_flight, slots },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{busy, choose};

    #[test]
    fn the_emptiest_wins_relative_to_its_slots() {
        for (candidates, expected) in [
            (vec![busy(1, 3, 64), busy(2, 2, 64), busy(3, 4, 64)], 2),
            (vec![busy(1, 3, 8), busy(2, 10, 64)], 2),
            (vec![busy(1, 0, 8), busy(2, 1, 64)], 1),
            (vec![busy(1, 9, 0), busy(2, 9, 2)], 2),
        ] {
            let chosen = choose(&mut LeastLoaded::default(), &candidates, &mut Draws::new(1));
            assert_eq!(chosen, expected, "{candidates:?}");
        }
    }

    #[test]
    fn ties_rotate() {
        let mut policy = LeastLoaded::default();
        let mut draws = Draws::new(1);
        let candidates = [
            busy(1, 2, 64),
            busy(2, 1, 64),
            busy(3, 1, 64),
            busy(4, 1, 64),
        ];
        let chosen: Vec<u64> = (0..5)
            .map(|_| choose(&mut policy, &candidates, &mut draws))
            .collect();
        assert_eq!(chosen, [2, 3, 4, 2, 3]);
    }
}
