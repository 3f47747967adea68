//! The state of one engine's cache, and how the router learns of its changes.
//!
//! Two sources write (the engine's events, and answers, which show what was cached) and the
//! router reads, through a feed and by snapshot. One short lock orders them: a batch gets its
//! number, changes the state and goes to the feed in one step, so state and feed agree.

use contract::{
    BlockFormat, FeedMessage, HashSeed, KvBatch, KvEvent, KvSnapshot, ModelName, Processed,
    StoredBlock, TokenId, WorkerId,
};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::warn;
use transport::FeedPublisher;

use crate::completion::AnswerSummary;
use crate::engine_cache::{EngineCache, FormatMismatch};
use crate::estimate::Estimate;
use crate::metrics::AdapterMetrics;
use crate::wire::EngineEvent;

/// An engine that has answered so often without a single event publishes none.
const SILENT_ANSWERS: u32 = 8;

/// How the cache's content is known.
#[derive(Debug)]
enum Source {
    /// From the engine's events.
    Events(Box<EngineCache>),
    /// From what was sent to the engine.
    Estimate(Estimate),
}

/// Whose cache it is, and how it is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheConfig {
    pub(crate) worker: WorkerId,
    /// Differs each time the engine joins.
    pub(crate) epoch: u64,
    pub(crate) format: BlockFormat,
    /// Blocks that an engine without events is assumed to hold at most.
    pub(crate) most_blocks: usize,
    /// The engine has reported the size of its blocks.
    pub(crate) block_size_known: bool,
    /// Events are expected.
    pub(crate) publishes: bool,
    /// The engine leaves the number of cached tokens out if it is zero.
    pub(crate) omits_zero_cached: bool,
}

/// Who else hears what the engine has processed, while that is all that is known of its cache.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) model: ModelName,
    pub(crate) others: broadcast::Sender<Processed>,
}

#[derive(Debug)]
pub(crate) struct CacheView {
    config: CacheConfig,
    metrics: AdapterMetrics,
    told: Option<Told>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    source: Source,
    next_sequence: u64,
    /// `None` once the engine is gone: the end of the feed tells the router.
    feed: Option<FeedPublisher>,
    has_events: bool,
    answers_without_events: u32,
    /// An answer has reported how much was cached.
    reports_cached: bool,
    totals: Totals,
}

/// Tokens processed through the link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// What an unfinished request means for the cache.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    seed: HashSeed,
    prompt: Vec<TokenId>,
    chain: Vec<StoredBlock>,
    expected_blocks: usize,
}

