//! A scheduler with a scripted model, and everyone who listens to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::random::mix;
use contract::{
    BlockHash, FinishReason, GenerateRequest, HashSeed, KvEvent, Moment, OutputLimits, RequestId,
    Sampling, TokenId, TokenStream, WorkerId, token_stream,
};
use smallvec::SmallVec;

use crate::block_pool::BlockId;
use crate::executor::{Batch, Drafting, Limits, Row, RowOutput, SequenceId, StepOutput};
use crate::scheduler::{Scheduler, Submission};

pub(super) const EOS: TokenId = 9_999;

pub(super) fn limits() -> Limits {
    Limits {
        block_size: 4,
        total_blocks: 64,
        slots: 4,
        max_step_tokens: 32,
        max_context_tokens: 1_000,
        draft_tokens: 0,
        drafting: Drafting::WithoutPrompts,
        recomputed_blocks: 0,
        vocabulary: u32::MAX,
        intake_steps: 0,
        resident_bytes: 1_000,
        block_bytes: 10,
    }
}

pub(super) fn request(prompt: &[TokenId], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: prompt.into(),
        answered: std::sync::Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: [EOS].into(),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

/// What the scripted model says at a position: a function of the prompt alone.
pub(super) fn word(prompt: &[TokenId], position: usize) -> TokenId {
    let stream = prompt
        .iter()
        .fold(0, |stream, &token| mix(stream, u64::from(token), 0));
    (mix(1, stream, position as u64) % 50) as TokenId
}

/// Where the scripted model's answer ends.
pub(super) fn natural_length(prompt: &[TokenId]) -> usize {
    3 + prompt.iter().map(|&token| token as usize).sum::<usize>() % 20
}

pub(super) fn spoken(request: &GenerateRequest, position: usize) -> TokenId {
    let ended = position >= natural_length(&request.prompt);
    if ended && request.limits.may_stop(position) {
        EOS
    } else {
        word(&request.prompt, position)
    }
}

/// What a request gets when it is alone in the world.
pub(super) fn alone(request: &GenerateRequest) -> (Vec<TokenId>, FinishReason) {
    let mut tokens = Vec::new();
    loop {
        let token = spoken(request, tokens.len());
        if token == EOS {
            return (tokens, FinishReason::Stop);
        }
        tokens.push(token);
        if tokens.len() == request.limits.max_tokens as usize {
            return (tokens, FinishReason::Length);
        }
    }
}

/// A scheduler, the model, a clock that ticks once a step, and everyone who listens.
pub(super) struct World {
    pub(super) scheduler: Scheduler,
    pub(super) now: Moment,
    pub(super) reusable: BTreeSet<BlockHash>,
    pub(super) admitted: Vec<SequenceId>,
    /// Rows of the last step: sequence, start, count, drafts.
    pub(super) last: Vec<(u64, usize, usize, usize)>,
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            scheduler: Scheduler::new(WorkerId(1), limits),
            now: Moment::ZERO,
            reusable: BTreeSet::new(),
            admitted: Vec::new(),
            last: Vec::new(),
        }
    }

    pub(super) fn submit(&mut self, request: GenerateRequest) -> TokenStream {
        let (sender, stream) = token_stream(WorkerId(1));
        let submission = Submission {
            request,
            sender,
            arrival: self.now,
        };
        let _ = self.scheduler.submit(submission);
        stream
    }

    /// One step, checked from outside. False when there was nothing to do.
    pub(super) fn step(&mut self) -> bool {
        let limits = self.scheduler.limits.clone();
        let Some(batch) = self.scheduler.plan(self.now) else {
            self.last.clear();
            return false;
        };
        check_batch(&batch, &limits);
        for row in &batch.rows {
            if !self.admitted.contains(&row.sequence) {
                self.admitted.push(row.sequence);
            }
        }
        let describe = |row: &Row<'_>| (row.sequence.0, row.start, row.count, row.drafts);
        self.last = batch.rows.iter().map(describe).collect();
        let output = StepOutput {
            rows: batch.rows.iter().map(answer).collect(),
            ..StepOutput::default()
        };
        let output = output.check(&batch).expect("the script keeps the contract");
        self.now += Duration::from_millis(10);
        self.scheduler.commit(output, self.now);
        self.hear();
        self.scheduler.deliver();
        true
    }

    pub(super) fn hear(&mut self) {
        for event in self.scheduler.take_events() {
            match event {
                KvEvent::Stored { blocks, .. } => {
                    self.reusable.extend(blocks.iter().map(|block| block.hash));
                }
                KvEvent::Removed { blocks } => {
                    self.reusable.retain(|hash| !blocks.contains(hash));
                }
                KvEvent::Cleared => self.reusable.clear(),
            }
        }
        let truth: BTreeSet<BlockHash> = self.scheduler.pool().reusable().into_iter().collect();
        assert_eq!(self.reusable, truth, "event replay equals the pool");
    }

    pub(super) fn run(&mut self) {
        for _ in 0..100_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the scheduler never comes to rest");
    }
}

