//! Workers to start from in the rules' tables.

use contract::WorkerId;
use router::learn::{Learner, Priors};
use router::{Policy, RequestView};

use super::*;

/// 100 full blocks.
pub(crate) const REQUEST: RequestView<'_> = RequestView {
    prompt_tokens: 3200,
    chain: &[],
    blocks: 100,
    block_size: 32,
    full_holder: None,
    session_worker: None,
};

/// What the tables vary.
#[derive(Clone, Copy, Default)]
pub(crate) struct Worker {
    pub(crate) in_flight: u32,
    /// Leading blocks of the prompt that it holds.
    pub(crate) overlap: u32,
    /// Of those, in use by running requests.
    pub(crate) shared: u32,
    /// All blocks in use.
    pub(crate) in_use: u32,
    /// Tokens to compute for running requests.
    pub(crate) pending: u64,
}

pub(crate) fn candidates(workers: &[Worker]) -> Vec<Candidate> {
    let candidate = |(index, worker): (usize, &Worker)| {
        let cached_tokens = worker.overlap.min(99) * REQUEST.block_size;
        let uncached = u64::from(REQUEST.prompt_tokens - cached_tokens);
        Candidate {
            worker: WorkerId(index as u64),
            slots: 64,
            in_flight: worker.in_flight,
            overlap_blocks: worker.overlap,
            cached_tokens,
            pending_prefill_tokens: worker.pending,
            pending_requests: 0,
            prefill_blocks: (worker.pending + uncached) as f64 / f64::from(REQUEST.block_size),
            decode_blocks: worker.in_use,
            new_blocks: REQUEST.blocks - worker.shared,
            total_blocks: 0,
            confirmed_blocks: worker.overlap,
            cache_full: false,
            outlook: Learner::new(&Priors::default()).outlook(),
            terms: None,
            cost: None,
        }
    };
    workers.iter().enumerate().map(candidate).collect()
}

/// How often each worker is chosen.
pub(crate) fn wins(policy: &mut dyn Policy, workers: &[Worker], times: u32) -> Vec<u32> {
    let mut draws = Random::new(7);
    let mut wins = vec![0; workers.len()];
    for _ in 0..times {
        let choice = policy.choose(&REQUEST, &mut candidates(workers), &mut draws);
        wins[choice.index] += 1;
    }
    wins
}

/// One worker wins whatever is drawn.
#[track_caller]
pub(crate) fn check(policy: &mut dyn Policy, workers: &[Worker], expected: usize) {
    let wins = wins(policy, workers, 32);
    assert_eq!(wins[expected], 32, "{wins:?}");
}

#[test]
fn those_that_are_alike_are_equally_likely() {
    let workers = candidates(&[Worker::default(); 4]);
    let mut draws = Random::new(5);
    let mut wins = [0_u32; 4];
    for _ in 0..4000 {
        let part = |candidate: &Candidate| candidate.worker != WorkerId(1);
        wins[first(&workers, part, by_requests, &mut draws).unwrap()] += 1;
    }
    assert_eq!(wins[1], 0);
    let others = [wins[0], wins[2], wins[3]];
    assert!(
        others.iter().all(|&wins| wins.abs_diff(1333) < 150),
        "{wins:?}"
    );
    assert_eq!(first(&workers, |_| false, by_requests, &mut draws), None);
}
