//! Cache events over ZeroMQ, as vLLM and SGLang publish them.
//!
//! ```text
//! SUB     [topic][number of the batch, u64 BE][batch]
//! ```
//!
//! A gap is filled by asking for the missing batches ([`zmtp::replay`]). If the engine no longer
//! has them, everything that it was assumed to hold is forgotten: otherwise a missed removal
//! would be believed forever. While nothing arrives, the engine is asked now and then for the
//! last batch that was received. What follows it has been missed, because the loss of the last
//! batch leaves no gap. If a different batch comes back, or none, the engine has restarted.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};
use zmtp::replay::{Numbered, replay};
use zmtp::{Error, Message, Subscriber};

use super::EventError;
use crate::cache_view::CacheView;
use crate::engine_cache::FormatMismatch;
use crate::metrics::AdapterMetrics;
use crate::numbering::{BatchNumbering, Verdict};
use crate::wire::Malformed;
use crate::wire::msgpack::Batch;

/// The largest batch that is read. A step of an engine stores some thousand blocks at most.
pub(crate) const LARGEST_BATCH: usize = 64 << 20;

/// How long a batch may take that the engine has published.
const ON_ITS_WAY: Duration = Duration::from_millis(250);

/// How a batch is read.
pub(crate) type Decode = fn(&[u8]) -> Result<Batch, Malformed>;

/// Where an engine publishes, and in which format.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    pub(crate) events: String,
    /// Where it sends missed batches again.
    pub(crate) replay: Option<String>,
    pub(crate) topic: String,
    pub(crate) decode: Decode,
    /// The longest wait for a connection, for a replay, and for events before the engine is
    /// asked whether any were missed.
    pub(crate) patience: Duration,
}

pub(crate) struct Listener {
    publisher: Publisher,
    subscriber: Subscriber,
    numbering: BatchNumbering,
    cache: Arc<CacheView>,
    metrics: AdapterMetrics,
    /// It has been logged that events cannot be read.
    logged: bool,
}

/// Waits for a publisher that cannot be reached yet.
pub(crate) struct LateListener {
    pub(crate) publisher: Publisher,
    pub(crate) cache: Arc<CacheView>,
    pub(crate) metrics: AdapterMetrics,
    pub(crate) retry_interval: Duration,
}

impl LateListener {
    /// Listens as soon as it can, until the engine's blocks turn out to be unusable.
    pub(crate) async fn run(self) -> FormatMismatch {
        let Self {
            publisher,
            cache,
            metrics,
            retry_interval,
        } = self;
        loop {
            tokio::time::sleep(retry_interval).await;
            match Listener::connect(publisher.clone(), &cache, &metrics).await {
                Ok(listener) => {
                    info!(worker = %cache.worker(), "cache events can be reached now");
                    return listener.run().await;
                }
                Err(EventError::FormatMismatch(mismatch)) => return mismatch,
                Err(EventError::Timeout { .. } | EventError::Subscribe { .. }) => {}
            }
        }
    }
}

impl Listener {
    /// Subscribes, and applies what the engine has kept from before.
    pub(crate) async fn connect(
        publisher: Publisher,
        cache: &Arc<CacheView>,
        metrics: &AdapterMetrics,
    ) -> Result<Self, EventError> {
        let Publisher {
            events,
            topic,
            patience,
            ..
        } = &publisher;
        let connecting = Subscriber::connect(events, topic, LARGEST_BATCH);
        let connected = tokio::time::timeout(*patience, connecting).await;
        let connected = connected.map_err(|_| EventError::Timeout {
            address: events.clone(),
            patience: *patience,
        })?;
        let subscriber = connected.map_err(|source| EventError::Subscribe {
            address: events.clone(),
            source,
        })?;
        let mut listener = Self {
            publisher,
            subscriber,
            numbering: BatchNumbering::default(),
            cache: Arc::clone(cache),
            metrics: metrics.clone(),
            logged: false,
        };
        listener.catch_up().await?;
        Ok(listener)
    }

    /// Listens until the engine's blocks turn out to be unusable.
    pub(crate) async fn run(mut self) -> FormatMismatch {
        loop {
            let next = self.subscriber.next();
            let next = tokio::time::timeout(self.publisher.patience, next).await;
            let applied = match next {
                Ok(Ok(message)) => self.receive(&message).await,
                Ok(Err(error)) => {
                    debug!(worker = %self.cache.worker(), %error, "events interrupted");
                    if let Error::Violation(_) = error {
                        self.metrics.malformed();
                    }
                    Ok(())
                }
                Err(_) => self.catch_up().await,
            };
            if let Err(mismatch) = applied {
                return mismatch;
            }
        }
    }