impl CacheView {
    pub(crate) fn new(
        config: CacheConfig,
        metrics: AdapterMetrics,
        feed: FeedPublisher,
        told: Option<Told>,
    ) -> Self {
        let state = State {
            source: config.unknown(config.publishes),
            next_sequence: 0,
            feed: Some(feed),
            has_events: false,
            answers_without_events: 0,
            reports_cached: false,
            totals: Totals::default(),
        };
        Self {
            config,
            metrics,
            told,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.config.worker
    }

    /// Computes how many blocks of a prompt the engine is expected to have.
    pub(crate) fn expect(&self, prompt: Vec<TokenId>, seed: HashSeed) -> PendingRequest {
        let format = self.config.format;
        let chain = format.stored_chain(&prompt, seed);
        let overlap = match &self.state.lock().source {
            Source::Events(cache) => cache.overlap(&chain),
            Source::Estimate(estimate) => estimate.overlap(&chain),
        };
        PendingRequest {
            seed,
            expected_blocks: overlap.min(format.reusable(prompt.len())),
            prompt,
            chain,
        }
    }

    pub(crate) fn expected_tokens(&self, pending: &PendingRequest) -> u32 {
        (pending.expected_blocks * self.config.format.size as usize) as u32
    }

    /// Applies the engine's events.
    pub(crate) fn apply(&self, events: &[EngineEvent]) -> Result<(), FormatMismatch> {
        let mut state = self.state.lock();
        state.has_events = true;
        let mut changes = Vec::new();
        if let Source::Estimate(_) = state.source {
            state.source = self.config.unknown(true);
            changes.push(KvEvent::Cleared);
        }
        if let Source::Events(cache) = &mut state.source {
            for event in events {
                changes.extend(cache.apply(event)?);
            }
            let tally = cache.take_tally();
            self.metrics.tally(&tally);
        }
        self.publish(&mut state, changes);
        Ok(())
    }

    /// Events were lost for good: the cache is unknown.
    pub(crate) fn miss(&self) {
        let mut state = self.state.lock();
        if let Source::Events(cache) = &mut state.source {
            let cleared = cache.forget();
            self.publish(&mut state, vec![cleared]);
        }
    }

    /// The engine has restarted, or its cache has been cleared.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        match &mut state.source {
            Source::Events(cache) => cache.reset(),
            Source::Estimate(estimate) => estimate.clear(),
        }
        self.publish(&mut state, vec![KvEvent::Cleared]);
    }

    /// Events cannot be had now: until the first one, what the engine holds is estimated.
    pub(crate) fn estimate(&self) {
        let mut state = self.state.lock();
        if !state.has_events {
            state.source = self.config.unknown(false);
        }
    }

    /// Whether what the engine holds is estimated.
    pub(crate) fn is_estimated(&self) -> bool {
        matches!(self.state.lock().source, Source::Estimate(_))
    }

    pub(crate) fn snapshot(&self) -> KvSnapshot {
        let state = self.state.lock();
        let blocks = match &state.source {
            Source::Events(cache) => cache.blocks().collect(),
            Source::Estimate(estimate) => estimate.blocks().collect(),
        };
        KvSnapshot {
            epoch: self.config.epoch,
            next_sequence: state.next_sequence,
            blocks,
        }
    }

    /// Blocks held, and tokens processed so far.
    pub(crate) fn totals(&self) -> (usize, Totals) {
        let state = self.state.lock();
        let held = match &state.source {
            Source::Events(cache) => cache.len(),
            Source::Estimate(estimate) => estimate.len(),
        };
        (held, state.totals)
    }

    /// The engine has processed a request, to its end or not.
    pub(crate) fn answered(&self, pending: &PendingRequest, ended: &AnswerSummary, complete: bool) {
        let block_size = self.config.format.size as usize;
        let mut state = self.state.lock();
        let mut cached = ended.cached_tokens;
        state.reports_cached |= cached.is_some();
        if cached.is_none() && complete && self.config.omits_zero_cached && state.reports_cached {
            cached = Some(0);
        }
        state.totals.prompt_tokens += pending.prompt.len() as u64;
        state.totals.cached_tokens += u64::from(cached.unwrap_or(self.expected_tokens(pending)));
        state.totals.output_tokens += u64::from(ended.output_tokens);
        if pending.prompt.is_empty() {
            // Nothing is known of what the engine computed.
            return;
        }
        if ended
            .prompt_tokens
            .is_some_and(|tokens| tokens as usize != pending.prompt.len())
        {
            self.metrics.prompt_mismatches.inc();
        }
        if let Some(cached) = cached {
            self.metrics.answers.inc();
            let expected = self.expected_tokens(pending);
            if cached.abs_diff(expected) as usize >= block_size {
                self.metrics.mismatch(cached > expected);
            }
        }
        self.expect_events(&mut state);
        let found = cached.map(|cached| (cached as usize / block_size).min(pending.chain.len()));
        let mut changes = Vec::new();
        match &mut state.source {
            Source::Events(cache) => {
                let found = found.unwrap_or(0);
                changes.extend(cache.confirm(&pending.chain[..found]));
            }
            Source::Estimate(estimate) => {
                // A small difference may come from the engine's own block size.
                if let Some(found) = found.filter(|found| found * 2 < pending.expected_blocks) {
                    changes.extend(estimate.correct(&pending.chain, found));
                }
                // The last token was never an input, so it is not in the cache.
                let inputs = ended
                    .tokens
                    .split_last()
                    .map_or(&[][..], |(_, inputs)| inputs);
                let whole = [&pending.prompt[..], inputs].concat();
                let chain = self.config.format.stored_chain(&whole, pending.seed);
                changes.extend(estimate.answered(&chain));
                self.tell(&chain);
            }
        }
        self.publish(&mut state, changes);
    }

    /// Tells other frontends what the engine has processed.
    fn tell(&self, chain: &[StoredBlock]) {
        let Some(Told { model, others }) = &self.told else {
            return;
        };
        if chain.is_empty() || others.receiver_count() == 0 {
            return;
        }
        // Whoever listened may be gone by now.
        let _ = others.send(Processed {
            model: model.clone(),
            worker: self.config.worker,
            block_size: self.config.format.size,
            blocks: chain.iter().map(|block| block.local).collect(),
        });
    }

    /// The engine has processed a request of another frontend. Its own events know better.
    pub(crate) fn processed_for_another(&self, processed: &Processed) {
        if processed.block_size != self.config.format.size {
            return;
        }
        // The engine holds no more, and answers wait for the lock.
        let chain = processed.chain(self.config.most_blocks);
        let mut state = self.state.lock();
        if let Source::Estimate(estimate) = &mut state.source {
            let changes = estimate.answered(&chain);
            self.publish(&mut state, changes);
        }
    }

    /// Publishes a message and how far the feed goes, for a router that missed its last batch.
    pub(crate) fn report(&self, message: FeedMessage) {
        let state = self.state.lock();
        let Some(feed) = &state.feed else { return };
        feed.publish(message);
        feed.publish(FeedMessage::Head {
            epoch: self.config.epoch,
            next_sequence: state.next_sequence,
        });
    }

    /// The engine is gone.
    pub(crate) fn close(&self) {
        self.state.lock().feed = None;
    }

    /// Treats an engine that should publish events and does not like one that cannot.
    fn expect_events(&self, state: &mut State) {
        if state.has_events || !matches!(state.source, Source::Events(_)) {
            return;
        }
        state.answers_without_events += 1;
        if state.answers_without_events == SILENT_ANSWERS {
            warn!(worker = %self.config.worker, "the engine publishes no cache events; estimating what it holds");
            state.source = self.config.unknown(false);
        }
    }

    fn publish(&self, state: &mut State, events: Vec<KvEvent>) {
        let Some(feed) = state.feed.as_ref().filter(|_| !events.is_empty()) else {
            return;
        };
        feed.publish(FeedMessage::Kv(KvBatch {
            worker: self.config.worker,
            epoch: self.config.epoch,
            sequence: state.next_sequence,
            events,
        }));
        state.next_sequence += 1;
    }
}

impl CacheConfig {
    /// A source that knows nothing yet.
    fn unknown(&self, publishes: bool) -> Source {
        if !publishes {
            return Source::Estimate(Estimate::new(self.most_blocks));
        }
        let mut cache = EngineCache::new(self.format);
        if self.block_size_known {
            cache.trust_block_size();
        }
        Source::Events(Box::new(cache))
    }
}
