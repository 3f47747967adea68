//! The workers of this process: starts them, and adds or removes them while
//! serving.
//!
//! One task owns the workers. The API asks it through [`frontend::FleetCommand`]; it tells
//! the routing side through the roster, exactly as a discovery service would. A worker whose
//! engine failed leaves at once, and when no other is left the fleet ends with an error.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use anyhow::bail;
use contract::{WorkerCard, WorkerId};
use frontend::{FleetCommand, FleetError};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;
use transport::{Change, Member, Roster};
use worker::{Worker, WorkerContext};

use crate::backend::Backend;

#[derive(Debug)]
pub(crate) struct Fleet {
    backend: Arc<Backend>,
    context: WorkerContext,
    roster: Roster,
    workers: BTreeMap<WorkerId, Worker>,
    next: u64,
    /// Workers at once, those that are being removed included.
    most: usize,
    /// Running removals.
    drains: TaskTracker,
}

impl Fleet {
    /// A fleet without workers, which clients of the API may enlarge up to `most`.
    pub(crate) fn new(
        backend: Arc<Backend>,
        context: WorkerContext,
        roster: Roster,
        most: usize,
    ) -> Self {
        Self {
            backend,
            context,
            roster,
            workers: BTreeMap::new(),
            next: 0,
            most,
            drains: TaskTracker::new(),
        }
    }

    /// Starts one more worker for a client, if there may be more.
    async fn enlarge(&mut self) -> Result<WorkerCard, FleetError> {
        let most = self.most;
        if self.workers.len() + self.drains.len() >= most {
            return Err(FleetError::Full { most });
        }
        self.add().await.map_err(|error| FleetError::Start {
            detail: format!("{error:#}"),
        })
    }

    /// Starts one more worker and announces it.
    pub(crate) async fn add(&mut self) -> anyhow::Result<WorkerCard> {
        let id = WorkerId(self.next);
        self.next += 1;
        let card = self.card(id);
        let (worker, member) = self.backend.start(card.clone(), &self.context)?;
        self.join(worker, member).await;
        Ok(card)
    }

    /// Announces a worker that runs.
    async fn join(&mut self, worker: Worker, member: Member) {
        self.workers.insert(worker.card().id, worker);
        self.roster.announce(Change::Joined(Box::new(member))).await;
    }

    fn card(&self, id: WorkerId) -> WorkerCard {
        self.backend.card(id, &format!("worker-{id}"))
    }

    /// Puts as many workers of another profile in the place of all: first the new ones join, so
    /// that no request is refused.
    async fn replace(&mut self, profile: &str) -> Result<Vec<WorkerCard>, FleetError> {
        let wrong = |error: anyhow::Error| FleetError::Profile {
            detail: format!("{error:#}"),
        };
        let backend = self.backend.with_profile(profile).map_err(wrong)?;
        if backend.is_like(&self.backend) {
            // Asked for twice.
            return Ok(self.workers.keys().map(|&id| self.card(id)).collect());
        }
        let old: Vec<WorkerId> = self.workers.keys().copied().collect();
        let most = self.most;
        if 2 * old.len() + self.drains.len() > most {
            return Err(FleetError::Full { most });
        }
        let before = std::mem::replace(&mut self.backend, Arc::new(backend));
        let mut cards: Vec<WorkerCard> = Vec::new();
        let mut leaving = old.clone();
        let mut outcome = Ok(());
        for _ in &old {
            match self.add().await {
                Ok(card) => cards.push(card),
                Err(error) => {
                    let detail = format!("{error:#}");
                    outcome = Err(FleetError::Start { detail });
                    self.backend = before;
                    leaving = cards.iter().map(|card| card.id).collect();
                    break;
                }
            }
        }
        for id in leaving {
            self.remove(id).await?;
        }
        outcome.map(|()| cards)
    }

    /// Takes a worker out: nothing new is sent to it, what it runs finishes, then it leaves.
    async fn remove(&mut self, id: WorkerId) -> Result<(), FleetError> {
        let worker = self.workers.remove(&id).ok_or(FleetError::UnknownWorker)?;
        self.roster.announce(Change::Draining(id)).await;
        let roster = self.roster.clone();
        self.drains.spawn(async move {
            worker.drain().await;
            roster.announce(Change::Left(id)).await;
        });
        Ok(())
    }

    /// Takes out a worker whose engine has stopped by itself. Whether another is left.
    async fn lose(&mut self, id: WorkerId) -> bool {
        if let Some(worker) = self.workers.remove(&id) {
            error!(worker = %id, "the worker's engine failed; the worker leaves");
            self.roster.announce(Change::Left(id)).await;
            // Nothing of it runs any more: this takes back its metrics.
            worker.drain().await;
        }
        !self.workers.is_empty()
    }

    async fn execute(&mut self, command: FleetCommand) {
        // An asker that left does not need the answer.
        match command {
            FleetCommand::Add { reply } => {
                let added = self.enlarge().await;
                let _ = reply.send(added);
            }
            FleetCommand::Replace { profile, reply } => {
                let outcome = self.replace(&profile).await;
                let _ = reply.send(outcome);
            }
            FleetCommand::Remove { worker, reply } => {
                let outcome = self.remove(worker).await;
                let _ = reply.send(outcome);
            }
        }
    }

    /// Serves commands until `stop` fires, then lets every worker finish. Ends with an error when the
    /// engine of the last worker failed.
    pub(crate) async fn run(
        mut self,
        mut commands: mpsc::Receiver<FleetCommand>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                command = commands.recv() => match command {
                    Some(command) => self.execute(command).await,
                    None => break,
                },
                id = failed(&self.workers) => {
                    if !self.lose(id).await {
                        bail!("the engine of the last worker failed; see the log");
                    }
                }
            }
        }
        for worker in std::mem::take(&mut self.workers).into_values() {
            self.drains.spawn(worker.drain());
        }
        self.drains.close();
        self.drains.wait().await;
        Ok(())
    }
}

/// Waits for the engine of any worker to stop by itself.
async fn failed(workers: &BTreeMap<WorkerId, Worker>) -> WorkerId {
    let waiting = workers.iter().map(|(id, worker)| async move {
        worker.failed().await;
        *id
    });
    let mut waiting: FuturesUnordered<_> = waiting.collect();
    match waiting.next().await {
        Some(id) => id,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;
