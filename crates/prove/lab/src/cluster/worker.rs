//! One worker without a task: scheduler and executor, and what the engine's loop keeps
//! beside them.
//!
//! Follows [`engine::Engine`]'s loop to the letter, because *when* things happen within a
//! moment is part of the system: requests that arrive during a step join the next one; a
//! step's cache events go out before its chunks; the next step is planned before any reader
//! can react to the last.

use std::sync::Arc;
use std::time::Duration;

use contract::{
    GenerateRequest, KvBatch, KvSnapshot, LinkError, Moment, TokenSender, WorkerCard, WorkerId,
    WorkerStatus,
};
use engine::sim::{AnswerBank, Sharing, SimExecutor};
use engine::{Limits, Scheduler, StepOutput, Submission};

use crate::change::WorkerPlan;

/// How often a worker reports its load, as the engine does.
const STATUS_INTERVAL: Duration = Duration::from_millis(50);

/// A request as it is handed to a worker.
#[derive(Debug)]
pub(super) struct Parcel {
    /// Names the request outside of the worker.
    pub(super) key: usize,
    pub(super) request: GenerateRequest,
    pub(super) sender: TokenSender,
    pub(super) arrival: Moment,
}

#[derive(Debug)]
pub(super) struct VirtualWorker {
    pub(super) id: WorkerId,
    pub(super) card: WorkerCard,
    /// What the router has placed here and not released.
    pub(super) in_flight: u32,
    pub(super) speed: f64,
    sharing: Sharing,
    /// No step is running and none is about to begin.
    pub(super) rests: bool,
    /// Tells steps of this life from those of an earlier one.
    pub(super) epoch: u64,
    limits: Limits,
    scheduler: Scheduler,
    executor: SimExecutor,
    inbox: Vec<Parcel>,
    /// The request of each sequence. Sequences are numbered in order of submission.
    keys: Vec<usize>,
    /// What the current step will have computed, and for whom.
    output: Option<StepOutput>,
    under_way: Option<UnderWay>,
    readers: Vec<usize>,
    next_batch: u64,
    reported: Option<Moment>,
}

/// When a step ends if as many workers compute until then as do now.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    ends: Moment,
    computing: usize,
}

/// The results of a finished step, in the order in which they are reported.
#[derive(Debug)]
pub(super) struct StepNews {
    pub(super) events: Option<KvBatch>,
    pub(super) status: Option<WorkerStatus>,
}

impl VirtualWorker {
    pub(super) fn new(id: WorkerId, plan: &WorkerPlan, seed: u64, epoch: u64) -> Self {
        let limits = plan.limits();
        Self {
            id,
            card: plan.card(id),
            in_flight: 0,
            speed: plan.speed,
            sharing: plan.profile.sharing.clone(),
            rests: true,
            epoch,
            scheduler: Scheduler::new(id, limits.clone()),
            executor: SimExecutor::new(&plan.profile, Arc::new(AnswerBank::default()), seed),
            limits,
            inbox: Vec::new(),
            keys: Vec::new(),
            output: None,
            under_way: None,
            readers: Vec::new(),
            next_batch: 0,
            reported: None,
        }
    }

    /// Whether all its slots are taken, as far as the router knows.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight >= self.limits.slots
    }

    /// Leaves a request for the next step, unless it could never run here.
    pub(super) fn accept(&mut self, parcel: Parcel) -> Result<(), LinkError> {
        self.limits.check(self.id, &parcel.request)?;
        self.inbox.push(parcel);
        Ok(())
    }

    /// Begins a step while so many workers compute, itself included, and says when it ends.
    /// `None` when there is nothing to do.
    pub(super) fn begin_step(&mut self, now: Moment, computing: usize) -> Option<Moment> {
        for parcel in self.inbox.drain(..) {
            let submission = Submission {
                request: parcel.request,
                sender: parcel.sender,
                arrival: parcel.arrival,
            };
            // What the scheduler refuses was checked at the door.
            if self.scheduler.submit(submission).is_ok() {
                self.keys.push(parcel.key);
            }
        }
        let batch = self.scheduler.plan(now)?;
        let (duration, mut output) = self.executor.simulate(&batch);
        let sampling = batch.rows.iter().filter(|row| row.samples());
        self.readers.clear();
        self.readers
            .extend(sampling.map(|row| self.keys[row.sequence.0 as usize]));
        let speed = self.speed / self.sharing.part(computing);
        #[expect(clippy::float_cmp, reason = "exactly 1 means the profile's own times")]
        let as_planned = speed == 1.0;
        let at_speed = |time: Duration| match as_planned {
            true => time,
            false => time.div_f64(speed),
        };
        output.draft_time = at_speed(output.draft_time);
        output.catch_up_time = at_speed(output.catch_up_time);
        output.forward_time = at_speed(output.forward_time);
        self.output = Some(output);
        let ends = now + at_speed(duration);
        self.under_way = Some(UnderWay { ends, computing });
        Some(ends)
    }

    /// From now on so many workers compute: when the current step ends, if that is another
    /// moment than before.
    pub(super) fn in_company(&mut self, now: Moment, computing: usize) -> Option<Moment> {
        let step = self.under_way.as_mut()?;
        let before = std::mem::replace(&mut step.computing, computing);
        if before == computing {
            return None;
        }
        let slower = self.sharing.part(computing) / self.sharing.part(before);
        step.ends = now + (step.ends - now).mul_f64(slower);
        Some(step.ends)
    }

    pub(super) fn step_ends(&self) -> Option<Moment> {
        self.under_way.map(|step| step.ends)
    }

    /// Ends the current step. Its chunks are in their streams when this returns.
    pub(super) fn end_step(&mut self, now: Moment) -> StepNews {
        self.under_way = None;
        let output = self.output.take().expect("a step is under way");
        self.scheduler.commit(output, now);
        let events = self.scheduler.take_events();
        let events = (!events.is_empty()).then(|| {
            let sequence = self.next_batch;
            self.next_batch += 1;
            KvBatch {
                worker: self.id,
                epoch: self.epoch,
                sequence,
                events,
            }
        });
        self.scheduler.deliver();
        self.scheduler.drain_milestones();
        let due = self.reported.is_none_or(|at| now - at >= STATUS_INTERVAL);
        let status = due.then(|| {
            self.reported = Some(now);
            self.scheduler.status()
        });
        StepNews { events, status }
    }

    /// What it holds after the last batch of events.
    pub(super) fn snapshot(&self) -> KvSnapshot {
        KvSnapshot {
            epoch: self.epoch,
            next_sequence: self.next_batch,
            blocks: self.scheduler.pool().reusable(),
        }
    }

    /// The requests that got a chunk in the step that just ended, in the order of delivery.
    /// Valid until the next step begins.
    pub(super) fn readers(&self) -> &[usize] {
        &self.readers
    }

    /// Everything it had ends with an error.
    pub(super) fn die(&mut self) {
        let detail = "it died".to_owned();
        self.scheduler.fail_all(&LinkError::Interrupted {
            worker: self.id,
            detail,
        });
        // Dropping a sender ends its stream with an error.
        self.inbox.clear();
        self.rests = false;
    }

    /// Whether it holds no request and every block is free or merely cached.
    pub(super) fn is_clean(&self) -> bool {
        let status = self.scheduler.status();
        self.inbox.is_empty()
            && self.in_flight == 0
            && self.scheduler.is_idle()
            && status.active_blocks == 0
            && status.cached_blocks + status.free_blocks == self.limits.total_blocks
    }

    pub(super) fn status(&self) -> WorkerStatus {
        self.scheduler.status()
    }
}
