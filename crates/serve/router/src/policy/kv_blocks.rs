//! `kv-blocks`: least work in blocks, the specification's formula.
//!
//! ```text
//! cost = overlap_score_weight × prefill_blocks + decode_blocks
//! ```
//!
//! `prefill_blocks` is what the worker has to compute until this request's first token,
//! including prompts sent to it earlier; `decode_blocks` is what its running requests
//! keep in use, without this one. The formula is blind to slots, as published: a worker
//! may be chosen whose batch is full.
//!
//! With `router_temperature` *T* above zero the worker is drawn with probability
//! proportional to `exp(-cost / ((max - min) × T))`: costs are scaled by their range, so
//! that *T* means the same on short and long prompts.

use contract::random::Random as Draws;

use super::{Candidate, Choice, Policy, Reason, RequestView};
use crate::mode::{BlockWeights, ModeName};

#[derive(Debug)]
pub struct KvBlocks {
    weights: BlockWeights,
    /// Of the candidates, when drawing. Kept to be reused.
    odds: Vec<f64>,
}

impl KvBlocks {
    pub fn new(weights: BlockWeights) -> Self {
        Self {
            weights,
            odds: Vec::new(),
        }
    }

    fn cost(&self, candidate: &Candidate) -> f64 {
        self.weights.overlap_score_weight() * candidate.prefill_blocks
            + f64::from(candidate.decode_blocks)
    }

    fn draw(&mut self, costs: Costs<'_>, draws: &mut Draws) -> Choice {
        let (lowest, highest) = costs.range();
        let scale = (highest - lowest) * self.weights.router_temperature();
        self.odds.clear();
        self.odds.extend(costs.iter().map(|cost| {
            // Equal costs have no range to scale by: everyone is equally likely.
            if scale > 0.0 {
                ((lowest - cost) / scale).exp()
            } else {
                1.0
            }
        }));
        let total: f64 = self.odds.iter().sum();
        let mut left = draws.unit() * total;
        let drawn = self.odds.iter().position(|odds| {
            left -= odds;
            left < 0.0
        });
        // Rounding can leave a crumb beyond the last.
        let index = drawn.unwrap_or(self.odds.len() - 1);
        Choice {
            index,
            reason: Reason::DrawnByCost {
                probability: self.odds[index] / total,
            },
        }
    }
}

impl Policy for KvBlocks {
    fn name(&self) -> &'static str {
        ModeName::KvBlocks.as_str()
    }

    fn choose(
        &mut self,
        _request: &RequestView,
        candidates: &mut [Candidate],
        draws: &mut Draws,
    ) -> Choice {
        for candidate in &mut *candidates {
            candidate.cost = Some(self.cost(candidate));
        }
        if self.weights.router_temperature() > 0.0 {
            return self.draw(Costs(candidates), draws);
        }
        cheapest(Costs(candidates), draws)
    }
}

/// Candidates whose cost has been written.
#[derive(Clone, Copy)]
struct Costs<'a>(&'a [Candidate]);

impl Costs<'_> {
    fn iter(&self) -> impl Iterator<Item = f64> {
        self.0
            .iter()
            .map(|candidate| candidate.cost.expect("every candidate was weighed"))
    }

    fn range(&self) -> (f64, f64) {
        self.iter().fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(lowest, highest), cost| (lowest.min(cost), highest.max(cost)),
        )
    }
}

