//! The events by which a worker reports its cache to the router.
//!
//! Every batch carries a sequence number that is contiguous per worker and epoch. A
//! receiver that sees a gap or a new epoch asks the worker for a [`KvSnapshot`] and goes
//! on from its sequence number. Applying an event twice is harmless.

use crate::block::{BlockHash, StoredBlock};
use crate::worker::{FrontendId, FrontendLoad, Lease, WorkerId, WorkerStatus};

/// One change of a worker's reusable blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// The blocks, in chain order, can be reused from now on.
    Stored {
        parent: Option<BlockHash>,
        blocks: Vec<StoredBlock>,
    },
    /// The blocks have been evicted.
    Removed { blocks: Vec<BlockHash> },
    /// The worker holds nothing any more.
    Cleared,
}

/// Events of one engine step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvBatch {
    pub worker: WorkerId,
    /// Changes when the worker restarts; its sequence then begins again at 0.
    pub epoch: u64,
    /// Number of this batch, contiguous within the epoch.
    pub sequence: u64,
    pub events: Vec<KvEvent>,
}

/// Everything a worker holds, as of a batch number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvSnapshot {
    pub epoch: u64,
    /// The first batch that is *not* contained in the snapshot.
    pub next_sequence: u64,
    pub blocks: Vec<BlockHash>,
}

/// What travels from a worker to everyone who routes to it.
#[derive(Clone, Debug)]
pub enum FeedMessage {
    Kv(KvBatch),
    Status(WorkerStatus),
    /// The worker's latest batch number. A reader that has not received up to it by now has
    /// missed batches.
    Head {
        epoch: u64,
        next_sequence: u64,
    },
    /// What every frontend is running on the worker, the reader included.
    Loads(Vec<(FrontendId, FrontendLoad)>),
    /// How many requests the reader may have on the worker at once.
    Lease(Lease),
    /// The worker takes nothing new; what it runs will finish.
    Draining,
}
