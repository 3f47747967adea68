//! `random`: any worker, all equally likely.

use contract::random::Random as Draws;

use super::{Candidate, Choice, Policy, Reason, RequestView};
use crate::mode::ModeName;

#[derive(Debug)]
pub struct Random;

impl Policy for Random {
    fn name(&self) -> &'static str {
        ModeName::Random.as_str()
    }

    fn choose(
        &mut self,
        _request: &RequestView,
        candidates: &mut [Candidate],
        draws: &mut Draws,
    ) -> Choice {
        Choice {
            index: draws.below(candidates.len()),
            reason: Reason::Drawn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{choose, idle};

    #[test]
    fn everyone_is_drawn_about_equally_often_and_the_seed_decides() {
        let candidates = [idle(0), idle(1), idle(2)];
        let draw = |seed| {
            let mut draws = Draws::new(seed);
            (0..3000)
                .map(|_| choose(&mut Random, &candidates, &mut draws))
                .collect::<Vec<_>>()
        };
        let drawn = draw(5);
        for worker in 0..3 {
            let times = drawn.iter().filter(|&&other| other == worker).count();
            assert!((900..1100).contains(&times), "worker {worker}: {times}");
        }
        assert_eq!(drawn, draw(5));
        assert_ne!(drawn, draw(6));
    }
}
