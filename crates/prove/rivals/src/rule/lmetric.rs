//! LMetric: a prompt's computing disturbs everyone in the batch, so the two are multiplied
//! (arXiv 2603.15202).
//!
//! ```text
//! cost = (pending + uncached prefill tokens) × (requests + 1)      ties: fewer requests
//! ```
//!
//! No parameters. The paper's summary has new prefill tokens times batch size; that pending
//! prefill counts as new, and that the request itself counts in the batch, is our reading:
//! without them every idle worker would cost nothing, holder of the prefix or not. Its
//! detector of rare failure conditions is left out.

use contract::random::Random;
use router::{Candidate, Choice, Policy, RequestView};

use super::lpwl::prefill_tokens;
use super::{by_requests, cheapest};

#[derive(Debug)]
pub struct Lmetric;

impl Lmetric {
    pub const NAME: &'static str = "lmetric";
}

impl Policy for Lmetric {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut [Candidate],
        draws: &mut Random,
    ) -> Choice {
        let cost = |candidate: &Candidate| {
            prefill_tokens(request, candidate) * f64::from(candidate.in_flight + 1)
        };
        cheapest(candidates, cost, by_requests, draws)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::tests::{Worker, check};

    #[test]
    fn prefill_times_batch_is_least() {
        let with = |overlap, in_flight| Worker {
            overlap,
            in_flight,
            ..Worker::default()
        };
        // 100 blocks on an idle worker against 50 blocks beside one request: even.
        check(&mut Lmetric, &[with(0, 0), with(49, 1)], 0);
        check(&mut Lmetric, &[with(0, 0), with(51, 1)], 1);
        check(&mut Lmetric, &[with(51, 1), with(51, 2)], 0);
        // A whole prompt saved is worth any batch.
        check(&mut Lmetric, &[with(0, 0), with(99, 90)], 1);
        let pending = Worker {
            pending: 3200,
            ..with(99, 0)
        };
        check(&mut Lmetric, &[pending, with(0, 0)], 1);
        // An idle worker with the prefix goes before an idle one without.
        check(&mut Lmetric, &[with(0, 0), with(1, 0)], 1);
    }
}
