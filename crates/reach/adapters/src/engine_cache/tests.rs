//! The cache against a simple engine, and event by event.

use contract::{HASH_VERSION, Hashing, block_chain};
use proptest::prelude::*;

use super::*;
use crate::wire::Group;

const FORMAT: BlockFormat = BlockFormat {
    size: 4,
    hashing: Hashing {
        version: HASH_VERSION,
        lookahead: 0,
    },
};

fn stored(parent: Option<u64>, blocks: &[(u64, &[u32])]) -> EngineEvent {
    let blocks = blocks.iter().map(|(hash, window)| Block {
        hash: EngineHash(*hash),
        window: window.to_vec(),
    });
    EngineEvent::Stored(Stored {
        parent: parent.map(EngineHash),
        blocks: blocks.collect(),
        key: Key::Plain,
        group: Group::default(),
    })
}

fn removed(hashes: &[u64]) -> EngineEvent {
    EngineEvent::Removed {
        hashes: hashes.iter().copied().map(EngineHash).collect(),
        group: None,
    }
}

fn chain(tokens: &[u32]) -> Vec<StoredBlock> {
    FORMAT.stored_chain(tokens, HashSeed::BASE)
}

const TOKENS: [u32; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// Blocks 1, 2 and 3 of [`TOKENS`].
fn three() -> EngineCache {
    let mut cache = EngineCache::new(FORMAT);
    cache
        .apply(&stored(None, &[(1, &TOKENS[..4]), (2, &TOKENS[4..8])]))
        .unwrap();
    cache.apply(&stored(Some(2), &[(3, &TOKENS[8..])])).unwrap();
    cache
}

#[test]
fn blocks_get_the_routers_names() {
    let cache = three();
    assert_eq!(cache.overlap(&chain(&TOKENS)), 3);
    let mut held: Vec<BlockHash> = cache.blocks().collect();
    let mut expected = block_chain(&TOKENS, 4, HashSeed::BASE);
    held.sort();
    expected.sort();
    assert_eq!(held, expected);
}

#[test]
fn a_removal_is_understood_by_the_engines_name() {
    let mut cache = three();
    let gone = cache.apply(&removed(&[2, 99])).unwrap();
    let blocks = vec![chain(&TOKENS)[1].hash];
    assert_eq!(gone, [KvEvent::Removed { blocks }]);
    assert_eq!(cache.overlap(&chain(&TOKENS)), 1);
    assert_eq!(cache.take_tally().unknown_block, 1);
    assert_eq!(cache.take_tally(), Tally::default());
}

#[test]
fn names_that_change_places_leave_the_feed_and_the_mirror_alike() {
    let mut cache = three();
    let [first, second, _] = chain(&TOKENS)[..] else {
        panic!("three blocks");
    };
    let swapped = stored(None, &[(2, &TOKENS[..4]), (1, &TOKENS[4..8])]);
    let removed = KvEvent::Removed {
        blocks: vec![second.hash, first.hash],
    };
    let stored = KvEvent::Stored {
        parent: None,
        blocks: vec![second],
    };
    assert_eq!(cache.apply(&swapped).unwrap(), [removed, stored]);
    assert!(!cache.mirror.holds(first.hash));
    assert!(cache.mirror.holds(second.hash));
}

#[test]
fn a_child_of_nobody_has_no_name() {
    let mut cache = EngineCache::new(FORMAT);
    assert_eq!(
        cache.apply(&stored(Some(9), &[(1, &TOKENS[..4])])),
        Ok(vec![])
    );
    assert!(cache.is_empty());
    assert_eq!(cache.take_tally().unknown_parent, 1);
}

#[test]
fn after_a_loss_nothing_is_held_and_names_stay() {
    let mut cache = three();
    assert_eq!(cache.forget(), KvEvent::Cleared);
    assert!(cache.is_empty());
    // A child of a block that is not known to be there still gets its name.
    let more = [&TOKENS[..], &[13, 14, 15, 16]].concat();
    cache.apply(&stored(Some(3), &[(4, &more[12..])])).unwrap();
    assert_eq!(cache.overlap(&chain(&more)), 0);
    // An answer shows that the beginning is there after all.
    let confirmed = cache.confirm(&chain(&more)[..3]).unwrap();
    let KvEvent::Stored { blocks, .. } = confirmed else {
        panic!("{confirmed:?}");
    };
    assert_eq!(blocks, chain(&TOKENS));
    assert_eq!(cache.overlap(&chain(&more)), 4);
    assert_eq!(cache.confirm(&chain(&more)), None);
    assert_eq!(
        cache.confirm(&chain(&[7; 8])),
        None,
        "nobody would say when it goes"
    );
}

#[test]
fn a_restart_takes_the_names_as_well() {
    let mut cache = three();
    assert_eq!(
        cache.apply(&EngineEvent::Cleared),
        Ok(vec![KvEvent::Cleared])
    );
    assert_eq!(cache.confirm(&chain(&TOKENS)), None);
    assert_eq!(cache.take_tally().cleared, 1);
}

#[test]
fn salts_go_from_parent_to_child() {
    let seed = HashSeed::new("", "tenant");
    let mut cache = EngineCache::new(FORMAT);
    let EngineEvent::Stored(mut first) = stored(None, &[(1, &TOKENS[..4])]) else {
        panic!();
    };
    first.key = Key::Ours(seed);
    cache.apply(&EngineEvent::Stored(first.clone())).unwrap();
    cache
        .apply(&stored(Some(1), &[(2, &TOKENS[4..8])]))
        .unwrap();
    assert_eq!(cache.overlap(&FORMAT.stored_chain(&TOKENS, seed)), 2);
    assert_eq!(cache.overlap(&chain(&TOKENS)), 0);
    first.key = Key::Foreign;
    first.blocks[0].hash = EngineHash(7);
    assert_eq!(cache.apply(&EngineEvent::Stored(first)), Ok(vec![]));
    assert_eq!(cache.take_tally().other_key, 1);
}

#[test]
fn layers_with_a_window_do_not_count() {
    let mut cache = three();
    let EngineEvent::Stored(mut windowed) = stored(None, &[(1, &TOKENS[..4])]) else {
        panic!();
    };
    windowed.group = Group {
        index: Some(1),
        windowed: true,
    };
    assert_eq!(cache.apply(&EngineEvent::Stored(windowed)), Ok(vec![]));
    let hashes = vec![EngineHash(1)];
    let group = Some(1);
    assert_eq!(
        cache.apply(&EngineEvent::Removed { hashes, group }),
        Ok(vec![])
    );
    assert_eq!(cache.overlap(&chain(&TOKENS)), 3);
    assert_eq!(cache.take_tally().other_group, 2);
}

#[test]
fn a_block_that_moved_to_the_host_comes_back() {
    let mut cache = three();
    let hash = EngineHash(2);
    let on_gpu = false;
    cache.apply(&EngineEvent::Moved { hash, on_gpu }).unwrap();
    assert_eq!(cache.overlap(&chain(&TOKENS)), 1);
    let on_gpu = true;
    let back = cache.apply(&EngineEvent::Moved { hash, on_gpu }).unwrap();
    assert!(matches!(back[..], [KvEvent::Stored { .. }]));
    assert_eq!(cache.overlap(&chain(&TOKENS)), 3);
}

#[test]
fn a_short_block_at_the_end_is_left_out() {
    let mut cache = EngineCache::new(FORMAT);
    cache
        .apply(&stored(None, &[(1, &TOKENS[..4]), (2, &TOKENS[4..6])]))
        .unwrap();
    assert_eq!(cache.len(), 1);
    assert_eq!(cache.take_tally().partial, 1);
}

#[test]
fn blocks_of_another_size_are_refused() {
    let router = 4;
    let mut cache = EngineCache::new(FORMAT);
    let engine = 2;
    let small = stored(None, &[(1, &[1, 2]), (2, &[3, 4])]);
    assert_eq!(
        cache.apply(&small),
        Err(FormatMismatch::BlockSize { engine, router })
    );
    let engine = 8;
    let large = stored(None, &[(1, &TOKENS[..8])]);
    let refused = cache.apply(&large).unwrap_err();
    assert_eq!(refused, FormatMismatch::BlockSize { engine, router });
    assert!(refused.to_string().contains("--kv-cache-block-size 8"));
    // One by one they could be blocks that are not full, but not for ever.
    let mut cache = EngineCache::new(FORMAT);
    let mut lone = (0..).map(|hash| cache.apply(&stored(None, &[(hash, &[1, 2])])));
    assert!(lone.by_ref().take(15).all(|result| result.is_ok()));
    assert!(lone.next().unwrap().is_err());
}

#[test]
fn names_that_look_ahead_fit_only_a_router_that_does() {
    let ahead = stored(None, &[(1, &TOKENS[..5]), (2, &TOKENS[4..9])]);
    let refused = EngineCache::new(FORMAT).apply(&ahead).unwrap_err();
    let (engine, router) = (1, 0);
    assert_eq!(refused, FormatMismatch::Lookahead { engine, router });
    let mut format = FORMAT;
    format.hashing.lookahead = 1;
    let mut cache = EngineCache::new(format);
    cache.apply(&ahead).unwrap();
    assert_eq!(
        cache.overlap(&format.stored_chain(&TOKENS, HashSeed::BASE)),
        2
    );
    let plain = stored(None, &[(1, &TOKENS[..4])]);
    let (engine, router) = (0, 1);
    let refused = EngineCache::new(format).apply(&plain);
    assert_eq!(refused, Err(FormatMismatch::Lookahead { engine, router }));
}

/// What an engine might do to its cache.
#[derive(Clone, Debug)]
enum Step {
    /// Stores the blocks of a text that it lacks.
    Store(Vec<u32>),
    /// Evicts the nth block that has no children.
    Evict(usize),
    Clear,
    /// Events up to here are lost and noticed.
    Lose(Vec<u32>),
}

/// An engine with names of its own: a tree of blocks.
#[derive(Default)]
struct Engine {
    /// From the text up to a block's end to its name.
    blocks: std::collections::BTreeMap<Vec<u32>, u64>,
    next: u64,
}

impl Engine {
    fn store(&mut self, tokens: &[u32]) -> Vec<EngineEvent> {
        let mut events = Vec::new();
        let mut parent = None;
        for end in (4..=tokens.len()).step_by(4) {
            let text = tokens[..end].to_vec();
            if let Some(known) = self.blocks.get(&text) {
                parent = Some(*known);
                continue;
            }
            self.next += 1;
            self.blocks.insert(text, self.next);
            events.push(stored(parent, &[(self.next, &tokens[end - 4..end])]));
            parent = Some(self.next);
        }
        events
    }

    fn evict(&mut self, nth: usize) -> Vec<EngineEvent> {
        let is_leaf = |text: &Vec<u32>| {
            !self
                .blocks
                .keys()
                .any(|other| other.len() > text.len() && other.starts_with(text))
        };
        let leaves: Vec<Vec<u32>> = self
            .blocks
            .keys()
            .filter(|text| is_leaf(text))
            .cloned()
            .collect();
        if leaves.is_empty() {
            return Vec::new();
        }
        let hash = self.blocks.remove(&leaves[nth % leaves.len()]);
        vec![removed(&[hash.unwrap()])]
    }

    fn held(&self) -> HashSet<BlockHash> {
        let last = |text: &Vec<u32>| block_chain(text, 4, HashSeed::BASE).pop().unwrap();
        self.blocks.keys().map(last).collect()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = prop::collection::vec(0_u32..2, 0..20);
    let step = prop_oneof![
        6 => text.clone().prop_map(Step::Store),
        4 => (0_usize..8).prop_map(Step::Evict),
        1 => Just(Step::Clear),
        1 => text.prop_map(Step::Lose),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn the_mirror_shows_the_engine_and_the_feed_shows_the_mirror(steps in steps()) {
        let (mut engine, mut cache) = (Engine::default(), EngineCache::new(FORMAT));
        let mut follower: HashSet<BlockHash> = HashSet::new();
        let mut lost = false;
        for step in steps {
            let mut changes = Vec::new();
            let events = match step {
                Step::Store(tokens) => engine.store(&tokens),
                Step::Evict(nth) => engine.evict(nth),
                Step::Clear => {
                    engine.blocks.clear();
                    lost = false;
                    vec![EngineEvent::Cleared]
                }
                Step::Lose(tokens) => {
                    engine.store(&tokens);
                    engine.evict(0);
                    lost = true;
                    changes.push(cache.forget());
                    vec![]
                }
            };
            for event in &events {
                changes.extend(cache.apply(event).unwrap());
            }
            for change in changes {
                match change {
                    KvEvent::Stored { blocks, .. } => follower.extend(blocks.iter().map(|block| block.hash)),
                    KvEvent::Removed { blocks } => for block in blocks { follower.remove(&block); },
                    KvEvent::Cleared => follower.clear(),
                }
            }
            let held: HashSet<BlockHash> = cache.blocks().collect();
            prop_assert_eq!(&follower, &held);
            prop_assert!(held.is_subset(&engine.held()));
            if !lost {
                prop_assert_eq!(&held, &engine.held());
            }
        }
    }
}
