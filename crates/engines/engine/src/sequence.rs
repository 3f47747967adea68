//! One request inside the engine.
//!
//! A sequence is its tokens (prompt, then answer), how many of them are computed, and the
//! blocks that hold the result. There is no separate "decode" and "prefill" state: a
//! sequence that was preempted simply has nothing computed any more and computes its known
//! tokens again, and the next token comes out where they end.

use std::time::Duration;

use contract::{
    BlockHash, FinishReason, GenerateRequest, LocalHash, Moment, RequestSpeculation, Started,
    StoredBlock, TokenChunk, TokenId, TokenSender,
};

use crate::block_pool::{BlockId, BlockPool};
use crate::executor::{Limits, Phase, Row, RowOutput, SequenceId};

/// Answers are seldom longer; reserving more would waste memory on every request.
const EXPECTED_OUTPUT_TOKENS: usize = 1024;

/// A reader that has received nothing for this long gets a keep-alive: often enough that several
/// may be lost on a busy machine before a worker is taken for dead (30 s by default), and rare
/// beside what an answer sends.
pub(crate) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    pub(crate) request: GenerateRequest,
    pub(crate) sender: TokenSender,
    pub(crate) timings: Timings,
    /// The engine's step count from which it may join the batch.
    pub(crate) joins_at_step: u64,
    /// Prompt and answer. Empty until the sequence first comes to the head of the queue,
    /// so that a long queue does not hold every prompt twice.
    pub(crate) tokens: Vec<TokenId>,
    /// Leading tokens whose KV is in `blocks`.
    pub(crate) computed: usize,
    /// Tokens that were known at the last admission: up to here it is prefill.
    pub(crate) prefill_end: usize,
    pub(crate) blocks: Vec<BlockId>,
    /// Leading blocks that were found at the last admission.
    pub(crate) reused: usize,
    /// Tokens that were computed when it was preempted last.
    pub(crate) lost: usize,
    /// Prompt tokens found in the cache at the first admission.
    pub(crate) cached_tokens: Option<usize>,
    /// What was drafted for it here so far.
    speculation: RequestSpeculation,
    /// Hashes of the leading full blocks, as far as they were needed.
    chain: Vec<StoredBlock>,
    /// Leading blocks that have been offered to the pool.
    offered: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    pub(crate) arrival: Moment,
    /// From when it could join a batch.
    pub(crate) taken_in: Option<Moment>,
    /// The first admission; a preempted sequence keeps it.
    pub(crate) admitted: Option<Moment>,
    pub(crate) first_token: Option<Moment>,
    /// When its reader last got a message; the arrival if never.
    pub(crate) heard: Moment,
}

impl Timings {
    /// Until it could join a batch.
    pub(crate) fn intake(&self) -> Duration {
        self.taken_in
            .map_or(Duration::ZERO, |taken_in| taken_in - self.arrival)
    }

    /// From then until it did.
    pub(crate) fn queue_wait(&self) -> Duration {
        match (self.taken_in, self.admitted) {
            (Some(taken_in), Some(admitted)) => admitted - taken_in,
            (Some(_) | None, None) | (None, Some(_)) => Duration::ZERO,
        }
    }
}

/// What a step did to a sequence.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) chunk: TokenChunk,
    /// Drafted tokens that became part of the answer.
    pub(crate) accepted: usize,
}

impl Sequence {
    pub(crate) fn new(
        id: SequenceId,
        request: GenerateRequest,
        sender: TokenSender,
        arrival: Moment,
    ) -> Self {
        Self {
            id,
            request,
            sender,
            timings: Timings {
                arrival,
                taken_in: None,
                admitted: None,
                first_token: None,
                heard: arrival,
            },
            joins_at_step: 0,
            tokens: Vec::new(),
            computed: 0,
            prefill_end: 0,
            blocks: Vec::new(),
            reused: 0,
            lost: 0,
            cached_tokens: None,
            speculation: RequestSpeculation::default(),
            chain: Vec::new(),
            offered: 0,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.computed < self.prefill_end {
            Phase::Prefill
        } else {
            Phase::Decode
        }
    }

    /// Tokens of the answer so far, another worker's included. Meaningful once the sequence was
    /// admitted.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.request.prompt.len()
    }

    /// Tokens that may still be generated.
    pub(crate) fn remaining(&self) -> usize {
        (self.request.limits.max_tokens as usize).saturating_sub(self.generated())
    }

    /// Tokens that an admission with so many found in the cache would compute once more.
    pub(crate) fn recomputed(&self, found: usize) -> usize {
        self.lost.saturating_sub(found)
    }

    /// Sends a keep-alive to its reader if nothing was sent for long.
    pub(crate) fn keep_alive(&mut self, now: Moment) {
        if now - self.timings.heard >= KEEP_ALIVE_INTERVAL {
            self.timings.heard = now;
            self.sender.send(TokenChunk::keep_alive());
        }
    }

