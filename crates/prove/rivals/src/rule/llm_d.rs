//! llm-d "sticky until saturated": the prefix-affinity filter, then the token-load scorer.
//!
//! 1. Workers that hold at least 0.80 of the prompt's blocks are sticky. If there are some,
//!    only they take part, unless the best of them would take 18 s longer to the first token
//!    than the best of the others, at 15,928 prompt tokens per second.
//! 2. Of those that take part, the fewest tokens to compute, in flight and of this request;
//!    beyond 4,194,304 all count the same. Ties go to chance.
//!
//! Tokens in flight are uncached prompt tokens until the first token, as there: a worker
//! that only decodes has none. Simpler here: the index is exact and without delay; the
//! speed is the published one, though an operator may measure his own.

use std::cmp::Ordering;

use contract::random::Random;
use router::{Candidate, Choice, Policy, RequestView};

use super::first;
use super::lpwl::prefill_tokens;

const AFFINITY: f64 = 0.80;
/// Prompt tokens per second. Qwen 32B on two H100, by the project's own measurement.
const PEAK_PREFILL: f64 = 15_928.0;
const MOST_PENALTY_SECONDS: f64 = 18.0;
const MOST_TOKENS: f64 = 4_194_304.0;

#[derive(Debug)]
pub struct LlmD;

impl LlmD {
    pub const NAME: &'static str = "llm-d";
}

impl Policy for LlmD {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut [Candidate],
        draws: &mut Random,
    ) -> Choice {
        for candidate in &mut *candidates {
            candidate.cost = Some(prefill_tokens(request, candidate).min(MOST_TOKENS));
        }
        let sticky = |candidate: &Candidate| is_sticky(request, candidate);
        let sticks = sticks(candidates, sticky);
        let takes_part = |candidate: &Candidate| !sticks || sticky(candidate);
        let index = first(candidates, takes_part, by_tokens, draws).expect("there is a candidate");
        Choice {
            index,
            reason: router::Reason::LowestCost {
                cost: candidates[index].cost.unwrap_or_default(),
            },
        }
    }
}

fn is_sticky(request: &RequestView<'_>, candidate: &Candidate) -> bool {
    request.blocks > 0
        && f64::from(candidate.overlap_blocks) >= AFFINITY * f64::from(request.blocks)
}

/// Whether only sticky workers take part.
fn sticks(candidates: &[Candidate], sticky: impl Fn(&Candidate) -> bool) -> bool {
    let best = |of_sticky: bool| {
        let group = candidates.iter().filter(|one| sticky(one) == of_sticky);
        let seconds = group.map(|one| one.pending_prefill_tokens as f64 / PEAK_PREFILL);
        seconds.min_by(f64::total_cmp)
    };
    match (best(true), best(false)) {
        (Some(sticky), Some(other)) => sticky - other <= MOST_PENALTY_SECONDS,
        (sticky, _) => sticky.is_some(),
    }
}

fn by_tokens(left: &Candidate, right: &Candidate) -> Ordering {
    let tokens = |candidate: &Candidate| candidate.cost.expect("every candidate was weighed");
    tokens(left).total_cmp(&tokens(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::tests::{Worker, check};

    fn with(overlap: u32, pending: u64) -> Worker {
        Worker {
            overlap,
            pending,
            ..Worker::default()
        }
    }

    #[test]
    fn a_worker_with_most_of_the_prompt_keeps_it_until_saturated() {
        // 20 more blocks to compute and all that is pending: sticky all the same.
        check(&mut LlmD, &[with(80, 280_000), with(0, 0)], 0);
        check(&mut LlmD, &[with(80, 286_704), with(0, 0)], 0);
        check(&mut LlmD, &[with(80, 286_705), with(0, 0)], 1);
        // What counts is the difference to the others.
        check(&mut LlmD, &[with(80, 286_705), with(0, 100)], 0);
        // Requests do not count.
        let decoding = Worker {
            in_flight: 90,
            ..with(80, 0)
        };
        check(&mut LlmD, &[decoding, with(0, 0)], 0);
    }

    #[test]
    fn otherwise_the_fewest_tokens_win() {
        check(&mut LlmD, &[with(79, 3000), with(0, 0)], 1);
        check(&mut LlmD, &[with(79, 2000), with(0, 0)], 0);
        // Among sticky workers too.
        check(&mut LlmD, &[with(99, 700), with(80, 0)], 1);
        check(&mut LlmD, &[with(99, 500), with(80, 0)], 0);
    }
}
