//! What an engine holds, and who is told.
//!
//! Two sources write (the engine's events, and the answers that show what was cached) and the
//! router reads, by feed and by snapshot. One short lock orders them: a batch gets its number,
//! changes the picture and goes to the feed in one step, so the picture and the feed agree.

use contract::{
    FeedMessage, HashSeed, KvBatch, KvEvent, KvSnapshot, StoredBlock, TokenId, WorkerId,
};
use parking_lot::Mutex;
use tracing::warn;
use transport::FeedPublisher;

use crate::chain::Cut;
use crate::completion::Ended;
use crate::estimate::Estimate;
use crate::metrics::EngineMetrics;
use crate::mirror::{Mirror, Misfit};
use crate::wire::EngineEvent;

/// After so many answers without a single event the engine does not publish any.
const SILENT_ANSWERS: u32 = 8;

#[derive(Debug)]
enum Known {
    /// By its events.
    Mirror(Box<Mirror>),
    /// By what was sent there.
    Estimate(Estimate),
}

/// Whose holdings, and how they are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) worker: WorkerId,
    /// Differs each time the engine joins.
    pub(crate) epoch: u64,
    pub(crate) cut: Cut,
    /// Blocks that an engine without events is thought to hold.
    pub(crate) most_blocks: usize,
    /// It has said how long its blocks are.
    pub(crate) block_size_known: bool,
    /// Events are expected.
    pub(crate) publishes: bool,
    /// It says nothing where nothing was cached.
    pub(crate) omits_zero: bool,
}

#[derive(Debug)]
pub(crate) struct Holdings {
    owner: Owner,
    metrics: EngineMetrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    known: Known,
    next_sequence: u64,
    /// `None` once the engine is gone: the router learns it by the feed's end.
    feed: Option<FeedPublisher>,
    heard_events: bool,
    answers_in_silence: u32,
    /// An answer has said how much was cached.
    reports_cached: bool,
    totals: Totals,
}

/// Tokens that went through the link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
}

/// One request, as far as the cache is concerned.
#[derive(Debug)]
pub(crate) struct Work {
    seed: HashSeed,
    prompt: Vec<TokenId>,
    chain: Vec<StoredBlock>,
    expected_blocks: usize,
}