/// The lowest cost; of several, the one with the fewest requests; of several, any.
fn cheapest(costs: Costs<'_>, draws: &mut Draws) -> Choice {
    let (lowest, _) = costs.range();
    let (mut index, mut tied, mut alike) = (0, 0_u32, 0);
    for (other, cost) in costs.iter().enumerate() {
        if cost > lowest {
            continue;
        }
        tied += 1;
        let fewest = costs.0[index].in_flight;
        let in_flight = costs.0[other].in_flight;
        if tied == 1 || in_flight < fewest {
            (index, alike) = (other, 1);
        } else if in_flight == fewest {
            // Taking the n-th of those seen so far with probability 1/n makes all of them
            // equally likely without a list.
            alike += 1;
            if draws.below(alike) == 0 {
                index = other;
            }
        }
    }
    let reason = if tied == 1 {
        Reason::LowestCost { cost: lowest }
    } else {
        Reason::TieAtLowestCost { cost: lowest, tied }
    };
    Choice { index, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{REQUEST, choose, idle};

    fn policy(weight: f64, temperature: f64) -> KvBlocks {
        KvBlocks::new(BlockWeights::new(weight, temperature).unwrap())
    }

    /// The specification's three workers, by prefill and decode blocks.
    fn specified() -> [Candidate; 3] {
        [(1, 80.0, 10), (2, 25.0, 5), (3, 90.0, 9)].map(
            |(worker, prefill_blocks, decode_blocks)| Candidate {
                prefill_blocks,
                decode_blocks,
                ..idle(worker)
            },
        )
    }

    #[test]
    fn the_costs_of_the_specifications_example() {
        let mut candidates = specified();
        let choice = policy(1.0, 0.0).choose(&REQUEST, &mut candidates, &mut Draws::new(1));
        assert_eq!(
            candidates.map(|candidate| candidate.cost),
            [Some(90.0), Some(30.0), Some(99.0)]
        );
        assert_eq!(
            choice,
            Choice {
                index: 1,
                reason: Reason::LowestCost { cost: 30.0 }
            }
        );
    }

    #[test]
    fn the_weight_trades_reuse_against_load() {
        let warm = Candidate {
            prefill_blocks: 20.0,
            decode_blocks: 90,
            ..idle(1)
        };
        let cold = Candidate {
            prefill_blocks: 100.0,
            decode_blocks: 0,
            ..idle(2)
        };
        for (weight, expected) in [(0.0, 2), (1.0, 2), (1.2, 1), (2.0, 1)] {
            let chosen = choose(&mut policy(weight, 0.0), &[warm, cold], &mut Draws::new(1));
            assert_eq!(chosen, expected, "weight {weight}");
        }
    }

    #[test]
    fn ties_go_to_the_fewest_in_flight_and_then_to_chance() {
        let busy = Candidate {
            in_flight: 2,
            ..idle(1)
        };
        let dear = Candidate {
            decode_blocks: 1,
            ..idle(4)
        };
        let mut draws = Draws::new(9);
        let mut wins = [0_u32; 5];
        for _ in 0..2000 {
            let chosen = choose(
                &mut policy(1.0, 0.0),
                &[busy, idle(2), idle(3), dear],
                &mut draws,
            );
            wins[chosen as usize] += 1;
        }
        assert_eq!((wins[1], wins[4]), (0, 0));
        assert!(wins[2].abs_diff(wins[3]) < 150, "{wins:?}");
    }

    #[test]
    fn temperature_draws_by_scaled_cost() {
        // Costs 90, 30 and 99 over a range of 69.
        let temperature = 0.5;
        let odds = [90.0, 30.0, 99.0].map(|cost: f64| (-cost / (69.0 * temperature)).exp());
        let total: f64 = odds.iter().sum();
        let mut policy = policy(1.0, temperature);
        let mut draws = Draws::new(2);
        let mut wins = [0_u32; 3];
        for _ in 0..20_000 {
            wins[choose(&mut policy, &specified(), &mut draws) as usize - 1] += 1;
        }
        for (worker, odds) in odds.iter().enumerate() {
            let share = f64::from(wins[worker]) / 20_000.0;
            assert!(
                (share - odds / total).abs() < 0.01,
                "{wins:?} for odds {odds}"
            );
        }
    }

    #[test]
    fn equal_costs_are_drawn_evenly_at_any_temperature() {
        let mut policy = policy(1.0, 3.0);
        let mut draws = Draws::new(2);
        let first = (0..4000)
            .filter(|_| choose(&mut policy, &[idle(1), idle(2)], &mut draws) == 1)
            .count();
        assert!((1850..2150).contains(&first), "{first}");
    }
}
