//! The numbers under which pages know workers.
//!
//! Ids of some workers are drawn from all 64 bits: nobody can say them, tell neighbours apart or
//! give them colours. So every worker has a small number too. Pages that show one console
//! show the same numbers, and a worker keeps its own while it stays, and for a while after that: a
//! server that could not be asked once has no workers for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::{Moment, WorkerId};

use crate::state::WorkerState;

/// Ids below this are counted by somebody, and are numbers that people know already.
const FIRST_DRAWN: u64 = 1_000;
/// For so long nobody else gets the number of a worker that has left.
const KEPT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct WorkerNumbers {
    numbers: BTreeMap<WorkerId, Numbered>,
}

#[derive(Debug)]
struct Numbered {
    number: u32,
    seen: Moment,
}

impl WorkerNumbers {
    /// Numbers the workers: one whose id is small has that number if it is free, others have
    /// the smallest from 1 that is.
    pub(crate) fn assign(&mut self, workers: &mut [WorkerState], now: Moment) {
        let present: BTreeSet<WorkerId> = workers.iter().map(|worker| worker.id).collect();
        self.numbers
            .retain(|id, of| present.contains(id) || now.since(of.seen) < KEPT);
        let mut taken: BTreeSet<u32> = self.numbers.values().map(|of| of.number).collect();
        for &id in &present {
            let of = self.numbers.entry(id).or_insert_with(|| {
                let own = u32::try_from(id.0).ok();
                let own = own.filter(|own| id.0 < FIRST_DRAWN && !taken.contains(own));
                let next = || (1..).find(|number| !taken.contains(number));
                let number = own.or_else(next).unwrap_or(u32::MAX);
                taken.insert(number);
                Numbered { number, seen: now }
            });
            of.seen = of.seen.max(now);
        }
        for worker in workers {
            worker.number = self.numbers.get(&worker.id).map_or(0, |of| of.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use contract::{Abilities, BlockFormat, GpuSpec, ModelName, WorkerCard, WorkerStatus};

    use super::*;

    fn worker(id: u64) -> WorkerState {
        let card = WorkerCard {
            id: WorkerId(id),
            name: format!("worker-{id}"),
            model: ModelName::new("m"),
            blocks: BlockFormat::new(32),
            total_blocks: 100,
            slots: 4,
            max_step_tokens: 512,
            max_context_tokens: 4096,
            gpu: GpuSpec {
                kind: "GPU".to_owned(),
                count: 1,
                memory_bytes: 1,
            },
            engine: "test".to_owned(),
            simulated: true,
            abilities: Abilities::default(),
            speculation: "none".to_owned(),
            forwards: Vec::new(),
            adapters: Vec::new(),
        };
        WorkerState::new(&card, &WorkerStatus::default())
    }

    #[track_caller]
    fn check(numbers: &mut WorkerNumbers, second: u64, ids: &[u64], expected: &[u32]) {
        let mut workers: Vec<WorkerState> = ids.iter().copied().map(worker).collect();
        numbers.assign(&mut workers, Moment::ZERO + Duration::from_secs(second));
        let numbers: Vec<u32> = workers.iter().map(|worker| worker.number).collect();
        assert_eq!(numbers, expected, "{ids:?} in second {second}");
    }

    #[test]
    fn counted_workers_have_their_own_numbers() {
        let mut numbers = WorkerNumbers::default();
        check(&mut numbers, 0, &[0, 1, 2], &[0, 1, 2]);
        check(&mut numbers, 1, &[2, 7], &[2, 7]);
    }

    /// A float makes one number of these.
    #[test]
    fn drawn_workers_are_counted_and_keep_their_numbers() {
        const FIRST: u64 = 7_587_899_007_311_003_142;
        let mut numbers = WorkerNumbers::default();
        check(&mut numbers, 0, &[FIRST, FIRST + 2, FIRST + 4], &[1, 2, 3]);
        check(
            &mut numbers,
            60,
            &[FIRST - 2, FIRST + 2, FIRST + 4],
            &[1, 2, 3],
        );
        check(&mut numbers, 120, &[u64::MAX, FIRST + 2], &[1, 2]);
        check(&mut numbers, 121, &[u64::MAX, 5, FIRST + 2], &[1, 5, 2]);
    }

    #[test]
    fn a_worker_that_was_away_for_a_moment_has_its_number_back() {
        const EARLY: u64 = 5_000_000_000_000_000_000;
        let mut numbers = WorkerNumbers::default();
        check(&mut numbers, 0, &[EARLY], &[1]);
        check(&mut numbers, 10, &[EARLY - 1, EARLY], &[2, 1]);
        check(&mut numbers, 20, &[], &[]);
        check(&mut numbers, 21, &[EARLY - 1, EARLY], &[2, 1]);
        check(&mut numbers, 30, &[EARLY], &[1]);
        check(&mut numbers, 80, &[EARLY, 1], &[1, 3]);
    }
}