    async fn receive(&mut self, message: &Message) -> Result<(), FormatMismatch> {
        let Some(message) = Numbered::from_message(message) else {
            self.metrics.malformed();
            return Ok(());
        };
        let Some(batch) = self.decode(&message) else {
            return Ok(());
        };
        let number = message.number;
        match self.numbering.judge(number, batch.at) {
            Verdict::Duplicate => return Ok(()),
            Verdict::Next => {}
            Verdict::Gap { from } => self.fill(from, number).await?,
            Verdict::Restart => {
                self.restart();
                if number > 0 && self.publisher.replay.is_some() {
                    self.fill(0, number).await?;
                }
            }
        }
        self.apply(number, &batch)
    }

    /// A batch that cannot be read may have contained anything, so the cache is unknown after it.
    fn decode(&mut self, message: &Numbered) -> Option<Batch> {
        let number = message.number;
        match (self.publisher.decode)(&message.payload) {
            Ok(batch) => Some(batch),
            Err(error) => {
                if !std::mem::replace(&mut self.logged, true) {
                    let worker = self.cache.worker();
                    warn!(%worker, %error, number, "cache events cannot be read");
                }
                self.metrics.malformed();
                self.cache.miss();
                self.numbering.skip(number);
                None
            }
        }
    }

    fn apply(&mut self, number: u64, batch: &Batch) -> Result<(), FormatMismatch> {
        self.cache.apply(&batch.events)?;
        self.numbering.applied(number, batch.at);
        Ok(())
    }

    fn restart(&mut self) {
        debug!(worker = %self.cache.worker(), "the engine has restarted");
        self.cache.restart();
        self.numbering = BatchNumbering::default();
    }

    /// Asks for the batches in between, or forgets the cache.
    async fn fill(&mut self, from: u64, end: u64) -> Result<(), FormatMismatch> {
        let mut missed = self.replayed(from).await.unwrap_or_default();
        missed.retain(|batch| batch.number < end);
        self.take_replayed(from, missed, Some(end))
    }

    /// Asks whether any batches were missed.
    async fn catch_up(&mut self) -> Result<(), FormatMismatch> {
        let last = self.numbering.next().map(|next| next.saturating_sub(1));
        let Some(mut kept) = self.replayed(last.unwrap_or(0)).await else {
            return Ok(());
        };
        let Some(last) = last else {
            // Before anything is known, nothing can be wrong.
            let from = kept.first().map_or(0, |batch| batch.number);
            return self.take_replayed(from, kept, None);
        };
        match kept.first() {
            // It no longer has the last one, but later ones.
            Some(first) if first.number > last => {}
            Some(first) if self.is_last(first) => {
                kept.remove(0);
            }
            Some(_) | None => {
                self.restart();
                kept = self.replayed(0).await.unwrap_or_default();
                let from = kept.first().map_or(0, |batch| batch.number);
                return self.take_replayed(from, kept, None);
            }
        }
        let Some(newest) = kept.last().map(|batch| batch.number) else {
            return Ok(());
        };
        self.read_until(newest).await?;
        let next = self.numbering.next().unwrap_or(0);
        kept.retain(|batch| batch.number >= next);
        if kept.is_empty() {
            return Ok(());
        }
        self.take_replayed(next, kept, None)
    }

    /// Reads what is on its way: a batch that was published just now is not lost.
    async fn read_until(&mut self, newest: u64) -> Result<(), FormatMismatch> {
        while self.numbering.next().is_some_and(|next| next <= newest) {
            match tokio::time::timeout(ON_ITS_WAY, self.subscriber.next()).await {
                Ok(Ok(message)) => self.receive(&message).await?,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Whether a batch is the one that was received last. True for one that cannot be read,
    /// which cannot be distinguished from another.
    fn is_last(&self, message: &Numbered) -> bool {
        let batch = (self.publisher.decode)(&message.payload);
        batch.map_or(true, |batch| {
            self.numbering.is_last(message.number, batch.at)
        })
    }

    /// Applies batches that should begin at `from` and end before `end`.
    fn take_replayed(
        &mut self,
        from: u64,
        missed: Vec<Numbered>,
        end: Option<u64>,
    ) -> Result<(), FormatMismatch> {
        let whole = missed
            .iter()
            .map(|batch| batch.number)
            .eq(from..end.unwrap_or(from.saturating_add(missed.len() as u64)));
        if !whole {
            self.cache.miss();
        }
        if self.numbering.next().is_some() {
            self.metrics.gap(whole);
        }
        for message in missed {
            let Some(batch) = self.decode(&message) else {
                continue;
            };
            self.apply(message.number, &batch)?;
        }
        Ok(())
    }

    /// The batches from a number on that the engine has kept; `None` if it cannot be asked.
    async fn replayed(&self, from: u64) -> Option<Vec<Numbered>> {
        let endpoint = self.publisher.replay.as_ref()?;
        let asking = replay(endpoint, from, LARGEST_BATCH);
        match tokio::time::timeout(self.publisher.patience, asking).await {
            Ok(Ok(batches)) => Some(batches),
            Ok(Err(error)) => {
                debug!(worker = %self.cache.worker(), %error, "no replay");
                None
            }
            Err(_) => {
                debug!(worker = %self.cache.worker(), "no replay in time");
                None
            }
        }
    }
}
