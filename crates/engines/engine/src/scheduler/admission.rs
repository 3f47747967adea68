//! Who joins the batch.
//!
//! A sequence is admitted when there is memory for what is known of it. What it will yet
//! generate is not reserved, because most answers end long before their limit; so a batch may
//! outgrow its memory, and its latest sequence is then preempted. That is cheap as long as it
//! is rare. Left alone it need not be: in a full pool a sequence would come back as soon as its
//! blocks fit, be preempted at the next block boundary, and compute thousands of tokens for
//! each few that it adds. The scheduler therefore keeps account of what preemptions cost: an
//! admission leaves as many blocks free as the batch needs to pay for it with new tokens.

use contract::Moment;

use super::Scheduler;

/// Tokens computed again that one generated token pays for. Computing a known token costs a
/// small part of a step that generates one. In a crowd that overcommits memory several times
/// over, 2 saves a third of the preemptions and of what is computed again and makes the whole
/// take 3 % longer; 1 saves half for up to 12 %.
pub(super) const REPAYMENT: usize = 2;

impl Scheduler {
    /// Notes which waiting sequences could join from now on.
    pub(super) fn take_in(&mut self, now: Moment) {
        let steps = self.counters.steps;
        // They came one after the other, so those that are ready are in front.
        let ready = self.waiting.iter_mut();
        for sequence in ready.take_while(|sequence| sequence.joins_at_step <= steps) {
            sequence.timings.taken_in.get_or_insert(now);
        }
    }

    /// Lets waiting sequences join, first come, first served, while slots, blocks and the
    /// step's budget last.
    pub(super) fn admit_waiting(&mut self, budget: &mut usize, now: Moment) {
        let block_size = self.limits.block_size as usize;
        while *budget > 0 && !self.free_slots.is_empty() {
            let Some(head) = self.waiting.front_mut() else {
                return;
            };
            // An empty engine takes no steps that one could wait for.
            if head.joins_at_step > self.counters.steps && !self.order.is_empty() {
                return;
            }
            head.find_prefix(&self.pool, &self.limits, &mut self.prefix);
            let new_blocks = self.limits.blocks_for(head.tokens.len()) - self.prefix.len();
            let revived = self
                .prefix
                .iter()
                .filter(|&&block| self.pool.is_unreferenced(block));
            // A block for each running sequence stays back: admitting a request only to
            // preempt it at the next block boundary would be work for nothing.
            let needed = revived.count() + new_blocks + self.order.len();
            let recomputed = head.recomputed(self.prefix.len() * block_size);
            if needed + self.reserve(recomputed) > self.pool.available() {
                return;
            }
            self.owed += recomputed;
            self.totals.recomputed_tokens += recomputed;
            let mut sequence = self.waiting.pop_front().expect("it has a head");
            for &block in &self.prefix {
                self.pool.acquire(block);
            }
            sequence.admit(&self.prefix, block_size, now);
            for _ in 0..new_blocks {
                let block = self.pool.allocate().expect("availability was checked");
                sequence.blocks.push(block);
            }
            if sequence.cached_tokens.is_none() {
                sequence.cached_tokens = Some(sequence.computed);
                self.counters.prompt_tokens += sequence.request.prompt.len() as u64;
                self.counters.cached_tokens += sequence.computed as u64;
            }
            let slot = self.free_slots.pop().expect("a slot is free");
            self.slots[slot] = Some(sequence);
            self.drafts.forget(slot);
            self.order.push(slot);
            self.plan_prefill(slot, budget);
        }
    }

    /// Blocks that must stay free beside a sequence that computes `recomputed` tokens again: the
    /// batch pays for what it then owes before anyone is preempted, or comes to its end. A sequence
    /// that is alone needs none, since no other takes its blocks.
    fn reserve(&self, recomputed: usize) -> usize {
        let owed = self.owed + recomputed;
        if owed == 0 || self.order.is_empty() {
            return 0;
        }
        let running = self.order.iter().map(|&slot| self.running(slot));
        let batch = running.chain(self.waiting.front());
        let growth = batch.map(|sequence| sequence.remaining());
        // Each running sequence has a block beside these, but not the one that joins.
        let ahead = owed.div_ceil(REPAYMENT).min(growth.sum());
        self.limits.blocks_for(ahead) + 1
    }
}
