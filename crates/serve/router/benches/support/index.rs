//! Our index, fed by a scene.

#![allow(
    dead_code,
    reason = "each benchmark includes this file and uses a part of it"
)]

use contract::{BlockHash, KvEvent};
use router::prefix_index::PrefixIndex;

use crate::scene::Scene;

/// An index and the place where it writes its answers.
#[derive(Debug)]
pub(crate) struct Indexed {
    pub(crate) index: PrefixIndex,
    pub(crate) depths: Vec<u32>,
}

impl Indexed {
    pub(crate) fn empty(workers: usize) -> Self {
        let mut index = PrefixIndex::default();
        index.reserve_slots(workers);
        Self {
            index,
            depths: vec![0; workers],
        }
    }

    pub(crate) fn of(scene: &Scene) -> Self {
        let mut indexed = Self::empty(scene.workers);
        indexed.apply(&scene.events);
        indexed
    }

    /// What the router does with a batch that continues its feed.
    pub(crate) fn apply(&mut self, events: &[(usize, KvEvent)]) {
        for (worker, event) in events {
            match event {
                KvEvent::Stored { blocks, .. } => {
                    for block in blocks {
                        self.index.insert(*worker, block.hash);
                    }
                }
                KvEvent::Removed { blocks } => {
                    for block in blocks {
                        self.index.remove(*worker, *block);
                    }
                }
                KvEvent::Cleared => self.index.forget(*worker),
            }
        }
    }

    /// How many leading blocks each worker holds.
    pub(crate) fn look_up(&mut self, chain: &[BlockHash]) -> &[u32] {
        self.index.overlap(chain, &mut self.depths);
        &self.depths
    }
}
