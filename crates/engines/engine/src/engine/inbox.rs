//! The handle through which the rest of the process sends commands to an engine.
//!
//! Senders append under a short lock and ring a bell; the loop takes everything at once.
//! There is no capacity, because a sender must not wait and what it sends is already
//! bounded: the frontend's admission limits how many requests exist.

use contract::{KvSnapshot, LinkError, WorkerId};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::scheduler::Submission;

#[derive(Debug)]
pub(super) enum Command {
    Generate(Box<Submission>),
    Snapshot(oneshot::Sender<KvSnapshot>),
    Reset(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(super) struct Inbox {
    worker: WorkerId,
    drain: CancellationToken,
    queue: Mutex<Queue>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    commands: Vec<Command>,
    /// The loop has ended: nothing will be taken any more.
    closed: bool,
}

impl Inbox {
    pub(super) fn new(worker: WorkerId, drain: CancellationToken) -> Self {
        Self {
            worker,
            drain,
            queue: Mutex::default(),
            bell: Notify::new(),
        }
    }

    /// Leaves a command for the loop, unless the engine takes none any more.
    pub(super) fn push(&self, command: Command) -> Result<(), LinkError> {
        {
            let mut queue = self.queue.lock();
            // Under the lock, so that the loop never ends between this look and the push.
            let draining = self.drain.is_cancelled();
            if draining && (queue.closed || matches!(command, Command::Generate(_))) {
                return Err(LinkError::Draining {
                    worker: self.worker,
                });
            }
            if queue.closed {
                return Err(self.stopped());
            }
            queue.commands.push(command);
        }
        self.bell.notify_one();
        Ok(())
    }

    /// Exchanges the waiting commands for the empty `spare`.
    pub(super) fn take(&self, spare: &mut Vec<Command>) {
        debug_assert!(spare.is_empty(), "commands would be lost");
        std::mem::swap(&mut self.queue.lock().commands, spare);
    }

    /// Closes the inbox if nothing is in it, and says whether it did.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.closed |= queue.commands.is_empty();
        queue.closed
    }

    /// Closes the inbox and returns what was still in it.
    pub(super) fn close(&self) -> Vec<Command> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        std::mem::take(&mut queue.commands)
    }

    /// Waits until something was pushed since the last call.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub(super) fn stopped(&self) -> LinkError {
        LinkError::Unreachable {
            worker: self.worker,
            detail: "its engine has stopped".to_owned(),
        }
    }
}
