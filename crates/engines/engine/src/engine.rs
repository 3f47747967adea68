//! The engine's loop: take commands, plan, run the step, report the results.
//!
//! One task owns the scheduler and the executor, so neither has a lock. Everything that
//! decides is in [`crate::scheduler`]; here is only waiting, clocks and messages. After a
//! step the order is: cache events to the feed, then chunks to their readers, then figures.
//! A router therefore learns of an answer's blocks before the answer's reader can act on its
//! end.
//!
//! # Ends
//!
//! - **Drain.** Once the token fires, new requests are refused; the loop ends when the last
//!   sequence has.
//! - **Failure.** An executor's error fails every stream and ends the loop. The worker is
//!   gone for good; its owner decides what follows. Requests in the step that failed get an
//!   error that says that they may be the cause. An error of one sequence ends only that one.
//! - **Dropped.** A runtime that shuts down drops the loop; streams end with an error.

mod inbox;
#[cfg(test)]
mod tests;
mod utilization;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contract::{
    Clock, FeedMessage, GenerateRequest, KvBatch, KvSnapshot, LinkError, Moment, TokenStream,
    WorkerId, WorkerStatus, token_stream,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info, info_span};

use self::inbox::{Command, Inbox};
use self::utilization::{Utilization, WINDOW};
use crate::executor::{Executor, ExecutorError, Limits};
use crate::metrics::EngineMetrics;
use crate::scheduler::{Scheduler, Submission};

/// Routers correct themselves by events; the status only has to keep up with people's eyes.
const STATUS_INTERVAL: Duration = Duration::from_millis(50);

/// Where an engine's messages go.
pub type Feed = Box<dyn FnMut(FeedMessage) + Send>;

/// What an engine is connected to.
pub struct Wiring {
    pub worker: WorkerId,
    /// Differs each time the worker starts.
    pub epoch: u64,
    pub clock: Clock,
    pub metrics: EngineMetrics,
    /// Called from the engine's loop, so it must not wait.
    pub feed: Feed,
}

impl fmt::Debug for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wiring")
            .field("worker", &self.worker)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// Starts engines.
#[derive(Debug)]
pub struct Engine;

impl Engine {
    /// Starts an engine on `tasks`. It stops once `drain` fires and its work is done.
    pub fn spawn<E: Executor>(
        executor: E,
        wiring: Wiring,
        tasks: &TaskTracker,
        drain: CancellationToken,
    ) -> EngineHandle {
        let worker = wiring.worker;
        let limits = executor.limits();
        let scheduler = Scheduler::new(worker, limits.clone());
        let shared = Arc::new(Shared {
            worker,
            limits,
            clock: wiring.clock,
            metrics: wiring.metrics.clone(),
            inbox: Inbox::new(worker, drain.clone()),
            status: Mutex::new(scheduler.status()),
        });
        let books = Books {
            scheduler,
            shared: Arc::clone(&shared),
            drain,
            feed: wiring.feed,
            epoch: wiring.epoch,
            next_sequence: 0,
            utilization: Utilization::default(),
            started: wiring.clock.now(),
            reported: None,
            commands: Vec::new(),
        };
        let task = Task { executor, books };
        tasks.spawn(task.run().instrument(info_span!("engine", %worker)));
        EngineHandle { shared }
    }
}

/// The way to an engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    worker: WorkerId,
    limits: Limits,
    clock: Clock,
    metrics: EngineMetrics,
    inbox: Inbox,
    status: Mutex<WorkerStatus>,
}

impl EngineHandle {
    /// Hands a request to the engine. Never waits; dropping the stream cancels.
    pub fn generate(&self, request: GenerateRequest) -> Result<TokenStream, LinkError> {
        let shared = &*self.shared;
        if let Err(error) = shared.limits.check(shared.worker, &request) {
            shared.metrics.count_refused();
            return Err(error);
        }
        let (sender, stream) = token_stream(shared.worker);
        let arrival = shared.clock.now();
        shared.inbox.push(Command::Generate(Box::new(Submission {
            request,
            sender,
            arrival,
        })))?;
        shared.metrics.count_accepted();
        Ok(stream)
    }

    /// Every reusable block, and the number of the first batch that is not contained.
    pub async fn snapshot(&self) -> Result<KvSnapshot, LinkError> {
        let (reply, snapshot) = oneshot::channel();
        self.shared.inbox.push(Command::Snapshot(reply))?;
        snapshot.await.map_err(|_| self.shared.inbox.stopped())
    }

    /// Forgets every reusable block. Running requests are not disturbed.
    pub async fn reset_cache(&self) -> Result<(), LinkError> {
        let (reply, done) = oneshot::channel();
        self.shared.inbox.push(Command::Reset(reply))?;
        done.await.map_err(|_| self.shared.inbox.stopped())
    }

    /// How busy the engine was after its last step.
    pub fn status(&self) -> WorkerStatus {
        self.shared.status.lock().clone()
    }
}

/// The engine's task, which owns all mutable state.
struct Task<E> {
    executor: E,
    books: Books,
}

