//! What runs in the next step.
//!
//! Continuous batching: sequences join and leave between any two steps. A step holds one
//! row for each decoding sequence and fills what is left of the token budget with prefill,
//! oldest request first; a prompt that does not fit goes on in the next step. A step without
//! a prompt has room for drafts behind each sequence's newest token: `drafting`.
//!
//! The scheduler is pure. A shell asks for a [`plan`](Scheduler::plan), runs it, hands the
//! result to [`commit`](Scheduler::commit), forwards the cache events, and then calls
//! [`deliver`](Scheduler::deliver). Delivery is separate so that the router can hear of an
//! answer's blocks before its reader sees the answer end: a follow-up sent at once still
//! finds its way home.
//!
//! # Guarantees
//!
//! - **First come, first served.** Admission is in order of arrival. A request that must
//!   wait for blocks is not overtaken.
//! - **The oldest always moves.** When blocks run out, the latest admitted sequence is
//!   preempted: its blocks go back (reusable, so it may find them again), it returns to the
//!   head of the queue and later computes its tokens anew. No token is sent twice.
//! - **What is computed anew is repaid.** Nobody joins a batch that would run out of blocks
//!   before it has generated half as many tokens as preempted sequences compute again, so
//!   however small the pool, most work goes into answers.
//! - **Silence is not death.** A sequence that gets no token for a while, because it waits, was
//!   preempted or has a long prompt, says that it is alive, between any two steps. An executor
//!   that hangs stays silent.
//! - **One for itself.** A sequence that cannot be computed ends alone, and what it computed is
//!   not found by others.
//! - **Gone is gone.** Every plan begins by dropping sequences whose reader has left.
//! - **Nothing is stuck.** What could never fit is refused at the door, so an empty engine
//!   can always admit the next request.
//!
//! # Elsewhere
//!
//! Blocks and their reuse are in [`crate::block_pool`], one request's bookkeeping in
//! [`crate::sequence`], clocks and waiting in [`crate::engine`].

mod admission;
mod drafting;
mod pace;
mod report;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use contract::{
    GenerateRequest, KvEvent, LinkError, Moment, TokenChunk, TokenSender, WorkerId, WorkerStatus,
};

use self::admission::REPAYMENT;
use self::drafting::Drafts;
use self::report::{Counters, Delivery, Recipient};
pub use self::report::{Milestone, StepTotals};
use crate::block_pool::{BlockId, BlockPool};
use crate::executor::{Batch, FailedRow, Limits, Phase, SequenceId, StepOutput};
use crate::sequence::Sequence;

/// A request as it arrives at the engine.
#[derive(Debug)]
pub struct Submission {
    pub request: GenerateRequest,
    pub sender: TokenSender,
    pub arrival: Moment,
}

/// Everything one engine knows about its sequences.
#[derive(Debug)]
pub struct Scheduler {
    worker: WorkerId,
    limits: Limits,
    pool: BlockPool,
    waiting: VecDeque<Sequence>,
    /// Running sequences, each at its slot.
    slots: Vec<Option<Sequence>>,
    free_slots: Vec<usize>,
    /// Slots in order of admission, latest last.
    order: Vec<usize>,
    /// The step under way.
    planned: Vec<Planned>,
    totals: StepTotals,
    /// When it was planned.
    planned_at: Moment,
    /// Kept between admissions for its memory.
    prefix: Vec<BlockId>,
    deliveries: Vec<Delivery>,
    milestones: Vec<Milestone>,
    counters: Counters,
    drafts: Drafts,
    /// Tokens computed again after preemptions that tokens generated since have not paid for.
    owed: usize,
    next_id: u64,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    slot: usize,
    count: usize,
    drafts: usize,
}

