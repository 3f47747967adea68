//! The pool against a naive one that knows blocks by their whole prefix.

use std::collections::{BTreeMap, BTreeSet};

use contract::{HashSeed, LocalHash};
use proptest::prelude::*;

use super::*;

const BLOCK_SIZE: usize = 4;

/// Whole blocks of one symbol each: a prompt is a path of symbols.
fn tokens_of(path: &[u32]) -> Vec<TokenId> {
    path.iter()
        .flat_map(|&symbol| [symbol; BLOCK_SIZE])
        .collect()
}

fn stored(path: &[u32]) -> StoredBlock {
    let mut block = None;
    for symbol in path {
        let local = LocalHash::of(&[*symbol; BLOCK_SIZE], HashSeed::BASE);
        let parent = block.map(|parent: StoredBlock| parent.hash);
        block = Some(StoredBlock {
            hash: BlockHash::after(parent, local),
            local,
        });
    }
    block.expect("paths are not empty")
}

/// What the events have announced so far.
#[derive(Default)]
struct Listener {
    reusable: BTreeSet<BlockHash>,
}

impl Listener {
    fn hear(&mut self, events: Vec<KvEvent>) {
        for event in events {
            match event {
                KvEvent::Stored { parent, blocks } => {
                    let mut parent = parent;
                    for block in blocks {
                        assert!(parent.is_none_or(|parent| self.reusable.contains(&parent)));
                        assert_eq!(block.hash, BlockHash::after(parent, block.local));
                        assert!(self.reusable.insert(block.hash), "stored twice");
                        parent = Some(block.hash);
                    }
                }
                KvEvent::Removed { blocks } => {
                    for hash in blocks {
                        assert!(self.reusable.remove(&hash), "removed but never stored");
                    }
                }
                KvEvent::Cleared => self.reusable.clear(),
            }
        }
    }
}

/// The same pool, slow and obvious. It keeps no reference counts: they are counted.
#[derive(Default)]
struct Naive {
    tables: BTreeMap<usize, Table>,
    reusable: BTreeMap<Vec<u32>, BlockId>,
    /// Unreferenced reusable blocks, oldest first.
    idle: Vec<BlockId>,
}

#[derive(Clone, Default)]
struct Table {
    path: Vec<u32>,
    blocks: Vec<BlockId>,
    computed: usize,
}

impl Naive {
    fn references(&self, block: BlockId) -> usize {
        self.tables
            .values()
            .flat_map(|table| &table.blocks)
            .filter(|&&b| b == block)
            .count()
    }

    fn drop_reference(&mut self, block: BlockId) {
        if self.references(block) == 0 && self.reusable.values().any(|&b| b == block) {
            self.idle.push(block);
        }
    }

