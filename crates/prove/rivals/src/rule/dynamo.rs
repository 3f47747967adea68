//! Dynamo's default selector (version 1.6.1): blocks to compute plus blocks in use.
//!
//! ```text
//! cost = prefill_load_scale × max(0, (active prefill tokens + prompt tokens) ÷ block − overlap)
//!      + blocks in use with this request                            ties: any
//! ```
//!
//! Defaults: prefill_load_scale 1, overlap credit 1 without decay, temperature 0, no weight
//! on the number of requests, no queue. An uncached block counts in both terms, as there.
//!
//! Our `kv-blocks` is the older formula, which leaves this request's own blocks out of the
//! second term. Simpler here: one tier of memory; generated tokens are no blocks in use
//! (off by default there too); and the overlap includes blocks that running requests are
//! about to store, which Dynamo knows only with its optional prediction.

use std::cmp::Ordering;

use contract::random::Random;
use router::{Candidate, Choice, Policy, RequestView};

use super::cheapest;

const PREFILL_LOAD_SCALE: f64 = 1.0;

#[derive(Debug)]
pub struct Dynamo;

impl Dynamo {
    pub const NAME: &'static str = "dynamo";
}

impl Policy for Dynamo {
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
            let tokens = candidate.pending_prefill_tokens + u64::from(request.prompt_tokens);
            let blocks = tokens as f64 / f64::from(request.block_size);
            let prefill = (blocks - f64::from(candidate.overlap_blocks)).max(0.0);
            let decode = candidate.decode_blocks + candidate.new_blocks;
            PREFILL_LOAD_SCALE * prefill + f64::from(decode)
        };
        cheapest(candidates, cost, |_, _| Ordering::Equal, draws)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::tests::{Worker, check, wins};

    #[test]
    fn prefill_and_decode_blocks_are_added() {
        let with = |overlap, in_use| Worker {
            overlap,
            in_use,
            ..Worker::default()
        };
        check(&mut Dynamo, &[with(0, 0), with(40, 39)], 1);
        check(&mut Dynamo, &[with(0, 0), with(40, 41)], 0);
        // Blocks that a request there already uses are not added again: 40 saved twice.
        let shared = |in_use| Worker {
            shared: 40,
            ..with(40, in_use)
        };
        check(&mut Dynamo, &[with(0, 0), shared(79)], 1);
        check(&mut Dynamo, &[with(0, 0), shared(81)], 0);
        // A block has 32 tokens.
        let pending = |pending| Worker {
            pending,
            ..with(40, 0)
        };
        check(&mut Dynamo, &[with(0, 0), pending(39 * 32)], 1);
        check(&mut Dynamo, &[with(0, 0), pending(41 * 32)], 0);
    }

    #[test]
    fn requests_do_not_count_and_ties_go_to_chance() {
        let busy = Worker {
            in_flight: 60,
            ..Worker::default()
        };
        let wins = wins(&mut Dynamo, &[Worker::default(), busy], 1000);
        assert!(wins[0].abs_diff(wins[1]) < 150, "{wins:?}");
    }
}
