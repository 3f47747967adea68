//! `round-robin`: each worker in turn.
//!
//! The cycle is over worker ids, so that it stays a cycle while workers join, leave and are
//! skipped for being full.

use contract::WorkerId;
use contract::random::Random as Draws;

use super::{Candidate, Choice, Policy, Reason, RequestView, after};
use crate::mode::ModeName;

#[derive(Debug, Default)]
pub struct RoundRobin {
    last: Option<WorkerId>,
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        ModeName::RoundRobin.as_str()
    }

    fn choose(
        &mut self,
        _request: &RequestView,
        candidates: &mut [Candidate],
        _draws: &mut Draws,
    ) -> Choice {
        let index = after(self.last, candidates);
        self.last = Some(candidates[index].worker);
        Choice {
            index,
            reason: Reason::NextInCycle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{choose, idle};

    #[test]
    fn the_cycle_survives_workers_that_come_go_and_are_skipped() {
        let mut policy = RoundRobin::default();
        let mut draws = Draws::new(1);
        let rounds: [(&[u64], u64); 10] = [
            (&[1, 5, 9], 1),
            (&[1, 5, 9], 5),
            (&[1, 5, 9], 9),
            (&[1, 5, 9], 1),
            // 5 is full for a moment: 9 is next, and then 1 as ever.
            (&[1, 9], 9),
            (&[1, 5, 9], 1),
            // 3 joins ahead of 5 and takes its place in the cycle.
            (&[1, 3, 5, 9], 3),
            // 3 leaves again.
            (&[1, 5, 9], 5),
            // 9 leaves, and the cycle begins again.
            (&[1, 5], 1),
            (&[7], 7),
        ];
        for (workers, expected) in rounds {
            let candidates: Vec<Candidate> = workers.iter().map(|&id| idle(id)).collect();
            assert_eq!(
                choose(&mut policy, &candidates, &mut draws),
                expected,
                "{workers:?}"
            );
        }
    }
}
