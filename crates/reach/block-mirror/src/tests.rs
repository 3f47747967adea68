//! The mirror against the obvious model, by both rules.

use std::collections::{BTreeMap, BTreeSet};

use contract::HashSeed;
use proptest::prelude::*;

use super::*;

const RULES: [SharedBlock; 2] = [
    SharedBlock::GoneWithFirstName,
    SharedBlock::GoneWithLastName,
];

fn block(name: u64, token: u32) -> EngineBlock {
    EngineBlock {
        name: EngineHash(name),
        local: LocalHash::of(&[token], HashSeed::BASE),
    }
}

fn hash(parent: Option<BlockHash>, token: u32) -> BlockHash {
    BlockHash::after(parent, LocalHash::of(&[token], HashSeed::BASE))
}

fn stored(parent: Option<BlockHash>, token: u32) -> StoredBlock {
    let local = LocalHash::of(&[token], HashSeed::BASE);
    let hash = hash(parent, token);
    StoredBlock { hash, local }
}

/// Two names for one block.
fn shared(rule: SharedBlock) -> Mirror<()> {
    let mut mirror = Mirror::new(rule);
    for name in [1, 2] {
        let blocks = [block(name, 7)];
        mirror.store(None, blocks.into_iter(), ()).unwrap();
    }
    mirror
}

#[test]
fn a_shared_block_goes_with_the_first_or_the_last_name() {
    for (rule, expected) in [
        (SharedBlock::GoneWithFirstName, [1, 0]),
        (SharedBlock::GoneWithLastName, [0, 1]),
    ] {
        let mut mirror = shared(rule);
        let gone = [1, 2].map(|name| mirror.remove([EngineHash(name)]).blocks.len());
        assert_eq!(gone, expected, "{rule:?}");
        assert!(mirror.is_empty() && mirror.name_counts.is_empty());
    }
}

#[test]
fn names_that_change_places_keep_the_last_of_each() {
    for (rule, expected) in [
        (SharedBlock::GoneWithFirstName, vec![8]),
        (SharedBlock::GoneWithLastName, vec![7, 8]),
    ] {
        let mut mirror = Mirror::new(rule);
        let blocks = [block(1, 7), block(2, 8)];
        mirror.store(None, blocks.into_iter(), ()).unwrap();
        let swapped = [block(2, 7), block(1, 8)];
        let events = mirror.store(None, swapped.into_iter(), ()).unwrap();
        let chain = [hash(None, 7), hash(Some(hash(None, 7)), 8)];
        let held: Vec<u32> = [7, 8]
            .into_iter()
            .zip(chain)
            .filter(|(_, hash)| mirror.holds(*hash))
            .map(|(token, _)| token)
            .collect();
        assert_eq!(held, expected, "{rule:?}");
        assert!(matches!(events[0], KvEvent::Removed { .. }), "{events:?}");
    }
}

#[test]
fn a_confirmed_block_goes_with_any_of_its_names() {
    for rule in RULES {
        let mut mirror = shared(rule);
        mirror.forget();
        assert!(mirror.confirm(&[stored(None, 7)]).is_some());
        // Which of the two names is left is not known.
        assert_eq!(mirror.remove([EngineHash(2)]).blocks.len(), 1, "{rule:?}");
    }
}

#[test]
fn too_many_names_clear_the_mirror() {
    let mut mirror = shared(SharedBlock::GoneWithLastName);
    let blocks = (0..MOST_NAMES).map(|name| block(name as u64, 1));
    assert_eq!(mirror.store(None, blocks, ()), Err(TooManyNames));
    assert!(mirror.is_empty() && mirror.named(EngineHash(1)).is_none());
}

/// What an engine may report. Names and tokens are few, so that they collide.
#[derive(Clone, Debug)]
enum Step {
    /// The parent's name, and names with tokens.
    Store(Option<u64>, Vec<(u64, u32)>),
    Remove(Vec<u64>),
    MoveOut(u64),
    MoveIn(u64),
    Confirm(Vec<u32>),
    Forget,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0_u64..6;
    let blocks = prop::collection::vec((name(), 0_u32..3), 1..4);
    let step = prop_oneof![
        8 => (prop::option::of(name()), blocks).prop_map(|(parent, blocks)| Step::Store(parent, blocks)),
        4 => prop::collection::vec(name(), 1..3).prop_map(Step::Remove),
        2 => name().prop_map(Step::MoveOut),
        2 => name().prop_map(Step::MoveIn),
        2 => prop::collection::vec(0_u32..3, 1..4).prop_map(Step::Confirm),
        1 => Just(Step::Forget),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..40)
}

/// Who holds a block: a name, or a name that is not known.
type Holder = Option<u64>;

/// Everything in two flat sets.
#[derive(Debug, Default)]
struct Model {
    names: BTreeMap<u64, BlockHash>,
    held: BTreeSet<(BlockHash, Holder)>,
}

impl Model {
    fn blocks(&self) -> BTreeSet<BlockHash> {
        self.held.iter().map(|(block, _)| *block).collect()
    }

