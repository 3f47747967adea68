//! What went wrong without failing a request, for whoever operates this.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Counts {
    refused_streams: AtomicU64,
    unreadable_registrations: AtomicU64,
    unreadable_events: AtomicU64,
    events_of_strangers: AtomicU64,
    orphaned_blocks: AtomicU64,
    snapshots: AtomicU64,
    channels: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections to the response port that answered no request of ours.
    pub refused_streams: u64,
    pub unreadable_registrations: u64,
    pub unreadable_events: u64,
    /// Cache events of workers that are not members.
    pub events_of_strangers: u64,
    /// Blocks whose predecessor is unknown: the index does not have them.
    pub orphaned_blocks: u64,
    /// Tree dumps that workers were asked for.
    pub snapshots: u64,
    /// Publishers of cache events that are listened to now.
    pub channels: u64,
}

impl Counts {
    pub fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            refused_streams: read(&self.refused_streams),
            unreadable_registrations: read(&self.unreadable_registrations),
            unreadable_events: read(&self.unreadable_events),
            events_of_strangers: read(&self.events_of_strangers),
            orphaned_blocks: read(&self.orphaned_blocks),
            snapshots: read(&self.snapshots),
            channels: read(&self.channels),
        }
    }

    pub(crate) fn refused_stream(&self) {
        self.refused_streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unreadable_registration(&self) {
        self.unreadable_registrations
            .fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unreadable_event(&self) {
        self.unreadable_events.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn event_of_stranger(&self) {
        self.events_of_strangers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn orphaned_blocks(&self, blocks: u64) {
        self.orphaned_blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn channels(&self, channels: usize) {
        self.channels.store(channels as u64, Ordering::Relaxed);
    }
}