impl Scheduler {
    pub fn new(worker: WorkerId, limits: Limits) -> Self {
        assert!(
            limits.max_step_tokens >= limits.slots,
            "every sequence must move"
        );
        let slots = limits.slots as usize;
        Self {
            worker,
            pool: BlockPool::new(limits.total_blocks, limits.block_size),
            drafts: Drafts::new(&limits),
            limits,
            waiting: VecDeque::new(),
            slots: (0..slots).map(|_| None).collect(),
            free_slots: (0..slots).rev().collect(),
            order: Vec::with_capacity(slots),
            planned: Vec::with_capacity(slots),
            totals: StepTotals::default(),
            planned_at: Moment::default(),
            prefix: Vec::new(),
            deliveries: Vec::with_capacity(slots),
            milestones: Vec::new(),
            counters: Counters::default(),
            owed: 0,
            next_id: 0,
        }
    }

    /// Puts a request at the end of the queue. One that could never fit is refused, on its
    /// stream as well as to the caller.
    pub fn submit(&mut self, submission: Submission) -> Result<(), LinkError> {
        let Submission {
            request,
            sender,
            arrival,
        } = submission;
        if let Err(error) = self.limits.check(self.worker, &request) {
            sender.fail(error.clone());
            return Err(error);
        }
        let id = SequenceId(self.next_id);
        self.next_id += 1;
        let mut sequence = Sequence::new(id, request, sender, arrival);
        sequence.joins_at_step = self.counters.steps + u64::from(self.limits.intake_steps);
        self.waiting.push_back(sequence);
        Ok(())
    }

