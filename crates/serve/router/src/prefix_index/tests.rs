//! The index against one plain set per slot.

use std::collections::BTreeSet;

use contract::random::mix;
use proptest::prelude::*;

use super::*;

/// Spans two pages, so that the boundary is always exercised.
const SLOTS: usize = 70;

/// The block at the end of a path through a tree of prompts.
fn block(path: &[u8]) -> BlockHash {
    BlockHash(
        path.iter()
            .fold(1, |parent, &step| mix(7, parent, u64::from(step))),
    )
}

fn chain(path: &[u8]) -> Vec<BlockHash> {
    (1..=path.len())
        .map(|depth| block(&path[..depth]))
        .collect()
}

/// The obvious structure: what each slot holds, as paths.
#[derive(Debug)]
struct Naive {
    held: Vec<BTreeSet<Vec<u8>>>,
}

impl Naive {
    fn new() -> Self {
        Self {
            held: vec![BTreeSet::new(); SLOTS],
        }
    }

    fn overlap(&self, path: &[u8]) -> Vec<u32> {
        let depth = |held: &BTreeSet<Vec<u8>>| {
            (1..=path.len())
                .take_while(|&depth| held.contains(&path[..depth]))
                .count() as u32
        };
        self.held.iter().map(depth).collect()
    }

    /// The `pick`-th block without a held child: what a leaf-first engine may evict.
    fn leaf(&self, slot: usize, pick: usize) -> Option<Vec<u8>> {
        let held = &self.held[slot];
        let is_leaf = |path: &&Vec<u8>| {
            !held
                .iter()
                .any(|other| other.len() > path.len() && other.starts_with(path))
        };
        let leaves: Vec<&Vec<u8>> = held.iter().filter(is_leaf).collect();
        leaves
            .get(pick % leaves.len().max(1))
            .map(|path| (*path).clone())
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Store { slot: usize, path: Vec<u8> },
    EvictLeaf { slot: usize, pick: usize },
    Forget { slot: usize },
}

fn slots() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![0_usize, 1, 2, 63, 64, SLOTS - 1])
}

fn paths(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0_u8..2, 0..=longest)
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (slots(), paths(20)).prop_map(|(slot, path)| Operation::Store { slot, path }),
        8 => (slots(), any::<usize>())
            .prop_map(|(slot, pick)| Operation::EvictLeaf { slot, pick }),
        1 => slots().prop_map(|slot| Operation::Forget { slot }),
    ]
}

fn index() -> PrefixIndex {
    let mut index = PrefixIndex::default();
    index.reserve_slots(SLOTS);
    index
}

fn overlap(index: &PrefixIndex, chain: &[BlockHash]) -> Vec<u32> {
    let mut depths = vec![u32::MAX; SLOTS];
    index.overlap(chain, &mut depths);
    depths
}

proptest! {
    #[test]
    fn lookups_agree_with_a_set_per_slot(
        operations in prop::collection::vec(operations(), 0..60),
        extra in prop::collection::vec(paths(24), 4),
    ) {
        let (mut index, mut naive) = (index(), Naive::new());
        let mut asked = extra;
        for operation in operations {
            match operation {
                Operation::Store { slot, path } => {
                    for depth in 1..=path.len() {
                        let new = naive.held[slot].insert(path[..depth].to_vec());
                        prop_assert_eq!(index.insert(slot, block(&path[..depth])), new);
                    }
                    asked.push(path);
                }
                Operation::EvictLeaf { slot, pick } => {
                    if let Some(path) = naive.leaf(slot, pick) {
                        naive.held[slot].remove(&path);
                        prop_assert!(index.remove(slot, block(&path)));
                        prop_assert!(!index.remove(slot, block(&path)));
                    }
                }
                Operation::Forget { slot } => {
                    naive.held[slot].clear();
                    index.forget(slot);
                }
            }
        }
        for path in &asked {
            prop_assert_eq!(overlap(&index, &chain(path)), naive.overlap(path));
        }
        for (slot, held) in naive.held.iter().enumerate() {
            prop_assert_eq!(index.held(slot), held.len());
        }
        let pages = naive.held.chunks(WorkerSet::CAPACITY);
        let distinct: usize = pages
            .map(|page| page.iter().flatten().collect::<BTreeSet<_>>().len())
            .sum();
        prop_assert_eq!(index.len(), distinct);
        prop_assert_eq!(index.is_empty(), distinct == 0);
    }

    /// What is promised of a worker that evicts in the middle.
    #[test]
    fn with_holes_the_depth_is_still_an_edge(
        holdings in prop::collection::vec(prop::collection::vec(any::<bool>(), 1..40), 1..6),
    ) {
        let longest = holdings.iter().map(Vec::len).max().unwrap();
        let chain = chain(&vec![0; longest]);
        let mut index = index();
        for (slot, held) in holdings.iter().enumerate() {
            for (depth, _) in held.iter().enumerate().filter(|(_, held)| **held) {
                index.insert(slot, chain[depth]);
            }
        }
        let depths = overlap(&index, &chain);
        for (slot, held) in holdings.iter().enumerate() {
            let holds = |depth: usize| held.get(depth).copied().unwrap_or(false);
            let depth = depths[slot] as usize;
            prop_assert!(depth == 0 || holds(0) && holds(depth - 1));
            prop_assert!(depth == longest || !holds(depth));
        }
    }
}

#[test]
fn an_empty_chain_matches_nobody() {
    let mut index = index();
    index.insert(0, block(&[0]));
    assert_eq!(overlap(&index, &[]), vec![0; SLOTS]);
}
