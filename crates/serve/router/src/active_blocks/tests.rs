//! Stretches against one count per block and slot.

use std::collections::{BTreeMap, BTreeSet};

use contract::random::mix;
use proptest::prelude::*;

use super::*;

const SLOTS: usize = 3;

fn chain(path: &[u8]) -> Vec<BlockHash> {
    let mut parent = 1;
    let step = |&step: &u8| {
        parent = mix(3, parent, u64::from(step));
        BlockHash(parent)
    };
    path.iter().map(step).collect()
}

fn blocks() -> ActiveBlocks {
    let mut blocks = ActiveBlocks::default();
    blocks.reserve_slots(SLOTS);
    blocks
}

fn overlap(blocks: &ActiveBlocks, chain: &[BlockHash]) -> Vec<u32> {
    let mut depths = vec![u32::MAX; SLOTS];
    blocks.overlap(chain, &mut depths);
    depths
}

/// The obvious structure: the running requests. Everything else is reckoned from them.
#[derive(Debug, Default)]
struct Naive {
    under_way: Vec<(usize, Vec<BlockHash>)>,
}

impl Naive {
    fn counts(&self) -> BTreeMap<(usize, BlockHash), u32> {
        let mut counts = BTreeMap::new();
        for (slot, chain) in &self.under_way {
            for &block in chain {
                *counts.entry((*slot, block)).or_default() += 1;
            }
        }
        counts
    }

    /// Where a request ends or two part: more stretches than that are never needed.
    fn most_stretches(&self) -> usize {
        let mut next: BTreeMap<Option<BlockHash>, BTreeSet<BlockHash>> = BTreeMap::new();
        let mut ends: BTreeSet<BlockHash> = BTreeSet::new();
        for (_, chain) in &self.under_way {
            ends.extend(chain.last());
            let mut parent = None;
            for &block in chain {
                next.entry(parent).or_default().insert(block);
                parent = Some(block);
            }
        }
        let parts = |block: &BlockHash| next.get(&Some(*block)).is_none_or(|next| next.len() > 1);
        let blocks: BTreeSet<BlockHash> = next.values().flatten().copied().collect();
        blocks
            .iter()
            .filter(|block| ends.contains(block) || parts(block))
            .count()
    }

    fn check(&self, blocks: &ActiveBlocks, asked: &[BlockHash]) -> Result<(), TestCaseError> {
        let counts = self.counts();
        for slot in 0..SLOTS {
            let used = counts.keys().filter(|(owner, _)| *owner == slot).count();
            prop_assert_eq!(blocks.count(slot), used);
        }
        let distinct: BTreeSet<BlockHash> = counts.keys().map(|&(_, block)| block).collect();
        prop_assert_eq!(blocks.len(), distinct.len());
        prop_assert_eq!(blocks.is_empty(), distinct.is_empty());
        let sound = |stretch: &Stretch| !stretch.blocks.is_empty() && !stretch.users.is_empty();
        prop_assert!(blocks.stretches.values().all(sound));
        let depth = |slot| {
            let in_use = |block: &&BlockHash| counts.contains_key(&(slot, **block));
            asked.iter().take_while(in_use).count() as u32
        };
        let depths: Vec<u32> = (0..SLOTS).map(depth).collect();
        prop_assert_eq!(overlap(blocks, asked), depths);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Acquire { slot: usize, path: Vec<u8> },
    Release { which: prop::sample::Index },
    Forget { slot: usize },
}

/// Runs of equal steps, so that chains are long and part seldom.
fn paths() -> impl Strategy<Value = Vec<u8>> {
    let run = (0_u8..2, 1..9_usize);
    prop::collection::vec(run, 0..6).prop_map(|runs| {
        let steps = |(step, length)| std::iter::repeat_n(step, length);
        runs.into_iter().flat_map(steps).collect()
    })
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        9 => (0..SLOTS, paths()).prop_map(|(slot, path)| Operation::Acquire { slot, path }),
        8 => any::<prop::sample::Index>().prop_map(|which| Operation::Release { which }),
        1 => (0..SLOTS).prop_map(|slot| Operation::Forget { slot }),
    ]
}