impl Holdings {
    pub(crate) fn new(owner: Owner, metrics: EngineMetrics, feed: FeedPublisher) -> Self {
        let state = State {
            known: owner.unknown(owner.publishes),
            next_sequence: 0,
            feed: Some(feed),
            heard_events: false,
            answers_in_silence: 0,
            reports_cached: false,
            totals: Totals::default(),
        };
        Self {
            owner,
            metrics,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.owner.worker
    }

    /// What a request will probably find.
    pub(crate) fn expect(&self, prompt: Vec<TokenId>, seed: HashSeed) -> Work {
        let cut = self.owner.cut;
        let chain = cut.chain(&prompt, seed);
        let overlap = match &self.state.lock().known {
            Known::Mirror(mirror) => mirror.overlap(&chain),
            Known::Estimate(estimate) => estimate.overlap(&chain),
        };
        Work {
            seed,
            expected_blocks: overlap.min(cut.reusable(prompt.len())),
            prompt,
            chain,
        }
    }

    pub(crate) fn expected_tokens(&self, work: &Work) -> u32 {
        (work.expected_blocks * self.owner.cut.block_size) as u32
    }

    /// Takes in what the engine says about its cache.
    pub(crate) fn apply(&self, events: &[EngineEvent]) -> Result<(), Misfit> {
        let mut state = self.state.lock();
        state.heard_events = true;
        let mut changes = Vec::new();
        if let Known::Estimate(_) = state.known {
            state.known = self.owner.unknown(true);
            changes.push(KvEvent::Cleared);
        }
        if let Known::Mirror(mirror) = &mut state.known {
            for event in events {
                changes.extend(mirror.apply(event)?);
            }
            let tally = mirror.take_tally();
            self.metrics.tally(&tally);
        }
        self.publish(&mut state, changes);
        Ok(())
    }

    /// Events were lost for good: nothing is known to be held.
    pub(crate) fn miss(&self) {
        let mut state = self.state.lock();
        if let Known::Mirror(mirror) = &mut state.known {
            let cleared = mirror.forget();
            self.publish(&mut state, vec![cleared]);
        }
    }

    /// The engine has begun anew or has been told to forget everything.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        match &mut state.known {
            Known::Mirror(mirror) => mirror.reset(),
            Known::Estimate(estimate) => estimate.clear(),
        }
        self.publish(&mut state, vec![KvEvent::Cleared]);
    }

    /// Whether events are the source, and will tell of every change.
    pub(crate) fn follows_events(&self) -> bool {
        matches!(self.state.lock().known, Known::Mirror(_))
    }

    pub(crate) fn snapshot(&self) -> KvSnapshot {
        let state = self.state.lock();
        let blocks = match &state.known {
            Known::Mirror(mirror) => mirror.blocks().collect(),
            Known::Estimate(estimate) => estimate.blocks().collect(),
        };
        KvSnapshot {
            epoch: self.owner.epoch,
            next_sequence: state.next_sequence,
            blocks,
        }
    }

    /// Blocks held, and tokens that went through.
    pub(crate) fn totals(&self) -> (usize, Totals) {
        let state = self.state.lock();
        let held = match &state.known {
            Known::Mirror(mirror) => mirror.len(),
            Known::Estimate(estimate) => estimate.len(),
        };
        (held, state.totals)
    }

    /// The engine has worked on a request, to its end or not.
    pub(crate) fn answered(&self, work: &Work, ended: &Ended, complete: bool) {
        let block_size = self.owner.cut.block_size;
        let mut state = self.state.lock();
        let mut cached = ended.cached_tokens;
        state.reports_cached |= cached.is_some();
        if cached.is_none() && complete && self.owner.omits_zero && state.reports_cached {
            cached = Some(0);
        }
        state.totals.prompt_tokens += work.prompt.len() as u64;
        state.totals.cached_tokens += u64::from(cached.unwrap_or(self.expected_tokens(work)));
        state.totals.output_tokens += ended.tokens.len() as u64;
        if let Some(cached) = cached {
            self.metrics.answers.inc();
            if cached.abs_diff(self.expected_tokens(work)) as usize >= block_size {
                self.metrics.mismatches.inc();
            }
        }
        self.notice_silence(&mut state);
        let found = cached.map(|cached| (cached as usize / block_size).min(work.chain.len()));
        let mut changes = Vec::new();
        match &mut state.known {
            Known::Mirror(mirror) => {
                let found = found.unwrap_or(0);
                changes.extend(mirror.confirm(&work.chain[..found]));
            }
            Known::Estimate(estimate) => {
                // A little less may be the engine's way of counting: its blocks need not be ours.
                if let Some(found) = found.filter(|found| found * 2 < work.expected_blocks) {
                    changes.extend(estimate.correct(&work.chain, found));
                }
                // The last token was never an input, so nothing of it is in the cache.
                let inputs = ended
                    .tokens
                    .split_last()
                    .map_or(&[][..], |(_, inputs)| inputs);
                let whole = [&work.prompt[..], inputs].concat();
                changes.extend(estimate.answered(&self.owner.cut.chain(&whole, work.seed)));
            }
        }
        self.publish(&mut state, changes);
    }

    /// How far the feed goes, for a router that has lost the last of it.
    pub(crate) fn tell(&self, message: FeedMessage) {
        let state = self.state.lock();
        let Some(feed) = &state.feed else { return };
        feed.publish(message);
        feed.publish(FeedMessage::Head {
            epoch: self.owner.epoch,
            next_sequence: state.next_sequence,
        });
    }

    /// The engine is gone.
    pub(crate) fn close(&self) {
        self.state.lock().feed = None;
    }

    /// An engine that should publish events and does not is treated like one that cannot.
    fn notice_silence(&self, state: &mut State) {
        if state.heard_events || !matches!(state.known, Known::Mirror(_)) {
            return;
        }
        state.answers_in_silence += 1;
        if state.answers_in_silence == SILENT_ANSWERS {
            warn!(worker = %self.owner.worker, "the engine gives no cache events; guessing what it holds");
            state.known = self.owner.unknown(false);
        }
    }

    fn publish(&self, state: &mut State, events: Vec<KvEvent>) {
        let Some(feed) = state.feed.as_ref().filter(|_| !events.is_empty()) else {
            return;
        };
        feed.publish(FeedMessage::Kv(KvBatch {
            worker: self.owner.worker,
            epoch: self.owner.epoch,
            sequence: state.next_sequence,
            events,
        }));
        state.next_sequence += 1;
    }
}

impl Owner {
    fn unknown(&self, publishes: bool) -> Known {
        if !publishes {
            return Known::Estimate(Estimate::new(self.most_blocks));
        }
        let mut mirror = Mirror::new(self.cut);
        if self.block_size_known {
            mirror.trust_block_size();
        }
        Known::Mirror(Box::new(mirror))
    }
}
