//! LPWL, least prefill work left: the worker that reaches this request's first token with
//! the least computing (agentic-kvc study, 2026; Llumnix and others weigh the same).
//!
//! ```text
//! cost = pending prefill tokens + uncached tokens of the prompt      ties: fewer requests
//! ```
//!
//! No parameters. Ours is the whole rule.

use contract::random::Random;
use router::{Candidate, Choice, Policy, RequestView};

use super::{by_requests, cheapest};

#[derive(Debug)]
pub struct Lpwl;

impl Lpwl {
    pub const NAME: &'static str = "lpwl";
}

/// Prompt tokens that the worker would compute until this request's first token.
pub(super) fn prefill_tokens(request: &RequestView<'_>, candidate: &Candidate) -> f64 {
    candidate.pending_prefill_tokens as f64 + f64::from(candidate.uncached_tokens(request))
}

impl Policy for Lpwl {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut [Candidate],
        draws: &mut Random,
    ) -> Choice {
        cheapest(
            candidates,
            |candidate| prefill_tokens(request, candidate),
            by_requests,
            draws,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::tests::{Worker, check};

    #[test]
    fn the_least_prefill_work_wins_and_requests_break_ties() {
        let worker = Worker::default();
        // 100 blocks of 32 tokens are asked for.
        let warm = Worker {
            overlap: 50,
            ..worker
        };
        check(&mut Lpwl, &[worker, warm], 1);
        // 1,600 tokens saved against 1,600 pending are even, one more is not.
        let pending = |pending| Worker { pending, ..warm };
        check(&mut Lpwl, &[pending(1599), worker], 0);
        check(&mut Lpwl, &[pending(1601), worker], 1);
        // However many requests the worker has: the rule does not weigh them.
        check(
            &mut Lpwl,
            &[
                Worker {
                    in_flight: 500,
                    ..warm
                },
                worker,
            ],
            0,
        );
        check(
            &mut Lpwl,
            &[
                Worker {
                    in_flight: 2,
                    ..worker
                },
                Worker {
                    in_flight: 1,
                    ..worker
                },
            ],
            1,
        );
    }
}
