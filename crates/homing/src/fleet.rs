//! The workers of this process: starts them, and adds or removes them while
//! serving.
//!
//! One task owns the workers. The API asks it through [`frontend::FleetCommand`]; it tells
//! the routing side through the roster, exactly as a discovery service would.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::{WorkerCard, WorkerId};
use frontend::{FleetCommand, FleetError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use transport::{Change, Roster};
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
        let card = self.backend.card(id, &format!("worker-{id}"));
        let (worker, member) = self.backend.start(card.clone(), &self.context)?;
        self.workers.insert(id, worker);
        self.roster.announce(Change::Joined(Box::new(member))).await;
        Ok(card)
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

    /// Serves commands until `stop` fires, then lets every worker finish.
    pub(crate) async fn run(
        mut self,
        mut commands: mpsc::Receiver<FleetCommand>,
        stop: CancellationToken,
    ) {
        while let Some(Some(command)) = stop.run_until_cancelled(commands.recv()).await {
            // An asker that left does not need the answer.
            match command {
                FleetCommand::Add { reply } => {
                    let added = self.enlarge().await;
                    let _ = reply.send(added);
                }
                FleetCommand::Remove { worker, reply } => {
                    let outcome = self.remove(worker).await;
                    let _ = reply.send(outcome);
                }
            }
        }
        for worker in std::mem::take(&mut self.workers).into_values() {
            self.drains.spawn(worker.drain());
        }
        self.drains.close();
        self.drains.wait().await;
    }
}
