//! The virtual cluster: a discrete-event loop over the shipped cores.
//!
//! Time is a number that jumps from event to event. What happens within one moment follows
//! the order of the asynchronous system on a single thread:
//!
//! 1. Every step that ends now: commit, cache events to the router, chunks into their
//!    streams, next step planned.
//! 2. Readers of those chunks, in order of delivery. One whose answer is complete gives its
//!    place back and sends its next turn at once.
//! 3. Changes of the fleet, arrivals, then idle workers that have got work.
//!
//! # Elsewhere
//!
//! Who sends what is [`crate::load`]'s business; how a request gets to a worker is in
//! [`placing`], how a worker steps in [`worker`].

mod gateway;
mod placing;
pub(crate) mod recorder;
mod requests;
#[cfg(test)]
mod tests;
mod worker;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use contract::{Moment, TokenChunk, TokenId, WorkerId, WorkerStatus};
use engine::sim::Sharing;
use loadgen::{Ending, Failure, FailureKind};
use router::{Priors, RouterConfig, WorkerView};

use self::gateway::Gateway;
use self::recorder::Recorder;
pub use self::requests::Record;
use self::requests::{Request, Requests};
use self::worker::{StepNews, VirtualWorker};
use crate::change::{Change, ChangeKind, WorkerPlan};
use crate::contestant::Contestant;
use crate::load::Load;
use crate::window::Window;
use stats::raw::Speculation;

/// Workers tried before a request is given up, as in the frontend.
const ATTEMPTS: usize = 3;
/// Tokens between two reports of progress to the router, as in the frontend.
const PROGRESS_TOKENS: u32 = 32;

/// What a cluster is built from.
#[derive(Clone, Debug)]
pub(crate) struct ClusterPlan {
    pub(crate) workers: Vec<WorkerPlan>,
    pub(crate) changes: Vec<Change>,
    /// What routes; replaces the mode of the configuration.
    pub(crate) mode: Contestant,
    pub(crate) router: RouterConfig,
    /// What the router believes at the start.
    pub(crate) priors: Priors,
    /// Seed of the answers.
    pub(crate) seed: u64,
}

/// In the order in which they happen within a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    StepEnds,
    Change,
    Arrival,
    Wakes,
}

/// Ordered by time, then kind, then creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Moment,
    kind: EventKind,
    order: u64,
    /// Index of the worker, or of the change.
    subject: usize,
    /// The worker's life that is meant.
    epoch: u64,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    plan: ClusterPlan,
    now: Moment,
    events: BinaryHeap<Reverse<Event>>,
    next_order: u64,
    /// `None` while dead.
    workers: Vec<Option<VirtualWorker>>,
    /// Whether it matters to a worker what the others do.
    shares_machine: bool,
    gateway: Gateway,
    load: Load,
    requests: Requests,
    /// Requests with a chunk that nobody has read yet.
    delivered: VecDeque<usize>,
    /// What has been answered in full, and its client does not know yet.
    answered: VecDeque<(usize, Vec<TokenId>)>,
    /// The earliest arrival that has an event.
    arrival: Option<Moment>,
    recorder: Recorder,
    dispatched_past_slots: u64,
    pub(crate) records: Option<Vec<Record>>,
    sent: u64,
    steps: u64,
    /// What workers that died had counted.
    buried: WorkerTotals,
}

/// What all workers together counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerTotals {
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) speculation: Speculation,
}

/// What is left of a run that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) at: Moment,
    pub(crate) recorder: Recorder,
    pub(crate) totals: WorkerTotals,
    /// Of the first worker.
    pub(crate) slots: u32,
    pub(crate) dispatched_past_slots: u64,
    pub(crate) steps: u64,
}

