//! Every way in which a feed can break, and a worker whose messages are lost at random.

use contract::{BlockHash, LocalHash, StoredBlock, WorkerId};
use proptest::prelude::*;

use super::*;

/// A feed with its index, and the texts in which the tables below are written.
struct Rig {
    feed: Feed,
    index: PrefixIndex,
}

impl Rig {
    fn new() -> Self {
        let mut index = PrefixIndex::default();
        index.reserve_slots(1);
        Self {
            feed: Feed::default(),
            index,
        }
    }

    fn observe(&mut self, epoch: u64, sequence: u64, events: Vec<KvEvent>) -> Observed {
        let batch = KvBatch {
            worker: WorkerId(1),
            epoch,
            sequence,
            events,
        };
        self.feed
            .observe(&batch, &mut Holdings::new(&mut self.index, 0))
    }

    fn restore(&mut self, epoch: u64, next_sequence: u64, blocks: &[u64]) -> Observed {
        let blocks = blocks.iter().copied().map(BlockHash).collect();
        let snapshot = KvSnapshot {
            epoch,
            next_sequence,
            blocks,
        };
        self.feed
            .restore(&snapshot, &mut Holdings::new(&mut self.index, 0))
    }

    fn holds(&self, block: u64) -> bool {
        let mut depths = [0];
        self.index.overlap(&[BlockHash(block)], &mut depths);
        depths == [1]
    }

    fn held(&self) -> Vec<u64> {
        (0..64).filter(|&block| self.holds(block)).collect()
    }
}

fn stored(blocks: &[u64]) -> KvEvent {
    let blocks = blocks
        .iter()
        .map(|&block| StoredBlock {
            hash: BlockHash(block),
            local: LocalHash(block),
        })
        .collect();
    KvEvent::Stored {
        parent: None,
        blocks,
    }
}

fn removed(blocks: &[u64]) -> KvEvent {
    KvEvent::Removed {
        blocks: blocks.iter().copied().map(BlockHash).collect(),
    }
}

#[test]
fn a_contiguous_feed_is_applied_as_it_comes() {
    let mut rig = Rig::new();
    assert_eq!(rig.feed.state(), FeedState::Silent);
    assert_eq!(
        rig.observe(9, 0, vec![stored(&[1, 2, 3])]),
        Observed::Applied
    );
    assert_eq!(
        rig.observe(9, 1, vec![removed(&[3]), stored(&[4])]),
        Observed::Applied
    );
    assert_eq!(rig.held(), [1, 2, 4]);
    assert_eq!(rig.observe(9, 1, vec![stored(&[5])]), Observed::Duplicate);
    assert_eq!(rig.observe(9, 2, vec![KvEvent::Cleared]), Observed::Applied);
    assert!(rig.held().is_empty());
    assert_eq!(rig.feed.state(), FeedState::Live);
}

#[test]
fn a_gap_waits_for_a_snapshot_and_replays_what_came_meanwhile() {
    let mut rig = Rig::new();
    rig.observe(9, 0, vec![stored(&[1])]);
    assert_eq!(
        rig.observe(9, 3, vec![stored(&[4])]),
        Observed::NeedsSnapshot
    );
    assert_eq!(rig.observe(9, 4, vec![stored(&[5])]), Observed::Buffered);
    assert_eq!(rig.held(), [1], "old entries stay until the snapshot comes");
    // The snapshot contains batch 3 but not 4.
    assert_eq!(rig.restore(9, 4, &[2, 3, 4]), Observed::Applied);
    assert_eq!(rig.held(), [2, 3, 4, 5]);
    assert_eq!(rig.observe(9, 5, vec![removed(&[5])]), Observed::Applied);
    assert_eq!(rig.held(), [2, 3, 4]);
}

#[test]
fn a_gap_after_the_snapshot_asks_for_another() {
    let mut rig = Rig::new();
    assert_eq!(
        rig.observe(9, 5, vec![stored(&[5])]),
        Observed::NeedsSnapshot
    );
    assert_eq!(rig.observe(9, 7, vec![stored(&[7])]), Observed::Buffered);
    assert_eq!(rig.restore(9, 5, &[1]), Observed::NeedsSnapshot);
    assert_eq!(rig.feed.state(), FeedState::AwaitingSnapshot);
    assert_eq!(rig.restore(9, 8, &[1, 5, 6, 7]), Observed::Applied);
    assert_eq!(rig.held(), [1, 5, 6, 7]);
    assert_eq!(rig.observe(9, 8, vec![stored(&[8])]), Observed::Applied);
}

