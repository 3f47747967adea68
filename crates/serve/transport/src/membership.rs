//! Which workers there are.
//!
//! What discovers workers (the demo itself, etcd, Kubernetes or a list) reports them to a
//! [`Roster`]; the router listens to its [`Changes`]. A change is reported once and in order, so
//! the listener's view is exact without polling.

use std::sync::Arc;

use contract::{Lease, WorkerCard, WorkerId};
use tokio::sync::mpsc;

use crate::feed::Feed;
use crate::link::WorkerLink;

/// Changes that may wait. Announcing is rare; a full queue makes the announcer wait.
const CAPACITY: usize = 64;

/// A worker as it joins.
#[derive(Debug)]
pub struct Member {
    pub card: WorkerCard,
    pub link: Arc<dyn WorkerLink>,
    pub feed: Feed,
    /// It was there before this frontend and may hold blocks already, so the router asks for a
    /// snapshot at once.
    pub warm: bool,
    /// How many requests this frontend may have on the worker to begin with, where several
    /// frontends share it.
    pub lease: Option<Lease>,
}

#[derive(Debug)]
pub enum Change {
    Joined(Box<Member>),
    /// Send it nothing new; what it runs will finish.
    Draining(WorkerId),
    Left(WorkerId),
}

/// Creates a connected pair.
pub fn roster() -> (Roster, Changes) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    (Roster { sender }, Changes { receiver })
}

/// Announces workers that join or leave.
#[derive(Clone, Debug)]
pub struct Roster {
    sender: mpsc::Sender<Change>,
}

impl Roster {
    pub async fn announce(&self, change: Change) {
        // Fails only when the frontend is gone, and then there is nobody to tell.
        let _ = self.sender.send(change).await;
    }
}

/// Receives the changes that a [`Roster`] announces.
#[derive(Debug)]
pub struct Changes {
    receiver: mpsc::Receiver<Change>,
}

impl Changes {
    /// The next change; `None` once the roster is gone.
    pub async fn next(&mut self) -> Option<Change> {
        self.receiver.recv().await
    }
}