impl Cluster {
    pub(crate) fn new(plan: ClusterPlan, load: Load, window: Window) -> Self {
        let mut cluster = Self {
            now: Moment::ZERO,
            events: BinaryHeap::new(),
            next_order: 0,
            workers: plan.workers.iter().map(|_| None).collect(),
            shares_machine: plan
                .workers
                .iter()
                .any(|worker| worker.profile.sharing != Sharing::default()),
            gateway: Gateway::new(plan.mode.router(plan.router.clone()), plan.priors),
            load,
            requests: Requests::default(),
            delivered: VecDeque::new(),
            answered: VecDeque::new(),
            arrival: None,
            recorder: Recorder::new(window, plan.mode.name()),
            dispatched_past_slots: 0,
            records: None,
            sent: 0,
            steps: 0,
            buried: WorkerTotals::default(),
            plan,
        };
        for worker in 0..cluster.workers.len() {
            cluster.start_worker(worker, 0);
        }
        for (index, change) in cluster.plan.changes.clone().iter().enumerate() {
            cluster.push(change.at, EventKind::Change, index, 0);
        }
        cluster.push(Moment::ZERO, EventKind::Arrival, 0, 0);
        cluster
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Runs until the window's requests have ended, or until `deadline`.
    pub(crate) fn run_until_settled(&mut self, deadline: Moment) {
        self.run(deadline, |cluster| cluster.recorder.is_settled(cluster.now));
    }

    /// Runs until nothing is running or due.
    pub(crate) fn run_until_idle(&mut self) {
        self.run_until_idle_or(Moment::from_nanos(u64::MAX));
    }

    /// The same, with an end to patience.
    pub(crate) fn run_until_idle_or(&mut self, deadline: Moment) {
        self.run(deadline, |cluster| {
            cluster.requests.is_empty() && cluster.load.next_due(cluster.now).is_none()
        });
    }

    /// Runs until a moment.
    pub(crate) fn run_until(&mut self, end: Moment) {
        self.run(end, |_| false);
    }

    /// Sends nothing more; running requests may finish.
    pub(crate) fn close(&mut self) {
        self.load.close();
    }

    /// The workers as the router sees them.
    pub(crate) fn views(&self) -> Vec<WorkerView> {
        self.gateway.views()
    }

    /// Ends the run: requests that have not finished count as failed.
    pub(crate) fn end(mut self) -> Ended {
        for request in self.requests.drain() {
            self.recorder.give_up(&request.watch, self.now);
        }
        let mut totals = self.buried;
        for worker in self.workers.iter().flatten() {
            totals.add(&worker.status());
        }
        Ended {
            at: self.now,
            recorder: self.recorder,
            totals,
            slots: self
                .plan
                .workers
                .first()
                .map_or(0, |plan| plan.profile.slots),
            dispatched_past_slots: self.dispatched_past_slots,
            steps: self.steps,
        }
    }

    /// Whether every place, slot and block has been given back.
    pub(crate) fn is_clean(&self) -> bool {
        self.requests.is_empty()
            && self.gateway.in_flight() + self.gateway.waiting() == 0
            && self.workers.iter().flatten().all(VirtualWorker::is_clean)
    }

    fn run(&mut self, deadline: Moment, is_over: impl Fn(&Self) -> bool) {
        while !is_over(self) {
            let next = self.events.peek().map(|Reverse(event)| *event);
            let ends_now = |event: Event| event.at == self.now && event.kind == EventKind::StepEnds;
            if !self.delivered.is_empty() && !next.is_some_and(ends_now) {
                self.read_all();
                continue;
            }
            let Some(event) = next.filter(|event| event.at <= deadline) else {
                return;
            };
            self.events.pop();
            self.now = event.at;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event.kind {
            EventKind::StepEnds => self.step_ends(event),
            EventKind::Change => self.change(event.subject),
            EventKind::Arrival => {
                self.arrival = None;
                self.send_due();
            }
            EventKind::Wakes => self.begin_step(event.subject, event.epoch),
        }
        if self.shares_machine {
            self.keep_pace();
        }
    }

    /// Steps become faster or slower as soon as fewer or more workers compute. The event of a
    /// step's former end stays in the queue and is ignored.
    fn keep_pace(&mut self) {
        let computing = self.computing();
        for index in 0..self.workers.len() {
            let Some(worker) = self.workers[index].as_mut() else {
                continue;
            };
            let epoch = worker.epoch;
            if let Some(ends) = worker.in_company(self.now, computing) {
                self.push(ends, EventKind::StepEnds, index, epoch);
            }
        }
    }

    /// How many workers compute: those that just rest or are dead do not.
    fn computing(&self) -> usize {
        let alive = self.workers.iter().flatten();
        alive.filter(|worker| !worker.rests).count()
    }

    fn step_ends(&mut self, event: Event) {
        let ends_now = |worker: &&mut VirtualWorker| worker.step_ends() == Some(event.at);
        let Some(worker) = alive(&mut self.workers, event).filter(ends_now) else {
            return;
        };
        self.steps += 1;
        let StepNews { events, status } = worker.end_step(self.now);
        self.delivered.extend(worker.readers());
        let id = worker.id;
        if let Some(batch) = events {
            self.gateway.observe(&batch, || worker.snapshot());
        }
        if let Some(status) = status {
            self.gateway.report(id, status, self.now);
            self.serve_waiting();
        }
        self.begin_step(event.subject, event.epoch);
    }

    fn begin_step(&mut self, index: usize, epoch: u64) {
        let computing = self.computing();
        let Some(worker) = self.workers[index].as_mut() else {
            return;
        };
        match worker.begin_step(self.now, computing) {
            Some(ends) => self.push(ends, EventKind::StepEnds, index, epoch),
            None => {
                worker.rests = true;
                let (id, status) = (worker.id, worker.status());
                self.gateway.report(id, status, self.now);
                self.serve_waiting();
            }
        }
    }

    /// Lets everyone read who got something. As in the frontend, the router's books are right
    /// before any client reacts to the end of its answer.
    fn read_all(&mut self) {
        while let Some(key) = self.delivered.pop_front() {
            let placed = self.requests.get_mut(key).placed.as_mut();
            let stream = &mut placed.expect("only placed requests are delivered").stream;
            match stream.try_next() {
                Some(Ok(chunk)) => self.read(key, &chunk),
                Some(Err(_)) => self.interrupted(key),
                None => {}
            }
        }
        while let Some((tag, answer)) = self.answered.pop_front() {
            self.load.ended(tag, Ending::Answered, &answer, self.now);
            self.send_due();
        }
    }

    fn read(&mut self, key: usize, chunk: &TokenChunk) {
        let request = self.requests.get_mut(key);
        let placed = request.placed.as_ref().expect("it is being read");
        if let Some(started) = chunk.started.as_deref() {
            self.gateway
                .first_token(&placed.claim, started.cached_tokens, self.now);
            request.watch.start(*started);
            if let Some(records) = &mut self.records {
                let record = &mut records[placed.record];
                record.first_token = Some(self.now);
                record.cached_tokens = started.cached_tokens;
            }
        }
        let tokens = chunk.tokens.len() as u32;
        self.recorder.chunk(&mut request.watch, tokens, self.now);
        request.answer.extend_from_slice(&chunk.tokens);
        let received = request.answer.len() as u32;
        let news = received - request.told_tokens;
        if chunk.started.is_some() {
            request.told_tokens = received;
        } else if news >= PROGRESS_TOKENS || chunk.finish.is_some() {
            self.gateway.progress(&placed.claim, news, self.now);
            request.told_tokens = received;
        }
        if chunk.finish.is_some() {
            self.finish(key);
        }
    }

    /// An answer is complete.
    fn finish(&mut self, key: usize) {
        let request = self.requests.take(key);
        let Request {
            tag,
            watch,
            placed,
            answer,
            ..
        } = request;
        let placed = placed.expect("only placed requests finish");
        if let Some(records) = &mut self.records {
            let record = &mut records[placed.record];
            record.ended = Some(self.now);
            record.output_tokens = answer.len() as u32;
        }
        self.recorder.finish(&watch, &placed.claim, self.now);
        self.release(&placed);
        self.answered.push_back((tag, answer));
    }

    /// A worker failed. Requests that have no token yet are placed again; others must be sent
    /// again, because a second worker would continue differently.
    fn interrupted(&mut self, key: usize) {
        let request = self.requests.get_mut(key);
        let placed = request.placed.take().expect("it was being read");
        request.failed.push(placed.claim.worker);
        let again = request.answer.is_empty() && request.failed.len() < ATTEMPTS;
        self.release(&placed);
        if again {
            self.place(key);
        } else {
            let failure = Failure::new(FailureKind::BrokenStream, "its worker died");
            self.give_up(key, Ending::Failed, failure);
        }
    }

    fn give_up(&mut self, key: usize, ending: Ending, failure: Failure) {
        let request = self.requests.take(key);
        self.recorder.fail(&request.watch, failure, self.now);
        self.load.ended(request.tag, ending, &[], self.now);
        self.send_due();
    }

    fn change(&mut self, index: usize) {
        let Change { worker, kind, .. } = self.plan.changes[index];
        match (kind, self.workers[worker].as_mut()) {
            (ChangeKind::Dies, Some(dying)) => {
                self.buried.add(&dying.status());
                dying.die();
                self.gateway.leave(WorkerId(worker as u64));
                self.workers[worker] = None;
                self.delivered.extend(self.requests.on_worker(worker));
                self.serve_waiting();
            }
            (ChangeKind::Returns, None) => {
                self.start_worker(worker, index as u64 + 1);
                self.serve_waiting();
            }
            (ChangeKind::Speed(speed), Some(worker)) => worker.speed = speed,
            (ChangeKind::Told(priors), Some(worker)) => self.gateway.assume(worker.id, &priors),
            (ChangeKind::Dies | ChangeKind::Speed(_) | ChangeKind::Told(_), None)
            | (ChangeKind::Returns, Some(_)) => {}
        }
    }

    fn start_worker(&mut self, index: usize, epoch: u64) {
        let plan = &self.plan.workers[index];
        let worker = VirtualWorker::new(WorkerId(index as u64), plan, self.plan.seed, epoch);
        self.gateway.join(worker.card.clone());
        self.workers[index] = Some(worker);
    }

    fn push(&mut self, at: Moment, kind: EventKind, subject: usize, epoch: u64) {
        self.events.push(Reverse(Event {
            at,
            kind,
            order: self.next_order,
            subject,
            epoch,
        }));
        self.next_order += 1;
    }
}

/// The worker that an event is about, if it still lives the life that was meant.
fn alive(workers: &mut [Option<VirtualWorker>], event: Event) -> Option<&mut VirtualWorker> {
    let worker = workers[event.subject].as_mut()?;
    (worker.epoch == event.epoch).then_some(worker)
}

impl WorkerTotals {
    fn add(&mut self, status: &WorkerStatus) {
        self.prompt_tokens += status.prompt_tokens;
        self.cached_tokens += status.cached_tokens;
        self.speculation.drafts += status.speculation.drafts;
        self.speculation.drafted_tokens += status.speculation.drafted_tokens;
        self.speculation.accepted_tokens += status.speculation.accepted_tokens;
    }
}