    fn release(&mut self, rule: SharedBlock, block: BlockHash, name: u64) {
        self.held.remove(&(block, Some(name)));
        let by_name = self
            .held
            .iter()
            .any(|(held, holder)| *held == block && holder.is_some());
        if rule == SharedBlock::GoneWithFirstName || !by_name {
            self.held.retain(|(held, _)| *held != block);
        }
    }

    fn apply(&mut self, rule: SharedBlock, step: &Step) {
        match step {
            Step::Store(parent, blocks) => {
                let mut before = match parent {
                    Some(parent) => match self.names.get(parent) {
                        Some(parent) => Some(*parent),
                        None => return,
                    },
                    None => None,
                };
                for (name, token) in blocks {
                    let block = hash(before, *token);
                    before = Some(block);
                    match self.names.insert(*name, block) {
                        Some(previous) if previous != block => self.release(rule, previous, *name),
                        Some(_) | None => {}
                    }
                    self.held.insert((block, Some(*name)));
                }
            }
            Step::Remove(names) => {
                for name in names {
                    if let Some(block) = self.names.remove(name) {
                        self.release(rule, block, *name);
                    }
                }
            }
            Step::MoveOut(name) => {
                if let Some(block) = self.names.get(name).copied() {
                    self.release(rule, block, *name);
                }
            }
            Step::MoveIn(name) => {
                if let Some(block) = self.names.get(name) {
                    self.held.insert((*block, Some(*name)));
                }
            }
            Step::Confirm(tokens) => {
                for block in chain(tokens) {
                    if !self.names.values().any(|named| *named == block.hash) {
                        return;
                    }
                    if !self.blocks().contains(&block.hash) {
                        self.held.insert((block.hash, None));
                    }
                }
            }
            Step::Forget => self.held.clear(),
            Step::Clear => *self = Self::default(),
        }
    }
}

fn chain(tokens: &[u32]) -> Vec<StoredBlock> {
    let mut parent = None;
    let blocks = tokens.iter().map(|token| {
        let block = stored(parent, *token);
        parent = Some(block.hash);
        block
    });
    blocks.collect()
}

fn apply(mirror: &mut Mirror<()>, step: &Step) -> Vec<KvEvent> {
    match step {
        Step::Store(parent, blocks) => {
            let parent = match parent {
                Some(name) => match mirror.named(EngineHash(*name)) {
                    Some(named) => Some(named.block.hash),
                    None => return Vec::new(),
                },
                None => None,
            };
            let blocks = blocks.iter().map(|(name, token)| block(*name, *token));
            mirror.store(parent, blocks, ()).unwrap()
        }
        Step::Remove(names) => {
            let removal = mirror.remove(names.iter().copied().map(EngineHash));
            removal.into_event().into_iter().collect()
        }
        Step::MoveOut(name) => mirror.move_out(EngineHash(*name)).into_iter().collect(),
        Step::MoveIn(name) => mirror.move_in(EngineHash(*name)).into_iter().collect(),
        Step::Confirm(tokens) => mirror.confirm(&chain(tokens)).into_iter().collect(),
        Step::Forget => vec![mirror.forget()],
        Step::Clear => vec![mirror.clear()],
    }
}

fn follow(follower: &mut BTreeSet<BlockHash>, event: KvEvent) {
    match event {
        KvEvent::Stored { blocks, .. } => {
            follower.extend(blocks.iter().map(|block| block.hash));
        }
        KvEvent::Removed { blocks } => follower.retain(|block| !blocks.contains(block)),
        KvEvent::Cleared => follower.clear(),
    }
}

proptest! {
    #[test]
    fn the_mirror_is_the_model_and_the_events_are_the_mirror(steps in steps()) {
        for rule in RULES {
            let (mut mirror, mut model) = (Mirror::new(rule), Model::default());
            let mut follower = BTreeSet::new();
            for step in &steps {
                model.apply(rule, step);
                for event in apply(&mut mirror, step) {
                    follow(&mut follower, event);
                }
                let held: BTreeSet<BlockHash> = mirror.blocks().collect();
                prop_assert_eq!(&held, &model.blocks(), "{:?} after {:?}", rule, step);
                prop_assert_eq!(&held, &follower, "{:?} after {:?}", rule, step);
                let named: BTreeSet<BlockHash> = model.names.values().copied().collect();
                let counted: BTreeSet<BlockHash> = mirror.name_counts.keys().copied().collect();
                prop_assert_eq!(&named, &counted);
                prop_assert!(held.is_subset(&named), "held without a name");
            }
        }
    }

    /// Why a dump can replace events where a block goes with its last name.
    #[test]
    fn with_the_last_name_blocks_are_those_of_the_names(steps in steps()) {
        let mut mirror = Mirror::new(SharedBlock::GoneWithLastName);
        for step in &steps {
            if let Step::Store(..) | Step::Remove(_) | Step::Clear = step {
                apply(&mut mirror, step);
            }
        }
        let held: BTreeSet<BlockHash> = mirror.blocks().collect();
        let named = mirror.names.values().map(|named| named.block.hash);
        prop_assert_eq!(held, named.collect::<BTreeSet<_>>());
    }
}
