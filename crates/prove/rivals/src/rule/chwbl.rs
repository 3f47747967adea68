//! CHWBL, consistent hashing with bounded loads (KubeAI): prompts that begin alike go the
//! same way round a ring, past workers that have too much already.
//!
//! The ring has 256 points for each worker. A request begins at the hash of its prompt's
//! beginning and takes the first worker that would have at most 1.25 times the mean number
//! of requests, this one included on both sides; on an idle fleet, the first worker. If
//! there is none, the first worker all the same.
//!
//! It looks at no cache: that equal beginnings meet is how it gets reuse. The beginning is
//! 256 tokens, in full blocks, as in SMG's `prefix_hash`; KubeAI itself takes 100 characters.
//! Prompts shorter than a block begin at a random point. Other hash functions than the
//! original's, so single prompts go elsewhere.

use contract::WorkerId;
use contract::random::{Random, mix};
use router::{Candidate, Choice, Policy, Reason, RequestView};

const LOAD: f64 = 1.25;
const POINTS: u64 = 256;
const BEGINNING_TOKENS: u32 = 256;
/// Keeps the ring apart from other users of the hash.
const RING: u64 = 0x0c8a_b1e5;

#[derive(Debug, Default)]
pub struct Chwbl {
    /// In ascending order of point. Rebuilt when the workers change.
    ring: Vec<(u64, WorkerId)>,
    workers: Vec<WorkerId>,
}

impl Chwbl {
    pub const NAME: &'static str = "chwbl";

    fn set_workers(&mut self, candidates: &[Candidate]) {
        let workers = candidates.iter().map(|candidate| candidate.worker);
        if workers.clone().eq(self.workers.iter().copied()) {
            return;
        }
        self.workers = workers.collect();
        self.ring.clear();
        for &worker in &self.workers {
            let points = (0..POINTS).map(|point| (mix(RING, worker.0, point), worker));
            self.ring.extend(points);
        }
        self.ring.sort_unstable();
    }

    /// The workers in the order in which a walk from `start` meets them, some repeatedly.
    fn walk(&self, start: u64) -> impl Iterator<Item = WorkerId> {
        let (before, after) = self
            .ring
            .split_at(self.ring.partition_point(|(point, _)| *point < start));
        after.iter().chain(before).map(|(_, worker)| *worker)
    }
}

impl Policy for Chwbl {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(
        &mut self,
        request: &RequestView<'_>,
        candidates: &mut [Candidate],
        draws: &mut Random,
    ) -> Choice {
        self.set_workers(candidates);
        let start = beginning(request).unwrap_or_else(|| draws.next_u64());
        let total: u32 = candidates.iter().map(|one| one.in_flight).sum();
        let bound = LOAD * f64::from(total + 1) / candidates.len() as f64;
        let position = |worker: WorkerId| {
            candidates
                .binary_search_by_key(&worker, |candidate| candidate.worker)
                .expect("the ring holds the candidates")
        };
        let mut walk = self.walk(start).map(position);
        let first = walk.next().expect("there is a candidate");
        let is_open =
            |index: &usize| total == 0 || f64::from(candidates[*index].in_flight + 1) <= bound;
        let open = std::iter::once(first).chain(walk).find(is_open);
        let index = open.unwrap_or(first);
        let Candidate {
            in_flight, slots, ..
        } = candidates[index];
        Choice {
            index,
            reason: Reason::LeastLoaded { in_flight, slots },
        }
    }
}

/// The hash of the prompt's first blocks.
fn beginning(request: &RequestView<'_>) -> Option<u64> {
    let blocks = (BEGINNING_TOKENS / request.block_size).max(1) as usize;
    let last = request.chain.len().min(blocks).checked_sub(1)?;
    Some(request.chain[last].0)
}

#[cfg(test)]
mod tests {
    use contract::BlockHash;

    use super::*;
    use crate::rule::tests::{REQUEST, Worker, candidates};

    fn chosen(policy: &mut Chwbl, chain: &[u64], in_flight: &[u32]) -> usize {
        let chain: Vec<_> = chain.iter().map(|&hash| BlockHash(hash)).collect();
        let request = RequestView {
            chain: &chain,
            ..REQUEST
        };
        let workers = in_flight.iter().map(|&in_flight| Worker {
            in_flight,
            ..Worker::default()
        });
        let mut candidates = candidates(&workers.collect::<Vec<_>>());
        policy
            .choose(&request, &mut candidates, &mut Random::new(1))
            .index
    }

    fn prompt(number: u64) -> [u64; 9] {
        std::array::from_fn(|block| mix(3, number, block as u64))
    }

    #[test]
    fn prompts_that_begin_alike_meet() {
        let policy = &mut Chwbl::default();
        let mut homes = [0_u32; 3];
        for number in 0..3000 {
            let home = chosen(policy, &prompt(number), &[0; 3]);
            homes[home] += 1;
            // What comes after 256 tokens, eight blocks, does not matter.
            let mut other = prompt(number);
            other[8] += 1;
            assert_eq!(chosen(policy, &other, &[0; 3]), home);
        }
        assert!(homes.iter().all(|&home| home > 800), "{homes:?}");
    }

    #[test]
    fn a_worker_beyond_its_bound_is_passed_by() {
        let policy = &mut Chwbl::default();
        let at_home = (0..).find(|&number| chosen(policy, &prompt(number), &[0; 2]) == 0);
        let prompt = prompt(at_home.unwrap());
        // 1.25 × (20 + 20 + 1) ÷ 2 is 25.6.
        assert_eq!(chosen(policy, &prompt, &[24, 16]), 0);
        assert_eq!(chosen(policy, &prompt, &[25, 15]), 1);
        // Nobody has room within 1.25 × 2 ÷ 2.
        assert_eq!(chosen(policy, &prompt, &[0, 1]), 0);
    }

    #[test]
    fn most_prompts_stay_when_a_worker_joins() {
        let policy = &mut Chwbl::default();
        let moved = (0..2000).filter(|&number| {
            let before = chosen(policy, &prompt(number), &[0; 3]);
            before != chosen(policy, &prompt(number), &[0; 4])
        });
        let moved = moved.count();
        assert!((300..700).contains(&moved), "{moved} of 2000");
    }
}