pub(super) fn answer(row: &Row<'_>) -> RowOutput {
    let mut tokens = SmallVec::new();
    if row.samples() {
        let position = row.output_position();
        // Which drafts are right may differ from run to run; the text may not.
        let accepted = mix(7, row.sequence.0, position as u64) as usize % (row.drafts + 1);
        for position in position..=position + accepted {
            tokens.push(spoken(row.request, position));
            if tokens.last() == Some(&EOS) {
                break;
            }
        }
    }
    RowOutput {
        tokens,
        logprobs: Vec::new(),
        drafted: row.drafts,
    }
}

pub(super) fn check_batch(batch: &Batch<'_>, limits: &Limits) {
    let tokens: usize = batch.rows.iter().map(|row| row.count + row.drafts).sum();
    assert!(
        tokens <= limits.max_step_tokens as usize,
        "over the token budget"
    );
    assert!(batch.rows.len() <= limits.slots as usize, "over the slots");
    let slots: BTreeSet<usize> = batch.rows.iter().map(|row| row.slot).collect();
    assert_eq!(slots.len(), batch.rows.len(), "two sequences in one slot");
    let mut users: BTreeMap<BlockId, &[TokenId]> = BTreeMap::new();
    for row in &batch.rows {
        assert!(row.count > 0 && row.start + row.count <= row.tokens.len());
        let capacity = row.blocks.len() * limits.block_size as usize;
        assert!(
            capacity >= row.start + row.count + row.drafts,
            "no room for the step"
        );
        assert!(row.drafts <= limits.draft_tokens as usize);
        for (index, block) in row.blocks.iter().enumerate() {
            let end = ((index + 1) * limits.block_size as usize).min(row.tokens.len());
            let prefix = &row.tokens[..end];
            let previous = users.insert(*block, prefix);
            assert!(
                previous.is_none_or(|other| other == prefix),
                "a block is used twice"
            );
        }
    }
}

/// Everything that has arrived on a stream: tokens, chunk sizes, finish.
pub(super) fn received(
    stream: &mut TokenStream,
) -> (Vec<TokenId>, Vec<usize>, Option<FinishReason>) {
    let (mut tokens, mut sizes, mut finish) = (Vec::new(), Vec::new(), None);
    while let Some(chunk) = stream.try_next() {
        let chunk = chunk.expect("no request fails here");
        assert_eq!(finish, None, "nothing follows the finish");
        assert_eq!(
            chunk.started.is_some(),
            sizes.is_empty(),
            "only the first chunk starts"
        );
        sizes.push(chunk.tokens.len());
        tokens.extend(chunk.tokens);
        finish = chunk.finish;
    }
    (tokens, sizes, finish)
}

pub(super) fn first_chunk(stream: &mut TokenStream) -> contract::Started {
    *stream.try_next().unwrap().unwrap().started.unwrap()
}
