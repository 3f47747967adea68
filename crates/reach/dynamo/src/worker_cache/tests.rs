//! The cache against the obvious model, and what it does when events are missing.

use std::collections::BTreeSet;

use contract::block::block_chain;
use contract::{HashSeed, KvEvent};
use proptest::prelude::*;

use super::*;
use crate::wire::event::{Block, CacheEvent, Removed};

fn event(id: u64, data: CacheChange) -> WorkerEvent {
    WorkerEvent {
        worker_id: 1,
        storage_tier: Some("device".to_owned()),
        residency_domain: None,
        event: CacheEvent {
            event_id: id,
            data,
            dp_rank: 0,
        },
    }
}

/// Blocks of two tokens; the engine names a block 1000 beyond its position in `tokens`.
fn stored(parent: Option<u64>, names: &[u64], tokens: &[u32]) -> CacheChange {
    let blocks = names
        .iter()
        .zip(tokens.chunks(2))
        .map(|(name, tokens)| Block {
            block_hash: *name,
            tokens_hash: LocalHash::of(tokens, HashSeed::BASE).0,
        });
    CacheChange::Stored(Stored {
        parent_hash: parent,
        start_position: None,
        blocks: blocks.collect(),
    })
}

fn removed(names: &[u64]) -> CacheChange {
    CacheChange::Removed(Removed {
        block_hashes: names.to_vec(),
    })
}

/// The batch of an event that changes nothing, or waits for a dump.
fn empty(number: u64) -> Option<Batch> {
    let events = vec![];
    Some(Batch { number, events })
}

fn chain(tokens: &[u32]) -> Vec<BlockHash> {
    block_chain(tokens, 2, HashSeed::BASE)
}