/// All state but the executor: compiled once, whatever computes the steps.
struct Books {
    scheduler: Scheduler,
    shared: Arc<Shared>,
    drain: CancellationToken,
    feed: Feed,
    epoch: u64,
    /// Number of the next batch of cache events.
    next_sequence: u64,
    utilization: Utilization,
    started: Moment,
    /// When the last status went out.
    reported: Option<Moment>,
    /// Kept between turns for its memory.
    commands: Vec<Command>,
}

impl<E: Executor> Task<E> {
    async fn run(self) {
        let Self {
            mut executor,
            mut books,
        } = self;
        loop {
            let draining = books.drain.is_cancelled();
            books.take_commands();
            let began = books.shared.clock.now();
            if let Some(batch) = books.scheduler.plan(began) {
                let output = executor.step(&batch).await;
                let output = output.and_then(|output| output.check(&batch));
                match output {
                    Ok(output) => {
                        let ended = books.shared.clock.now();
                        books.scheduler.commit(output, ended);
                        books.publish_step(began, ended);
                        if began == ended {
                            // A step without duration never waited, and others want to run.
                            tokio::task::yield_now().await;
                        }
                    }
                    Err(error) => return books.fail(&error),
                }
            } else {
                books.report(began);
                if draining && books.shared.inbox.close_if_empty() {
                    info!("engine has drained");
                    return;
                }
                books.wait_for_work(draining).await;
            }
        }
    }
}

impl Books {
    fn take_commands(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        self.shared.inbox.take(&mut commands);
        for command in commands.drain(..) {
            match command {
                Command::Generate(submission) => {
                    if self.scheduler.submit(*submission).is_err() {
                        self.shared.metrics.count_refused();
                    }
                }
                Command::Snapshot(reply) => {
                    self.publish_events();
                    // The caller may have given up; nothing depends on the answer here.
                    let _ = reply.send(KvSnapshot {
                        epoch: self.epoch,
                        next_sequence: self.next_sequence,
                        blocks: self.scheduler.pool().reusable(),
                    });
                }
                Command::Reset(reply) => {
                    self.scheduler.reset_cache();
                    self.publish_events();
                    let _ = reply.send(());
                }
            }
        }
        self.commands = commands;
    }

    /// Publishes a step, in the order that the module's header promises.
    fn publish_step(&mut self, began: Moment, ended: Moment) {
        self.publish_events();
        self.scheduler.deliver();
        self.utilization.record(began, ended);
        self.shared
            .metrics
            .record_step(ended - began, self.scheduler.step_totals());
        if self
            .reported
            .is_none_or(|reported| ended - reported >= STATUS_INTERVAL)
        {
            self.report(ended);
        } else {
            self.update_status(ended);
            self.record_milestones();
        }
    }

    fn publish_events(&mut self) {
        let events = self.scheduler.take_events();
        if events.is_empty() {
            return;
        }
        let batch = KvBatch {
            worker: self.shared.worker,
            epoch: self.epoch,
            sequence: self.next_sequence,
            events,
        };
        self.next_sequence += 1;
        (self.feed)(FeedMessage::Kv(batch));
    }

    /// Publishes the status to the feed and the metrics.
    fn report(&mut self, now: Moment) {
        self.record_milestones();
        let status = self.update_status(now);
        let evictions = self.scheduler.pool().evictions();
        self.shared
            .metrics
            .record_status(&status, evictions, now - self.started);
        (self.feed)(FeedMessage::Status(status));
        self.reported = Some(now);
    }

    fn update_status(&mut self, now: Moment) -> WorkerStatus {
        let utilization = self.utilization.share(now);
        let status = WorkerStatus {
            utilization,
            ..self.scheduler.status()
        };
        self.shared.status.lock().clone_from(&status);
        status
    }

    fn record_milestones(&mut self) {
        for milestone in self.scheduler.drain_milestones() {
            self.shared.metrics.record_milestone(&milestone);
        }
    }

    /// Waits for work. Reports once more when the busy time has left the window, so that an
    /// idle worker does not seem busy forever.
    async fn wait_for_work(&mut self, draining: bool) {
        let settled = tokio::time::sleep(WINDOW);
        let busy = self.shared.status.lock().utilization > 0.0;
        tokio::select! {
            () = self.shared.inbox.rung() => {}
            () = self.drain.cancelled(), if !draining => {}
            () = settled, if busy => {}
        }
    }

    fn fail(&mut self, error: &ExecutorError) {
        error!(%error, "executor failed; the engine stops");
        let detail = error.to_string();
        let suspects = self.scheduler.fail_planned(&detail);
        self.shared.metrics.count_interrupted(suspects);
        let interrupted = LinkError::Interrupted {
            worker: self.shared.worker,
            detail,
        };
        self.shared
            .metrics
            .count_interrupted(self.scheduler.fail_all(&interrupted));
        for command in self.shared.inbox.close() {
            if let Command::Generate(submission) = command {
                let Submission { sender, .. } = *submission;
                sender.fail(interrupted.clone());
                self.shared.metrics.count_interrupted(1);
            }
        }
        self.report(self.shared.clock.now());
    }
}

impl Drop for Books {
    /// However the loop ended, nobody may wait for an answer that will not come.
    fn drop(&mut self) {
        drop(self.shared.inbox.close());
    }
}
