//! The table against an ordinary map, and its order after every operation.

use std::collections::BTreeMap;

use contract::random::mix;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Insert { block: u64, worker: usize },
    Remove { block: u64, worker: usize },
    Forget { worker: usize },
}

/// Few enough to meet again, in three families: hashes, small numbers, and numbers that all
/// have the same home, the last one.
fn blocks() -> impl Strategy<Value = u64> {
    let last_home = |number: u64| (u64::MAX - number).wrapping_mul(INVERSE);
    prop_oneof![
        (0_u64..200).prop_map(|number| mix(1, 0, number)),
        0_u64..20,
        (0_u64..60).prop_map(last_home),
    ]
}

/// What [`spread`] is undone by.
const INVERSE: u64 = 0xf1de_83e1_9937_733d;

fn operations() -> impl Strategy<Value = Operation> {
    let (block, worker) = (blocks, || 0_usize..4);
    prop_oneof![
        20 => (block(), worker()).prop_map(|(block, worker)| Operation::Insert { block, worker }),
        12 => (block(), worker()).prop_map(|(block, worker)| Operation::Remove { block, worker }),
        1 => worker().prop_map(|worker| Operation::Forget { worker }),
    ]
}

#[track_caller]
fn check_order(table: &BlockTable) {
    let taken = || {
        let places = table.places.iter().enumerate();
        places.filter(|(_, place)| !place.holders.is_empty())
    };
    assert_eq!(taken().count(), table.taken);
    assert!(
        taken()
            .map(|(_, place)| place.key)
            .is_sorted_by(|a, b| a < b)
    );
    for (at, place) in taken() {
        let row = &table.places[table.home(place.key)..at];
        assert!(row.iter().all(|place| !place.holders.is_empty()));
    }
}

proptest! {
    #[test]
    fn it_agrees_with_an_ordinary_map(operations in prop::collection::vec(operations(), 0..400)) {
        let mut table = BlockTable::default();
        let mut map: BTreeMap<u64, WorkerSet> = BTreeMap::new();
        for operation in operations {
            match operation {
                Operation::Insert { block, worker } => {
                    let worker = WorkerSet::of(worker);
                    let set = map.entry(block).or_default();
                    prop_assert_eq!(
                        table.insert(BlockHash(block), worker),
                        !set.contains(worker)
                    );
                    *set = set.union(worker);
                }
                Operation::Remove { block, worker } => {
                    let worker = WorkerSet::of(worker);
                    let set = map.entry(block).or_default();
                    prop_assert_eq!(
                        table.remove(BlockHash(block), worker),
                        set.contains(worker)
                    );
                    *set = set.without(worker);
                }
                Operation::Forget { worker } => {
                    table.forget(WorkerSet::of(worker));
                    for set in map.values_mut() {
                        *set = set.without(WorkerSet::of(worker));
                    }
                }
            }
            map.retain(|_, set| !set.is_empty());
            check_order(&table);
            prop_assert_eq!(table.len(), map.len());
        }
        for number in 0..400 {
            let last_home = (u64::MAX - number).wrapping_mul(INVERSE);
            let blocks = [mix(1, 0, number), number, last_home];
            let expected = blocks.map(|block| map.get(&block).copied().unwrap_or_default());
            let blocks = blocks.map(BlockHash);
            prop_assert_eq!(blocks.map(|block| table.holders(block)), expected);
            prop_assert_eq!(table.holders_of(blocks), expected);
        }
    }
}

#[test]
fn the_last_home_is_reached_by_the_keys_meant_for_it() {
    assert_eq!(spread(BlockHash(u64::MAX.wrapping_mul(INVERSE))), u64::MAX);
}

#[test]
fn a_block_takes_at_most_32_bytes_while_the_table_grows() {
    let mut table = BlockTable::default();
    for number in 1..=100_000_usize {
        table.insert(BlockHash(mix(2, 0, number as u64)), WorkerSet::of(0));
        if number >= 1000 {
            let bytes = table.places.capacity() * size_of::<Place>();
            assert!(bytes <= 33 * number, "{bytes} bytes for {number} blocks");
        }
    }
}