#[test]
fn blocks_get_the_names_that_a_prompt_gives_them() {
    let mut cache = WorkerCache::default();
    let tokens = [1, 2, 3, 4, 5, 6];
    let Batch { number, events } = cache
        .observe(&event(0, stored(None, &[70, 71], &tokens)))
        .unwrap();
    let hashes = chain(&tokens);
    let [
        KvEvent::Stored {
            parent: None,
            blocks,
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    let named: Vec<BlockHash> = blocks.iter().map(|block| block.hash).collect();
    assert_eq!((number, &named[..]), (0, &hashes[..2]));
    let Batch { events, .. } = cache
        .observe(&event(1, stored(Some(71), &[72], &tokens[4..])))
        .unwrap();
    let [KvEvent::Stored { parent, blocks }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((*parent, blocks[0].hash), (Some(hashes[1]), hashes[2]));
    assert_eq!(cache.leading_blocks(&hashes), 3);
    let Batch { events, .. } = cache.observe(&event(2, removed(&[72, 99]))).unwrap();
    let blocks = vec![hashes[2]];
    assert_eq!(events, [KvEvent::Removed { blocks }]);
    assert_eq!(cache.leading_blocks(&hashes), 2);
}

#[test]
fn an_event_that_was_heard_is_not_heard_again() {
    let mut cache = WorkerCache::default();
    let first = event(0, stored(None, &[1], &[1, 2]));
    assert!(cache.observe(&first).is_some());
    assert_eq!(cache.observe(&first), None);
}

#[test]
fn a_block_stays_while_any_of_its_names_does() {
    let mut cache = WorkerCache::default();
    cache.observe(&event(0, stored(None, &[1], &[1, 2])));
    cache.observe(&event(1, stored(None, &[2], &[1, 2])));
    assert_eq!(cache.observe(&event(2, removed(&[1]))), empty(2));
    let Batch { events, .. } = cache.observe(&event(3, removed(&[2]))).unwrap();
    assert_eq!(events.len(), 1);
}

#[test]
fn a_block_that_loses_its_name_to_another_is_removed() {
    let mut cache = WorkerCache::default();
    cache.observe(&event(0, stored(None, &[1], &[1, 2])));
    let Batch { events, .. } = cache
        .observe(&event(1, stored(None, &[1], &[3, 4])))
        .unwrap();
    let blocks = chain(&[1, 2]);
    assert_eq!(events[0], KvEvent::Removed { blocks });
    assert_eq!(cache.leading_blocks(&chain(&[3, 4])), 1);
}

#[test]
fn blocks_after_an_unknown_one_are_counted_and_left_out() {
    let mut cache = WorkerCache::default();
    let lost = cache.observe(&event(0, stored(Some(5), &[6, 7], &[1, 2, 3, 4])));
    assert_eq!((lost, cache.take_orphans()), (empty(0), 2));
}

#[test]
fn slower_memory_does_not_count_but_its_events_do() {
    let mut cache = WorkerCache::default();
    let mut host = event(0, stored(None, &[1], &[1, 2]));
    host.storage_tier = Some("host_pinned".to_owned());
    assert_eq!(cache.observe(&host), empty(0));
    assert_eq!(cache.leading_blocks(&chain(&[1, 2])), 0);
    let device = event(1, stored(None, &[1], &[1, 2]));
    assert_eq!(cache.observe(&device).unwrap().events.len(), 1);
}

#[test]
fn after_a_gap_batches_are_empty_until_a_dump_mends_it() {
    let mut cache = WorkerCache::default();
    let tokens = [1, 2, 3, 4, 5, 6];
    cache.observe(&event(0, stored(None, &[1], &tokens)));
    // Event 1 is lost: it stored block 2.
    let third = event(2, stored(Some(2), &[3], &tokens[4..]));
    assert_eq!(cache.observe(&third), empty(2));
    let dump = [event(0, stored(None, &[1, 2], &tokens))];
    let Restored { blocks, next } = cache.restore(&dump, 2);
    let blocks: BTreeSet<BlockHash> = blocks.into_iter().collect();
    assert_eq!(blocks, chain(&tokens).into_iter().collect());
    assert_eq!(next, 3);
    let Batch { events, .. } = cache.observe(&event(3, removed(&[3]))).unwrap();
    assert_eq!(events.len(), 1, "translation goes on");
}

#[test]
fn a_second_gap_behind_the_dump_stays_in_view() {
    let mut cache = WorkerCache::default();
    cache.observe(&event(5, removed(&[1])));
    let Restored { next, .. } = cache.restore(&[], 4);
    assert_eq!(next, 4);
    assert_eq!(cache.observe(&event(6, removed(&[1]))), empty(6));
    let Restored { next, .. } = cache.restore(&[], 6);
    assert_eq!(next, 7);
    assert_eq!(
        cache
            .observe(&event(7, CacheChange::Cleared))
            .unwrap()
            .events,
        [KvEvent::Cleared]
    );
}

#[test]
fn a_dump_that_is_older_than_what_was_heard_changes_nothing() {
    let mut cache = WorkerCache::default();
    cache.observe(&event(0, stored(None, &[1], &[1, 2])));
    cache.observe(&event(1, stored(None, &[2], &[3, 4])));
    let Restored { blocks, next } = cache.restore(&[], 1);
    assert_eq!((blocks.len(), next), (2, 2));
}

#[test]
fn what_waits_for_a_dump_is_bounded() {
    let mut cache = WorkerCache::default();
    cache.await_dump();
    for id in 0..MOST_KEPT as u64 + 10 {
        cache.observe(&event(id, CacheChange::Cleared));
    }
    let Restored { next, .. } = cache.restore(&[], 5);
    assert_eq!(next, 5, "events 5 to 9 are lost, and that shows");
}

/// An engine that stores and evicts chains of a small tree, and says so.
#[derive(Debug, Default)]
struct Engine {
    held: BTreeSet<Vec<u32>>,
    events: Vec<WorkerEvent>,
}

fn name(path: &[u32]) -> u64 {
    path.iter()
        .fold(7, |name, step| name * 31 + u64::from(*step))
}

impl Engine {
    fn publish(&mut self, data: CacheChange) {
        self.events.push(event(self.events.len() as u64, data));
    }

    fn tokens(path: &[u32]) -> Vec<u32> {
        path.iter().flat_map(|step| [*step, *step + 100]).collect()
    }

    fn store(&mut self, path: &[u32]) {
        let known = (0..=path.len())
            .rev()
            .find(|end| self.held.contains(&path[..*end]));
        let known = known.unwrap_or(0);
        if known == path.len() {
            return;
        }
        let parent = (known > 0).then(|| name(&path[..known]));
        let names: Vec<u64> = (known + 1..=path.len())
            .map(|end| name(&path[..end]))
            .collect();
        let data = stored(parent, &names, &Self::tokens(&path[known..]));
        self.held
            .extend((known + 1..=path.len()).map(|end| path[..end].to_vec()));
        self.publish(data);
    }

    /// Evicts a block and everything after it, like an engine that evicts leaves first.
    fn evict(&mut self, path: &[u32]) {
        let gone: Vec<Vec<u32>> = self
            .held
            .iter()
            .filter(|held| held.starts_with(path))
            .cloned()
            .collect();
        if gone.is_empty() {
            return;
        }
        let names: Vec<u64> = gone.iter().map(|path| name(path)).collect();
        self.held.retain(|held| !held.starts_with(path));
        self.publish(removed(&names));
    }

    fn dump(&self) -> Vec<WorkerEvent> {
        let held = self.held.iter().map(|path| {
            let (before, last) = path.split_at(path.len() - 1);
            let parent = (!before.is_empty()).then(|| name(before));
            event(0, stored(parent, &[name(path)], &Self::tokens(last)))
        });
        held.collect()
    }

    fn expected(&self) -> BTreeSet<BlockHash> {
        let last = |path: &Vec<u32>| *chain(&Self::tokens(path)).last().unwrap();
        self.held.iter().map(last).collect()
    }
}

/// A receiver as the router is one: contiguous batches, or a snapshot.
#[derive(Debug, Default)]
struct Receiver {
    blocks: BTreeSet<BlockHash>,
    next: u64,
    waiting: Option<Vec<Batch>>,
}

impl Receiver {
    fn batch(&mut self, batch: Batch) {
        if let Some(waiting) = &mut self.waiting {
            waiting.push(batch);
        } else if batch.number > self.next {
            self.waiting = Some(vec![batch]);
        } else if batch.number == self.next {
            self.apply(batch);
        }
    }

    fn apply(&mut self, Batch { number, events }: Batch) {
        self.next = number + 1;
        for event in events {
            match event {
                KvEvent::Stored { blocks, .. } => {
                    self.blocks.extend(blocks.iter().map(|block| block.hash));
                }
                KvEvent::Removed { blocks } => {
                    self.blocks.retain(|block| !blocks.contains(block));
                }
                KvEvent::Cleared => self.blocks.clear(),
            }
        }
    }

    fn snapshot(&mut self, blocks: Vec<BlockHash>, next: u64) {
        self.blocks = blocks.into_iter().collect();
        self.next = next;
        for batch in self.waiting.take().unwrap_or_default() {
            self.batch(batch);
        }
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Store(Vec<u32>),
    Evict(Vec<u32>),
    Clear,
    Lose,
    /// Asks for a dump, which comes after this many more events.
    Ask(usize, Made),
}

/// When a dump is made whose number is that of the events so far.
#[derive(Clone, Copy, Debug)]
enum Made {
    Now,
    /// It contains more than its number says.
    Later,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let path = || prop::collection::vec(1_u32..4, 1..5);
    let deed = prop_oneof![
        6 => path().prop_map(Deed::Store),
        2 => path().prop_map(Deed::Evict),
        1 => Just(Deed::Clear),
        2 => Just(Deed::Lose),
        1 => (0_usize..4, prop_oneof![Just(Made::Now), Just(Made::Later)])
            .prop_map(|(delay, made)| Deed::Ask(delay, made)),
    ];
    prop::collection::vec(deed, 0..60)
}

proptest! {
    /// However events are lost and dumps delayed: once a dump comes, the receiver holds what
    /// the engine holds.
    #[test]
    fn a_receiver_converges(deeds in deeds()) {
        let (mut engine, mut cache, mut receiver) =
            (Engine::default(), WorkerCache::default(), Receiver::default());
        let (mut lose_next, mut made_later) = (false, false);
        let mut dump: Option<(Option<Vec<WorkerEvent>>, u64, usize)> = None;
        for deed in deeds {
            let before = engine.events.len();
            match deed {
                Deed::Store(path) => engine.store(&path),
                Deed::Evict(path) => engine.evict(&path),
                Deed::Clear => {
                    engine.held.clear();
                    engine.publish(CacheChange::Cleared);
                }
                Deed::Lose => lose_next = true,
                // Only a receiver that waits asks.
                Deed::Ask(delay, made) if receiver.waiting.is_some() && dump.is_none() => {
                    cache.await_dump();
                    made_later |= matches!(made, Made::Later);
                    let content = match made {
                        Made::Now => Some(engine.dump()),
                        Made::Later => None,
                    };
                    dump = Some((content, engine.events.len() as u64, delay));
                }
                Deed::Ask(..) => {}
            }
            for event in &engine.events[before..] {
                if std::mem::take(&mut lose_next) {
                    continue;
                }
                if let Some(batch) = cache.observe(event) {
                    receiver.batch(batch);
                }
            }
            if let Some((content, next, delay)) = dump.take() {
                if delay == 0 {
                    let content = content.unwrap_or_else(|| engine.dump());
                    let Restored { blocks, next } = cache.restore(&content, next);
                    receiver.snapshot(blocks, next);
                } else {
                    dump = Some((content, next, delay - 1));
                }
            }
            if receiver.waiting.is_none() && receiver.next == engine.events.len() as u64 {
                prop_assert_eq!(&receiver.blocks, &engine.expected());
            }
        }
        // At the end nothing is lost any more.
        engine.store(&[9]);
        if let Some(batch) = cache.observe(engine.events.last().unwrap()) {
            receiver.batch(batch);
        }
        if receiver.waiting.is_some() {
            cache.await_dump();
            let Restored { blocks, next } = cache.restore(&engine.dump(), engine.events.len() as u64);
            receiver.snapshot(blocks, next);
        }
        prop_assert!(receiver.waiting.is_none());
        prop_assert_eq!(receiver.blocks, engine.expected());
        // A dump made later may lack a block that an event after its number still builds on.
        if !made_later {
            prop_assert_eq!(cache.take_orphans(), 0);
        }
    }
}