proptest! {
    #[test]
    fn counts_and_depths_agree_with_a_count_per_block(
        operations in prop::collection::vec(operations(), 0..60),
        asked in prop::collection::vec(paths(), 60),
    ) {
        let (mut blocks, mut naive) = (blocks(), Naive::default());
        for (operation, asked) in operations.into_iter().zip(asked) {
            match operation {
                Operation::Acquire { slot, path } => {
                    let chain = chain(&path);
                    blocks.acquire(slot, &chain);
                    naive.under_way.push((slot, chain));
                }
                Operation::Release { which } if !naive.under_way.is_empty() => {
                    let which = which.index(naive.under_way.len());
                    let (slot, chain) = naive.under_way.swap_remove(which);
                    blocks.release(slot, &chain);
                    naive.check(&blocks, &chain)?;
                }
                Operation::Release { .. } => {}
                Operation::Forget { slot } => {
                    blocks.forget(slot);
                    naive.under_way.retain(|(owner, _)| *owner != slot);
                }
            }
            naive.check(&blocks, &chain(&asked))?;
        }
        for (slot, chain) in naive.under_way {
            blocks.release(slot, &chain);
        }
        prop_assert!(blocks.is_empty());
    }

    /// What was cut grows together: once every chain has been walked again, there are only
    /// the stretches that the chains themselves make necessary.
    #[test]
    fn pieces_do_not_pile_up(
        passing in prop::collection::vec((0..SLOTS, paths()), 0..30),
        staying in prop::collection::vec((0..SLOTS, paths()), 0..8),
    ) {
        let (mut blocks, mut naive) = (blocks(), Naive::default());
        let chains = |paths: Vec<(usize, Vec<u8>)>| -> Vec<_> {
            paths.into_iter().map(|(slot, path)| (slot, chain(&path))).collect()
        };
        let passing = chains(passing);
        naive.under_way = chains(staying);
        for (slot, chain) in passing.iter().chain(&naive.under_way) {
            blocks.acquire(*slot, chain);
        }
        for (slot, chain) in &passing {
            blocks.release(*slot, chain);
        }
        for (slot, chain) in &naive.under_way {
            blocks.acquire(*slot, chain);
            blocks.release(*slot, chain);
        }
        prop_assert!(blocks.stretches.len() <= naive.most_stretches());
        naive.check(&blocks, &[])?;
    }

    /// Hashes that collide may leave something behind, but only until the worker is idle,
    /// and other workers' books are not touched.
    #[test]
    fn chains_that_are_none_do_no_lasting_harm(
        requests in prop::collection::vec(
            (0..SLOTS, prop::collection::vec(0_u64..12, 0..8), any::<bool>()),
            0..40,
        ),
    ) {
        let mut blocks = blocks();
        for (slot, hashes, release) in requests {
            let chain: Vec<BlockHash> = hashes.into_iter().map(BlockHash).collect();
            if release {
                blocks.release(slot, &chain);
            } else {
                blocks.acquire(slot, &chain);
            }
            overlap(&blocks, &chain);
        }
        for slot in 0..SLOTS {
            blocks.forget(slot);
            prop_assert_eq!(blocks.count(slot), 0);
        }
        prop_assert!(blocks.is_empty());
    }
}

#[test]
fn shared_blocks_count_once_and_stay_while_anyone_needs_them() {
    let mut blocks = blocks();
    let (long, short) = (chain(&[0, 0, 0]), chain(&[0, 1]));
    blocks.acquire(0, &long);
    blocks.acquire(0, &short);
    blocks.acquire(0, &short);
    assert_eq!(blocks.count(0), 4);
    blocks.release(0, &long);
    assert_eq!(blocks.count(0), 2);
    blocks.release(0, &short);
    assert_eq!(blocks.count(0), 2);
    blocks.release(0, &short);
    assert!(blocks.is_empty());
}

#[test]
fn a_worker_that_is_forgotten_leaves_nothing_behind() {
    let mut blocks = blocks();
    for slot in [0, 0, 1] {
        blocks.acquire(slot, &chain(&[0, 1]));
    }
    blocks.forget(0);
    assert_eq!((blocks.count(0), blocks.count(1)), (0, 2));
    // The later release of a forgotten request finds nothing and takes nothing.
    blocks.release(0, &chain(&[0, 1]));
    assert_eq!(blocks.count(1), 2);
    blocks.release(1, &chain(&[0, 1]));
    assert!(blocks.is_empty());
}