    /// Decides the next step. `None` when there is nothing to do.
    pub fn plan(&mut self, now: Moment) -> Option<Batch<'_>> {
        debug_assert!(
            self.deliveries.is_empty(),
            "a step is delivered before the next"
        );
        self.drop_cancelled(now);
        self.keep_alive(now);
        self.take_in(now);
        self.planned.clear();
        self.planned_at = now;
        self.totals = StepTotals::default();
        let mut budget = self.limits.max_step_tokens as usize;
        self.plan_decodes(&mut budget);
        self.plan_prefills(&mut budget);
        self.admit_waiting(&mut budget, now);
        self.plan_drafts(budget);
        if self.planned.is_empty() {
            return None;
        }
        let rows = self.planned.iter().map(|planned| {
            let sequence = self.slots[planned.slot].as_ref();
            let sequence = sequence.expect("planned slots are taken");
            sequence.row(planned.slot, planned.count, planned.drafts)
        });
        Some(Batch {
            rows: rows.collect(),
        })
    }

    /// Takes in what the planned step computed.
    pub fn commit(&mut self, output: StepOutput, now: Moment) {
        debug_assert_eq!(
            output.rows.len(),
            self.planned.len(),
            "one output for each row"
        );
        self.counters.record_step(&output, now - self.planned_at);
        self.learn_times(&output);
        let block_size = self.limits.block_size as usize;
        let mut failed = output.failed.into_iter().peekable();
        for (index, row) in output.rows.into_iter().enumerate() {
            let Planned {
                slot,
                count,
                drafts,
            } = self.planned[index];
            if let Some(FailedRow { detail, .. }) = failed.next_if(|failed| failed.row == index) {
                self.totals.decode_tokens -= drafts;
                self.give_up(slot, detail, now);
                continue;
            }
            let drafted = row.drafted;
            // Drafts that the executor did not have.
            self.totals.decode_tokens -= drafts - drafted;
            let sequence = self.slots[slot].as_mut().expect("planned slots are taken");
            let was_started = sequence.timings.first_token.is_some();
            let progress = sequence.advance(count, row, now);
            sequence.publish_blocks(&mut self.pool, block_size);
            let Some(progress) = progress else { continue };
            if !was_started {
                self.milestones
                    .push(Milestone::first_token(&sequence.timings, now));
            }
            self.learn_acceptance(slot, drafted, &progress);
            let generated = progress.chunk.tokens.len();
            self.owed = self.owed.saturating_sub(generated * REPAYMENT);
            self.counters
                .record_output(generated, drafted, progress.accepted);
            self.hand_over(slot, progress.chunk, now);
        }
        self.planned.clear();
    }

    /// Sends what the last step produced.
    pub fn deliver(&mut self) {
        for Delivery { chunk, recipient } in self.deliveries.drain(..) {
            match recipient {
                Recipient::Finished(mut sender) => sender.send(chunk),
                Recipient::Running(slot) => {
                    let sequence = self.slots[slot].as_mut().expect("it runs on");
                    sequence.sender.send(chunk);
                }
            }
        }
    }

    /// Ends the streams of the step that failed as a whole, and says how many there were: one of
    /// them may be the cause.
    pub fn fail_planned(&mut self, detail: &str) -> usize {
        let planned = std::mem::take(&mut self.planned);
        for planned in &planned {
            let error = self.not_computed(detail.to_owned());
            self.leave(planned.slot).sender.fail(error);
        }
        planned.len()
    }

    /// Ends every stream with `error`, drops what it held and says how many there were.
    pub fn fail_all(&mut self, error: &LinkError) -> usize {
        let failed = self.order.len() + self.waiting.len();
        self.planned.clear();
        while let Some(&slot) = self.order.last() {
            self.leave(slot).sender.fail(error.clone());
        }
        for sequence in self.waiting.drain(..) {
            sequence.sender.fail(error.clone());
        }
        failed
    }

    /// Forgets every reusable block.
    pub fn reset_cache(&mut self) {
        self.pool.reset();
    }

    /// Whether no request is waiting or running.
    pub fn is_idle(&self) -> bool {
        self.order.is_empty() && self.waiting.is_empty()
    }

    /// Cache changes since the last call, in order.
    pub fn take_events(&mut self) -> Vec<KvEvent> {
        self.pool.take_events()
    }

    /// What happened to requests since the last call.
    pub fn drain_milestones(&mut self) -> std::vec::Drain<'_, Milestone> {
        self.milestones.drain(..)
    }

    /// What the planned step, or the one just committed, computes.
    pub fn step_totals(&self) -> StepTotals {
        self.totals
    }

    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// A snapshot for the router and the metrics. Utilization is the shell's to know.
    pub fn status(&self) -> WorkerStatus {
        let occupancy = self.pool.occupancy();
        let filled_blocks = u64::from(occupancy.active + occupancy.cached);
        WorkerStatus {
            cache_estimated: false,
            running: self.order.len() as u32,
            waiting: self.waiting.len() as u32,
            active_blocks: occupancy.active,
            cached_blocks: occupancy.cached,
            free_blocks: occupancy.free,
            utilization: 0.0,
            gpu_memory_used_bytes: self.limits.resident_bytes
                + filled_blocks * self.limits.block_bytes,
            steps: self.counters.steps,
            step_time: self.counters.step_time,
            preemptions: self.counters.preemptions,
            prompt_tokens: self.counters.prompt_tokens,
            cached_tokens: self.counters.cached_tokens,
            output_tokens: self.counters.output_tokens,
            speculation: self.counters.speculation.clone(),
        }
    }

    fn drop_cancelled(&mut self, now: Moment) {
        let milestones = &mut self.milestones;
        self.waiting.retain(|sequence| {
            let keep = !sequence.sender.is_closed();
            if !keep {
                milestones.push(Milestone::left(sequence, None, now));
            }
            keep
        });
        let mut index = 0;
        while let Some(&slot) = self.order.get(index) {
            let sequence = self.slots[slot].as_ref().expect("ordered slots are taken");
            if sequence.sender.is_closed() {
                let sequence = self.leave(slot);
                self.milestones.push(Milestone::left(&sequence, None, now));
            } else {
                index += 1;
            }
        }
    }

    /// Tells readers that have heard nothing for long that their requests are alive.
    fn keep_alive(&mut self, now: Moment) {
        let running = self.order.iter();
        for &slot in running {
            let sequence = self.slots[slot].as_mut();
            sequence.expect("ordered slots are taken").keep_alive(now);
        }
        for sequence in &mut self.waiting {
            sequence.keep_alive(now);
        }
    }

    /// One row for each decoding sequence. May preempt, but only sequences that come later
    /// in the order than the one in hand, so never one that already has a row.
    fn plan_decodes(&mut self, budget: &mut usize) {
        let decoding = |slot: &&usize| self.running(**slot).phase() == Phase::Decode;
        // Every decoding sequence gets its token before any gets a draft.
        let mut draft_budget = *budget - self.order.iter().filter(decoding).count();
        let beside_prompts = self.drafts_beside_prompts();
        let mut index = 0;
        while let Some(&slot) = self.order.get(index) {
            index += 1;
            if self.running(slot).phase() == Phase::Prefill || !self.make_room(slot) {
                continue;
            }
            let drafts = self.make_room_for_drafts(slot, beside_prompts.min(draft_budget));
            draft_budget -= drafts;
            *budget -= 1 + drafts;
            self.totals.decode_tokens += 1 + drafts;
            self.planned.push(Planned {
                slot,
                count: 1,
                drafts,
            });
        }
    }

    /// Goes on with prompts that did not fit into earlier steps.
    fn plan_prefills(&mut self, budget: &mut usize) {
        for index in 0..self.order.len() {
            let slot = self.order[index];
            if self.running(slot).phase() == Phase::Prefill {
                self.plan_prefill(slot, budget);
            }
        }
    }

    fn plan_prefill(&mut self, slot: usize, budget: &mut usize) {
        let sequence = self.running(slot);
        let count = (sequence.prefill_end - sequence.computed).min(*budget);
        if count > 0 {
            *budget -= count;
            self.totals.prefill_tokens += count;
            self.planned.push(Planned {
                slot,
                count,
                drafts: 0,
            });
        }
    }

    /// Sees to a place for the sequence's next token, preempting if it must. False if the
    /// sequence itself had to go.
    fn make_room(&mut self, slot: usize) -> bool {
        let block_size = self.limits.block_size as usize;
        while self.running(slot).blocks.len() * block_size < self.running(slot).tokens.len() {
            if let Some(block) = self.pool.allocate() {
                self.running_mut(slot).blocks.push(block);
                continue;
            }
            let latest = *self.order.last().expect("the sequence itself is running");
            self.preempt(latest);
            if latest == slot {
                return false;
            }
        }
        true
    }

    /// Queues a chunk for delivery and, if it is the last, lets the sequence go.
    fn hand_over(&mut self, slot: usize, chunk: TokenChunk, now: Moment) {
        let recipient = match chunk.finish {
            None => Recipient::Running(slot),
            Some(reason) => {
                let sequence = self.leave(slot);
                self.milestones
                    .push(Milestone::left(&sequence, Some(reason), now));
                Recipient::Finished(sequence.sender)
            }
        };
        self.deliveries.push(Delivery { chunk, recipient });
    }

    /// Ends one sequence that could not be computed. What it computed is not for others.
    fn give_up(&mut self, slot: usize, detail: String, now: Moment) {
        let error = self.not_computed(detail);
        let sequence = self.running_mut(slot);
        let reused = sequence.reused;
        let mut blocks = std::mem::take(&mut sequence.blocks);
        self.pool.discard(&mut blocks, reused);
        let sequence = self.leave(slot);
        self.milestones.push(Milestone::failed(&sequence, now));
        sequence.sender.fail(error);
    }

    fn not_computed(&self, detail: String) -> LinkError {
        LinkError::Failed {
            worker: self.worker,
            detail,
        }
    }

    fn preempt(&mut self, slot: usize) {
        let mut sequence = self.leave(slot);
        sequence.lost = sequence.computed;
        self.waiting.push_front(sequence);
        self.counters.preemptions += 1;
    }

    /// Takes a sequence out of the batch and gives back its slot and blocks.
    fn leave(&mut self, slot: usize) -> Sequence {
        let mut sequence = self.slots[slot].take().expect("running slots are taken");
        self.pool.release(&mut sequence.blocks);
        self.free_slots.push(slot);
        self.order.retain(|&other| other != slot);
        sequence
    }

    fn running(&self, slot: usize) -> &Sequence {
        self.slots[slot].as_ref().expect("running slots are taken")
    }

    fn running_mut(&mut self, slot: usize) -> &mut Sequence {
        self.slots[slot].as_mut().expect("running slots are taken")
    }
}