    fn check(&self, pool: &BlockPool, listener: &Listener, total: u32) {
        let active: BTreeSet<BlockId> = self
            .tables
            .values()
            .flat_map(|table| table.blocks.iter().copied())
            .collect();
        let occupancy = pool.occupancy();
        assert_eq!(occupancy.active as usize, active.len());
        assert_eq!(occupancy.cached as usize, self.idle.len());
        assert_eq!(
            occupancy.active + occupancy.cached + occupancy.free,
            total,
            "a leak"
        );
        let hashes: BTreeSet<BlockHash> =
            self.reusable.keys().map(|path| stored(path).hash).collect();
        assert_eq!(pool.reusable().into_iter().collect::<BTreeSet<_>>(), hashes);
        assert_eq!(listener.reusable, hashes, "events tell the whole story");
        for path in self.reusable.keys().filter(|path| path.len() > 1) {
            let parent = &path[..path.len() - 1];
            assert!(
                self.reusable.contains_key(parent),
                "a block outlived its parent"
            );
        }
        for (path, block) in &self.reusable {
            let held = self
                .tables
                .values()
                .filter(|table| table.blocks.contains(block));
            for table in held {
                assert!(
                    table.path.starts_with(path),
                    "a block is used for another prefix"
                );
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Start(Vec<u32>),
    /// Compute and publish the next block of a running sequence.
    Compute(usize),
    /// Append a block.
    Grow(usize, u32),
    Finish(usize),
    Reset,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Few symbols, so that prefixes are shared all the time.
    let path = prop::collection::vec(0_u32..2, 1..5);
    let op = prop_oneof![
        3 => path.prop_map(Op::Start),
        8 => (0_usize..6).prop_map(Op::Compute),
        2 => (0_usize..6, 0_u32..2).prop_map(|(which, symbol)| Op::Grow(which, symbol)),
        3 => (0_usize..6).prop_map(Op::Finish),
        1 => Just(Op::Reset),
    ];
    prop::collection::vec(op, 1..120)
}

/// Takes a block from both pools and holds the real one to the naive one's choice.
fn allocate(pool: &mut BlockPool, naive: &mut Naive) -> Option<BlockId> {
    let had_free = pool.occupancy().free > 0;
    let block = pool.allocate()?;
    assert_eq!(naive.references(block), 0, "handed out while in use");
    if !had_free {
        assert_eq!(naive.idle.remove(0), block, "not the least recently used");
        naive.reusable.retain(|_, &mut other| other != block);
    }
    Some(block)
}

fn start(pool: &mut BlockPool, naive: &mut Naive, id: usize, path: Vec<u32>) {
    let tokens = tokens_of(&path);
    let mut blocks: Vec<BlockId> = Vec::new();
    for depth in 1..=path.len() {
        let own = &tokens[(depth - 1) * BLOCK_SIZE..depth * BLOCK_SIZE];
        let found = pool.lookup(blocks.last().copied(), stored(&path[..depth]).hash, own);
        assert_eq!(found, naive.reusable.get(&path[..depth]).copied());
        let Some(block) = found else { break };
        blocks.push(block);
    }
    for &block in &blocks {
        pool.acquire(block);
        naive.idle.retain(|&idle| idle != block);
    }
    let computed = blocks.len();
    naive.tables.insert(
        id,
        Table {
            path,
            blocks,
            computed,
        },
    );
    while naive.tables[&id].blocks.len() < naive.tables[&id].path.len() {
        let Some(block) = allocate(pool, naive) else {
            finish(pool, naive, id);
            return;
        };
        naive.tables.get_mut(&id).unwrap().blocks.push(block);
    }
}

fn compute(pool: &mut BlockPool, naive: &mut Naive, id: usize) {
    let Some(table) = naive.tables.get_mut(&id) else {
        return;
    };
    if table.computed == table.blocks.len() {
        return;
    }
    let index = table.computed;
    table.computed += 1;
    let path = table.path[..=index].to_vec();
    let (block, parent) = (
        table.blocks[index],
        index.checked_sub(1).map(|i| table.blocks[i]),
    );
    let own = [path[index]; BLOCK_SIZE];
    let result = pool.publish(block, parent, stored(&path), &own);
    table.blocks[index] = result;
    let parent_is_reusable =
        parent.is_none_or(|parent| naive.reusable.get(&path[..index]) == Some(&parent));
    match naive.reusable.get(&path).copied() {
        _ if !parent_is_reusable => assert_eq!(result, block, "its prefix is private"),
        Some(existing) => {
            assert_eq!(result, existing, "one reusable copy");
            naive.idle.retain(|&idle| idle != existing);
        }
        None => {
            assert_eq!(result, block);
            naive.reusable.insert(path, block);
        }
    }
}

fn finish(pool: &mut BlockPool, naive: &mut Naive, id: usize) {
    let Some(mut table) = naive.tables.remove(&id) else {
        return;
    };
    for &block in table.blocks.iter().rev() {
        naive.drop_reference(block);
    }
    pool.release(&mut table.blocks);
    assert!(table.blocks.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_pool_agrees_with_a_naive_one(total in 1_u32..14, ops in ops()) {
        let mut pool = BlockPool::new(total, BLOCK_SIZE as u32);
        let mut naive = Naive::default();
        let mut listener = Listener::default();
        let mut next = 0;
        for op in ops {
            let pick = |which: usize| naive.tables.keys().copied().nth(which).unwrap_or(usize::MAX);
            match op {
                Op::Start(path) => {
                    start(&mut pool, &mut naive, next, path);
                    next += 1;
                }
                Op::Compute(which) => {
                    let id = pick(which);
                    compute(&mut pool, &mut naive, id);
                }
                Op::Grow(which, symbol) => {
                    let id = pick(which);
                    if naive.tables.contains_key(&id)
                        && let Some(block) = allocate(&mut pool, &mut naive)
                    {
                        let table = naive.tables.get_mut(&id).unwrap();
                        table.blocks.push(block);
                        table.path.push(symbol);
                    }
                }
                Op::Finish(which) => {
                    let id = pick(which);
                    finish(&mut pool, &mut naive, id);
                }
                Op::Reset => {
                    pool.reset();
                    naive.reusable.clear();
                    naive.idle.clear();
                }
            }
            listener.hear(pool.take_events());
            naive.check(&pool, &listener, total);
        }
        for id in 0..next {
            finish(&mut pool, &mut naive, id);
        }
        prop_assert_eq!(pool.available(), total as usize, "every block comes back");
    }
}

#[test]
fn equal_hashes_of_different_tokens_are_not_reused() {
    let mut pool = BlockPool::new(4, BLOCK_SIZE as u32);
    let block = pool.allocate().unwrap();
    let forged = stored(&[1]);
    pool.publish(block, None, forged, &[1; BLOCK_SIZE]);
    assert_eq!(pool.lookup(None, forged.hash, &[2; BLOCK_SIZE]), None);
    assert_eq!(
        pool.lookup(None, forged.hash, &[1; BLOCK_SIZE]),
        Some(block)
    );
}

#[test]
fn equal_tokens_behind_another_prefix_are_not_reused() {
    let mut pool = BlockPool::new(4, BLOCK_SIZE as u32);
    let blocks: Vec<BlockId> = (0..3).map(|_| pool.allocate().unwrap()).collect();
    pool.publish(blocks[0], None, stored(&[1]), &[1; BLOCK_SIZE]);
    pool.publish(blocks[1], None, stored(&[2]), &[2; BLOCK_SIZE]);
    let child = stored(&[1, 3]);
    pool.publish(blocks[2], Some(blocks[0]), child, &[3; BLOCK_SIZE]);
    assert_eq!(
        pool.lookup(Some(blocks[1]), child.hash, &[3; BLOCK_SIZE]),
        None
    );
    assert_eq!(
        pool.lookup(Some(blocks[0]), child.hash, &[3; BLOCK_SIZE]),
        Some(blocks[2])
    );
}

#[test]
fn a_collision_keeps_the_newcomer_and_what_follows_it_private() {
    let mut pool = BlockPool::new(4, BLOCK_SIZE as u32);
    let blocks: Vec<BlockId> = (0..3).map(|_| pool.allocate().unwrap()).collect();
    let collision = stored(&[1]);
    pool.publish(blocks[0], None, collision, &[1; BLOCK_SIZE]);
    assert_eq!(
        pool.publish(blocks[1], None, collision, &[9; BLOCK_SIZE]),
        blocks[1]
    );
    pool.publish(
        blocks[2],
        Some(blocks[1]),
        stored(&[1, 2]),
        &[2; BLOCK_SIZE],
    );
    assert_eq!(pool.reusable(), [collision.hash]);
}

#[test]
fn a_chain_becomes_one_event_and_leaves_leaf_first() {
    let mut pool = BlockPool::new(3, BLOCK_SIZE as u32);
    let mut table: Vec<BlockId> = (0..3).map(|_| pool.allocate().unwrap()).collect();
    let path = [5, 6, 7];
    for index in 0..3_usize {
        let parent = index.checked_sub(1).map(|before| table[before]);
        pool.publish(
            table[index],
            parent,
            stored(&path[..=index]),
            &[path[index]; BLOCK_SIZE],
        );
    }
    let blocks: Vec<StoredBlock> = (1..=3).map(|depth| stored(&path[..depth])).collect();
    assert_eq!(
        pool.take_events(),
        [KvEvent::Stored {
            parent: None,
            blocks: blocks.clone()
        }]
    );
    pool.release(&mut table);
    assert_eq!(
        pool.take_events(),
        [],
        "giving blocks back changes nothing for a router"
    );
    pool.allocate().unwrap();
    pool.allocate().unwrap();
    let removed = vec![blocks[2].hash, blocks[1].hash];
    assert_eq!(pool.take_events(), [KvEvent::Removed { blocks: removed }]);
    assert_eq!(pool.evictions(), 2);
}
