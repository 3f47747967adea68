//! The numbers under which pages know workers.
//!
//! Ids of some workers are drawn from all 64 bits: nobody can say them, tell neighbours apart or
//! give them colours. So every worker has a small number too. Pages that show one console
//! show the same numbers, and a worker keeps its own while it stays.

use std::collections::{BTreeMap, BTreeSet};

use contract::WorkerId;

use crate::state::WorkerState;

/// Ids below this are counted by somebody, and are numbers that people know already.
const FIRST_DRAWN: u64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct WorkerNumbers {
    numbers: BTreeMap<WorkerId, u32>,
}

impl WorkerNumbers {
    /// Numbers the workers: one whose id is small has that number if it is free, others have
    /// the smallest from 1 that is. The number of a worker that has left is free again.
    pub(crate) fn assign(&mut self, workers: &mut [WorkerState]) {
        let present: BTreeSet<WorkerId> = workers.iter().map(|worker| worker.id).collect();
        self.numbers.retain(|id, _| present.contains(id));
        let mut taken: BTreeSet<u32> = self.numbers.values().copied().collect();
        for &id in &present {
            self.numbers.entry(id).or_insert_with(|| {
                let own = u32::try_from(id.0).ok();
                let own = own.filter(|own| id.0 < FIRST_DRAWN && !taken.contains(own));
                let next = || (1..).find(|number| !taken.contains(number));
                let number = own.or_else(next).unwrap_or(u32::MAX);
                taken.insert(number);
                number
            });
        }
        for worker in workers {
            worker.number = self.numbers.get(&worker.id).copied().unwrap_or_default();
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
    fn check(numbers: &mut WorkerNumbers, ids: &[u64], expected: &[u32]) {
        let mut workers: Vec<WorkerState> = ids.iter().copied().map(worker).collect();
        numbers.assign(&mut workers);
        let numbers: Vec<u32> = workers.iter().map(|worker| worker.number).collect();
        assert_eq!(numbers, expected, "{ids:?}");
    }

    #[test]
    fn counted_workers_have_their_own_numbers() {
        let mut numbers = WorkerNumbers::default();
        check(&mut numbers, &[0, 1, 2], &[0, 1, 2]);
        check(&mut numbers, &[2, 7], &[2, 7]);
    }

    /// A float makes one number of these.
    #[test]
    fn drawn_workers_are_counted_and_keep_their_numbers() {
        const FIRST: u64 = 7_587_899_007_311_003_142;
        let mut numbers = WorkerNumbers::default();
        check(&mut numbers, &[FIRST, FIRST + 2, FIRST + 4], &[1, 2, 3]);
        check(&mut numbers, &[FIRST - 2, FIRST + 2, FIRST + 4], &[1, 2, 3]);
        check(&mut numbers, &[u64::MAX, FIRST + 2], &[1, 2]);
        check(&mut numbers, &[u64::MAX, 5, FIRST + 2], &[1, 5, 2]);
    }
}
