//! The rules, and what they have in common.

use std::cmp::Ordering;

use contract::random::Random;
use router::{Candidate, Choice, Reason};

mod aibrix;
mod chwbl;
mod dynamo;
mod llm_d;
mod lmetric;
mod lpwl;
mod smg;
#[cfg(test)]
pub(crate) mod tests;

pub use aibrix::Aibrix;
pub use chwbl::Chwbl;
pub use dynamo::Dynamo;
pub use llm_d::LlmD;
pub use lmetric::Lmetric;
pub use lpwl::Lpwl;
pub use smg::Smg;

/// The first of those that take part, by `order`; any of several that are alike.
fn first(
    candidates: &[Candidate],
    takes_part: impl Fn(&Candidate) -> bool,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    draws: &mut Random,
) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for (index, candidate) in candidates.iter().enumerate() {
        if !takes_part(candidate) {
            continue;
        }
        best = match best {
            None => Some((index, 1)),
            Some((held, alike)) => match order(candidate, &candidates[held]) {
                Ordering::Less => Some((index, 1)),
                Ordering::Greater => Some((held, alike)),
                // Taking the n-th with probability 1/n makes all of them equally likely.
                Ordering::Equal if draws.below(alike + 1) == 0 => Some((index, alike + 1)),
                Ordering::Equal => Some((held, alike + 1)),
            },
        };
    }
    best.map(|(index, _)| index)
}

/// Weighs every candidate and takes the cheapest, of several the first by `tie`.
fn cheapest(
    candidates: &mut [Candidate],
    cost: impl Fn(&Candidate) -> f64,
    tie: impl Fn(&Candidate, &Candidate) -> Ordering,
    draws: &mut Random,
) -> Choice {
    for candidate in &mut *candidates {
        candidate.cost = Some(cost(candidate));
    }
    let weighed = |candidate: &Candidate| candidate.cost.expect("every candidate was weighed");
    let order = |left: &Candidate, right: &Candidate| {
        weighed(left)
            .total_cmp(&weighed(right))
            .then_with(|| tie(left, right))
    };
    let index = first(candidates, |_| true, order, draws).expect("there is a candidate");
    Choice {
        index,
        reason: Reason::LowestCost {
            cost: weighed(&candidates[index]),
        },
    }
}

/// Fewer requests first. The rules count requests; none of them knows slots.
fn by_requests(left: &Candidate, right: &Candidate) -> Ordering {
    left.in_flight.cmp(&right.in_flight)
}

/// The fewest and the most requests on a worker.
fn extremes(candidates: &[Candidate]) -> (u32, u32) {
    let counts = candidates.iter().map(|candidate| candidate.in_flight);
    counts.fold((u32::MAX, 0), |(fewest, most), count| {
        (fewest.min(count), most.max(count))
    })
}

/// The choice of `candidates[index]` for its few requests.
fn least_loaded(candidates: &[Candidate], index: usize) -> Choice {
    let Candidate {
        in_flight, slots, ..
    } = candidates[index];
    Choice {
        index,
        reason: Reason::LeastLoaded { in_flight, slots },
    }
}

/// The choice of `candidates[index]` for what it holds of the prompt.
fn holder(candidates: &[Candidate], index: usize) -> Choice {
    Choice {
        index,
        reason: Reason::LowestCost {
            cost: -f64::from(candidates[index].overlap_blocks),
        },
    }
}