    pub(crate) fn row(&self, slot: usize, count: usize, drafts: usize) -> Row<'_> {
        Row {
            sequence: self.id,
            slot,
            phase: self.phase(),
            request: &self.request,
            tokens: &self.tokens,
            start: self.computed,
            count,
            drafts,
            blocks: &self.blocks,
        }
    }

    /// Finds the leading blocks that are already in the cache. At least one token is left
    /// to compute, because the first new token comes out of computing it.
    pub(crate) fn find_prefix(
        &mut self,
        pool: &BlockPool,
        limits: &Limits,
        found: &mut Vec<BlockId>,
    ) {
        let block_size = limits.block_size as usize;
        if self.tokens.is_empty() {
            let expected = (self.request.limits.max_tokens as usize).min(EXPECTED_OUTPUT_TOKENS);
            self.tokens.reserve(self.request.prompt.len() + expected);
            self.tokens.extend_from_slice(&self.request.prompt);
            self.tokens.extend_from_slice(&self.request.answered);
        }
        found.clear();
        for index in 0..(self.tokens.len() - 1) / block_size {
            let hash = self.stored_block(index, block_size).hash;
            let tokens = &self.tokens[index * block_size..(index + 1) * block_size];
            match pool.lookup(found.last().copied(), hash, tokens) {
                Some(block) => found.push(block),
                None => break,
            }
        }
        found.truncate(
            found
                .len()
                .saturating_sub(limits.recomputed_blocks as usize),
        );
    }

    /// Enters the batch, for the first time or again, with `prefix` already computed. The
    /// caller adds the blocks for the rest.
    pub(crate) fn admit(&mut self, prefix: &[BlockId], block_size: usize, now: Moment) {
        debug_assert!(self.blocks.is_empty(), "a waiting sequence holds no blocks");
        self.blocks.extend_from_slice(prefix);
        self.computed = prefix.len() * block_size;
        self.offered = prefix.len();
        self.reused = prefix.len();
        self.prefill_end = self.tokens.len();
        // An empty engine takes it at once.
        self.timings.taken_in.get_or_insert(now);
        self.timings.admitted.get_or_insert(now);
    }

    /// Takes in a step that computed `count` tokens. `None` in the middle of a prefill.
    pub(crate) fn advance(
        &mut self,
        count: usize,
        output: RowOutput,
        now: Moment,
    ) -> Option<Progress> {
        let RowOutput {
            mut tokens,
            mut logprobs,
            drafted,
        } = output;
        self.computed += count;
        // Accepted drafts were computed when they were verified.
        let verified = tokens.len().checked_sub(1)?;
        self.timings.heard = now;
        self.computed += verified;
        let (kept, finish) = self.end_of_answer(&tokens);
        // What the end of the answer cuts off was drafted in vain.
        let accepted = verified.min(kept);
        self.speculation.record(drafted, accepted);
        tokens.truncate(kept);
        logprobs.truncate(kept);
        self.tokens.extend_from_slice(&tokens);
        self.computed = self.computed.min(self.tokens.len());
        let started = self.timings.first_token.is_none().then(|| {
            self.timings.first_token = Some(now);
            Box::new(Started {
                cached_tokens: self.cached_tokens.unwrap_or(0) as u32,
                intake: self.timings.intake(),
                queue_wait: self.timings.queue_wait(),
                prefill: self
                    .timings
                    .admitted
                    .map_or(Duration::ZERO, |admitted| now - admitted),
            })
        });
        Some(Progress {
            chunk: TokenChunk {
                tokens,
                logprobs,
                started,
                finish,
                speculation: (finish.is_some() && self.speculation.drafts > 0)
                    .then_some(self.speculation),
                written: None,
            },
            accepted,
        })
    }

    /// Makes every block that is now full and computed reusable.
    pub(crate) fn publish_blocks(&mut self, pool: &mut BlockPool, block_size: usize) {
        while self.offered < self.computed / block_size {
            let index = self.offered;
            let stored = self.stored_block(index, block_size);
            let parent = index.checked_sub(1).map(|before| self.blocks[before]);
            let tokens = &self.tokens[index * block_size..(index + 1) * block_size];
            self.blocks[index] = pool.publish(self.blocks[index], parent, stored, tokens);
            self.offered += 1;
        }
    }

    /// How many of the new tokens belong to the answer, and whether it ends with them.
    fn end_of_answer(&self, tokens: &[TokenId]) -> (usize, Option<FinishReason>) {
        let limits = &self.request.limits;
        let mut generated = self.generated();
        for (index, token) in tokens.iter().enumerate() {
            if limits.may_stop(generated) && limits.eos_tokens.contains(token) {
                return (index, Some(FinishReason::Stop));
            }
            generated += 1;
            if generated >= limits.max_tokens as usize {
                return (index + 1, Some(FinishReason::Length));
            }
        }
        (tokens.len(), None)
    }

    /// The hashes of full block `index`, computed once.
    fn stored_block(&mut self, index: usize, block_size: usize) -> StoredBlock {
        while self.chain.len() <= index {
            let begin = self.chain.len() * block_size;
            let tokens = &self.tokens[begin..begin + block_size];
            let local = LocalHash::of(tokens, self.request.hash_seed);
            let parent = self.chain.last().map(|block| block.hash);
            self.chain.push(StoredBlock {
                hash: BlockHash::after(parent, local),
                local,
            });
        }
        self.chain[index]
    }
}
