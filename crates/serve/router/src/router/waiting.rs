//! Callers that wait for a slot, and how they are notified.
//!
//! The queue knows tickets; here is who holds them. A place is handed over in two steps: a
//! claim is bound under the lock and sent after it. A request that is dropped in between is
//! no longer in the queue and not yet answered; its channel is closed, so the placement
//! comes back to the sender, who drops it, which releases it. Dropped later, the placement
//! is in the channel and goes with it. In every order it is released exactly once.

use std::collections::BTreeMap;

use contract::Moment;
use tokio::sync::oneshot;

use super::{Placement, Router};
use crate::query::Ticket;
use crate::query::{Claim, RouteError};

type Answer = Result<Placement, RouteError>;

/// Under the router's lock, beside the queue.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    senders: BTreeMap<Ticket, oneshot::Sender<Answer>>,
}

impl Waiters {
    /// A turn that is waited for until the deadline.
    pub(super) fn enter(
        &mut self,
        router: &Router,
        ticket: Ticket,
        deadline: Option<Moment>,
    ) -> Turn {
        let (sender, receiver) = oneshot::channel();
        self.senders.insert(ticket, sender);
        Turn {
            router: router.clone(),
            ticket,
            deadline,
            receiver,
        }
    }

    pub(super) fn leave(
        &mut self,
        ticket: Ticket,
        outcome: Result<Claim, RouteError>,
    ) -> Option<Bound> {
        let sender = self.senders.remove(&ticket)?;
        Some(Bound { sender, outcome })
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }
}

/// The end of a wait, to be sent to the caller that waited.
#[derive(Debug)]
pub(super) struct Bound {
    sender: oneshot::Sender<Answer>,
    outcome: Result<Claim, RouteError>,
}

impl Bound {
    /// Not under the lock: a placement that nobody takes is released here.
    pub(super) fn deliver(self, router: &Router) {
        let answer = self.outcome.map(|claim| router.placement(claim));
        drop(self.sender.send(answer));
    }
}

/// A turn in the queue. Dropping it gives it up.
#[derive(Debug)]
pub(super) struct Turn {
    router: Router,
    ticket: Ticket,
    deadline: Option<Moment>,
    receiver: oneshot::Receiver<Answer>,
}

impl Turn {
    pub(super) async fn placement(mut self) -> Answer {
        while let Some(deadline) = self.deadline {
            let left = deadline.since(self.router.shared.clock.now());
            match tokio::time::timeout(left, &mut self.receiver).await {
                Ok(answer) => return Self::answered(answer),
                Err(_) => {
                    if let Some(error) = self.time_out() {
                        return Err(error);
                    }
                }
            }
        }
        Self::answered((&mut self.receiver).await)
    }

    fn answered(answer: Result<Answer, oneshot::error::RecvError>) -> Answer {
        answer.unwrap_or_else(|_| unreachable!("a sender is kept until it has been used"))
    }

    /// Gives up if the deadline has passed. A request that has just been bound is no longer in the
    /// queue, and has its answer in the channel.
    fn time_out(&mut self) -> Option<RouteError> {
        let now = self.router.shared.clock.now();
        let mut guarded = self.router.shared.guarded.lock();
        let guarded = &mut *guarded;
        if guarded.state.is_waiting(self.ticket) {
            let error = guarded.state.time_out(self.ticket, now)?;
            guarded.waiters.senders.remove(&self.ticket);
            guarded.metrics.refused(&error);
            guarded.metrics.levels(&guarded.state, now);
            return Some(error);
        }
        self.deadline = None;
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut guarded = self.router.shared.guarded.lock();
        if guarded.state.cancel(self.ticket) {
            guarded.waiters.senders.remove(&self.ticket);
        }
    }
}