#[test]
fn a_restart_forgets_the_old_cache_at_once() {
    let mut rig = Rig::new();
    rig.observe(9, 0, vec![stored(&[1, 2])]);
    assert_eq!(
        rig.observe(10, 0, vec![stored(&[3])]),
        Observed::NeedsSnapshot
    );
    assert!(rig.held().is_empty());
    assert_eq!(rig.restore(10, 0, &[]), Observed::Applied);
    assert_eq!(rig.held(), [3]);
}

#[test]
fn a_snapshot_of_another_epoch_than_the_batches_kept_is_not_the_last_word() {
    let mut rig = Rig::new();
    rig.observe(9, 5, vec![stored(&[5])]);
    assert_eq!(rig.observe(10, 0, vec![stored(&[7])]), Observed::Buffered);
    assert_eq!(rig.restore(9, 6, &[5]), Observed::NeedsSnapshot);
    assert_eq!(rig.restore(10, 1, &[7]), Observed::Applied);
    assert_eq!(rig.held(), [7]);
}

#[test]
fn a_snapshot_that_the_feed_has_passed_is_ignored() {
    let mut rig = Rig::new();
    rig.observe(9, 0, vec![stored(&[1])]);
    rig.observe(9, 1, vec![stored(&[2])]);
    assert_eq!(rig.restore(9, 1, &[1]), Observed::Duplicate);
    assert_eq!(rig.held(), [1, 2]);
}

#[test]
fn a_worker_met_late_is_known_from_its_snapshot() {
    let mut rig = Rig::new();
    assert_eq!(rig.restore(9, 40, &[1, 2]), Observed::Applied);
    assert_eq!(rig.observe(9, 39, vec![removed(&[1])]), Observed::Duplicate);
    assert_eq!(rig.observe(9, 40, vec![removed(&[2])]), Observed::Applied);
    assert_eq!(rig.held(), [1]);
}

#[test]
fn the_last_number_of_all_is_a_number() {
    let mut rig = Rig::new();
    assert_eq!(rig.restore(9, u64::MAX, &[1]), Observed::Applied);
    assert_eq!(
        rig.observe(9, u64::MAX, vec![stored(&[2])]),
        Observed::Applied
    );
    assert_eq!(rig.held(), [1, 2]);
}

#[test]
fn what_waits_is_bounded_and_the_youngest_is_kept() {
    let mut rig = Rig::new();
    let last = 10 + MOST_BUFFERED as u64;
    for sequence in 1..=last {
        rig.observe(9, sequence, vec![stored(&[sequence % 64])]);
    }
    assert_eq!(
        rig.feed.waiting.as_ref().map(VecDeque::len),
        Some(MOST_BUFFERED)
    );
    assert_eq!(
        rig.restore(9, 5, &[]),
        Observed::NeedsSnapshot,
        "batch 5 is gone"
    );
    assert_eq!(rig.restore(9, 11, &[]), Observed::Applied);
    assert_eq!(rig.feed.next, Some((9, last + 1)));
}

proptest! {
    /// A worker that stores and removes blocks and sometimes restarts, over a feed that
    /// loses and repeats messages; snapshots arrive some batches after they are asked for.
    #[test]
    fn a_lossy_feed_ends_up_with_the_truth(
        steps in prop::collection::vec((0_u64..64, 0_u8..16, any::<bool>()), 1..120),
        delay in 0_usize..5,
    ) {
        let mut rig = Rig::new();
        let (mut epoch, mut sequence) = (1, 0);
        let mut truth = std::collections::BTreeSet::new();
        let mut asked: Option<usize> = None;
        // A last, undisturbed stretch in which the feed must mend.
        let quiet = (0..20).map(|step| (step, 8, true));
        for (block, chance, store) in steps.into_iter().chain(quiet) {
            if chance == 0 {
                (epoch, sequence) = (epoch + 1, 0);
                truth.clear();
            }
            let event = if store {
                truth.insert(block);
                stored(&[block])
            } else {
                truth.remove(&block);
                removed(&[block])
            };
            let copies = match chance { 1 | 2 => 0, 3 => 2, _ => 1 };
            for _ in 0..copies {
                if rig.observe(epoch, sequence, vec![event.clone()]) == Observed::NeedsSnapshot {
                    asked = Some(delay);
                }
            }
            sequence += 1;
            match asked {
                Some(0) => {
                    let blocks: Vec<u64> = truth.iter().copied().collect();
                    let again = rig.restore(epoch, sequence, &blocks) == Observed::NeedsSnapshot;
                    asked = again.then_some(delay);
                }
                Some(left) => asked = Some(left - 1),
                None => {}
            }
        }
        prop_assert_eq!(rig.feed.state(), FeedState::Live);
        prop_assert_eq!(rig.held(), truth.into_iter().collect::<Vec<_>>());
    }
}
