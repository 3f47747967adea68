//! Events over ZeroMQ, as vLLM and SGLang publish them.
//!
//! ```text
//! SUB     [topic][number of the batch, u64 BE][batch]
//! replay  DEALER asks [][first number wanted, u64 BE]
//!         ROUTER answers [][topic?][number][batch] …, and at the end [][…][-1][]
//! ```
//!
//! A gap is filled by asking for what is missing. If the engine no longer has it, everything
//! the engine was thought to hold is forgotten: a missed removal would otherwise be believed
//! for ever. While nothing comes, the replay socket is asked now and then for the last batch
//! that was heard: what comes after it has been missed, because the loss of the last batch
//! leaves no gap, and if it is another one, or none, the engine has begun anew.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::{debug, warn};
use zmtp::{Asker, Error, Message, Subscriber};

use super::EventError;
use crate::holdings::Holdings;
use crate::metrics::EngineMetrics;
use crate::mirror::Misfit;
use crate::sequence::{Sequence, Verdict};
use crate::spec::EngineSpec;
use crate::wire::msgpack::{self, Batch};

/// What ends a replay.
const END: u64 = u64::MAX;
/// The largest batch that is read. A step of an engine stores some thousand blocks at most.
const LARGEST_BATCH: usize = 64 << 20;
/// More batches than an engine keeps.
const MOST_REPLAYED: usize = 1 << 20;

pub(crate) struct Listener {
    subscriber: Subscriber,
    replay: Option<String>,
    patience: Duration,
    sequence: Sequence,
    holdings: Arc<Holdings>,
    metrics: EngineMetrics,
    /// It has been logged that events are not understood.
    complained: bool,
}

impl Listener {
    /// Subscribes, and takes in what the engine has kept from before. `None` where there are
    /// no events to be had.
    pub(crate) async fn connect(
        spec: &EngineSpec,
        patience: Duration,
        holdings: &Arc<Holdings>,
        metrics: &EngineMetrics,
    ) -> Result<Option<Self>, EventError> {
        let Some(events) = &spec.events else {
            return Ok(None);
        };
        let failed = |detail: String| EventError::Socket {
            option: "events",
            address: events.clone(),
            detail,
        };
        let connecting = Subscriber::connect(events, &spec.topic, LARGEST_BATCH);
        let connected = tokio::time::timeout(patience, connecting).await;
        let connected = connected.map_err(|_| failed("nobody listens there".to_owned()))?;
        let subscriber = connected.map_err(|error| failed(error.to_string()))?;
        let mut listener = Self {
            subscriber,
            replay: spec.replay.clone(),
            patience,
            sequence: Sequence::default(),
            holdings: Arc::clone(holdings),
            metrics: metrics.clone(),
            complained: false,
        };
        listener.catch_up().await?;
        Ok(Some(listener))
    }

    /// Listens until the engine's blocks turn out not to fit.
    pub(crate) async fn run(mut self) -> Misfit {
        loop {
            let heard = tokio::time::timeout(self.patience, self.subscriber.next()).await;
            let taken = match heard {
                Ok(Ok(message)) => self.hear(message).await,
                Ok(Err(error)) => {
                    debug!(worker = %self.holdings.worker(), %error, "events interrupted");
                    if let Error::Violation(_) = error {
                        self.metrics.malformed();
                    }
                    Ok(())
                }
                Err(_) => self.catch_up().await,
            };
            if let Err(misfit) = taken {
                return misfit;
            }
        }
    }

    async fn hear(&mut self, message: Message) -> Result<(), Misfit> {
        let Some((number, payload)) = numbered(message) else {
            self.metrics.malformed();
            return Ok(());
        };
        let Some(batch) = self.decode(number, &payload) else {
            return Ok(());
        };
        match self.sequence.judge(number, batch.at) {
            Verdict::Duplicate => return Ok(()),
            Verdict::Next => {}
            Verdict::Gap { from } => self.fill(from, number).await?,
            Verdict::Restart => {
                self.begin_anew();
                if number > 0 && self.replay.is_some() {
                    self.fill(0, number).await?;
                }
            }
        }
        self.take(number, &batch)
    }

    /// A batch that cannot be read may have said anything.
    fn decode(&mut self, number: u64, payload: &[u8]) -> Option<Batch> {
        match msgpack::decode(payload) {
            Ok(batch) => Some(batch),
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    let worker = self.holdings.worker();
                    warn!(%worker, %error, number, "cache events are not understood");
                }
                self.metrics.malformed();
                self.holdings.miss();
                self.sequence.skip(number);
                None
            }
        }
    }

    fn take(&mut self, number: u64, batch: &Batch) -> Result<(), Misfit> {
        self.holdings.apply(&batch.events)?;
        self.sequence.took(number, batch.at);
        Ok(())
    }

    fn begin_anew(&mut self) {
        debug!(worker = %self.holdings.worker(), "the engine has begun anew");
        self.holdings.restart();
        self.sequence = Sequence::default();
    }

    /// Asks for the batches between, or forgets.
    async fn fill(&mut self, from: u64, end: u64) -> Result<(), Misfit> {
        let mut missed = self.replayed(from).await.unwrap_or_default();
        missed.retain(|(number, _)| *number < end);
        self.take_replayed(from, missed, Some(end))
    }

    /// Asks whether there is anything that was not heard.
    async fn catch_up(&mut self) -> Result<(), Misfit> {
        let last = self.sequence.next().map(|next| next.saturating_sub(1));
        let Some(mut kept) = self.replayed(last.unwrap_or(0)).await else {
            return Ok(());
        };
        let Some(last) = last else {
            // Before anything is known, nothing can be wrong.
            let from = kept.first().map_or(0, |(number, _)| *number);
            return self.take_replayed(from, kept, None);
        };
        match kept.first() {
            // It no longer has the last one, but later ones.
            Some((number, _)) if *number > last => {}
            Some((number, payload)) if self.is_last(*number, payload) => {
                kept.remove(0);
            }
            Some(_) | None => {
                self.begin_anew();
                kept = self.replayed(0).await.unwrap_or_default();
                let from = kept.first().map_or(0, |(number, _)| *number);
                return self.take_replayed(from, kept, None);
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        self.take_replayed(last + 1, kept, None)
    }

    /// A batch that could not be read the first time cannot be told from another.
    fn is_last(&self, number: u64, payload: &[u8]) -> bool {
        let batch = msgpack::decode(payload);
        batch.map_or(true, |batch| self.sequence.is_last(number, batch.at))
    }

    /// Takes in batches that should begin at `from` and go on to `end`.
    fn take_replayed(
        &mut self,
        from: u64,
        missed: Vec<(u64, Bytes)>,
        end: Option<u64>,
    ) -> Result<(), Misfit> {
        let whole = missed
            .iter()
            .map(|(number, _)| *number)
            .eq(from..end.unwrap_or(from.saturating_add(missed.len() as u64)));
        if !whole {
            self.holdings.miss();
        }
        if self.sequence.next().is_some() {
            self.metrics.gap(whole);
        }
        for (number, payload) in missed {
            let Some(batch) = self.decode(number, &payload) else {
                continue;
            };
            self.take(number, &batch)?;
        }
        Ok(())
    }

    /// What the engine has kept from a number on; `None` if it cannot be asked.
    async fn replayed(&self, from: u64) -> Option<Vec<(u64, Bytes)>> {
        let replay = self.replay.as_ref()?;
        match tokio::time::timeout(self.patience, ask(replay, from)).await {
            Ok(Ok(mut batches)) => {
                batches.retain(|(number, _)| *number >= from);
                Some(batches)
            }
            Ok(Err(error)) => {
                debug!(worker = %self.holdings.worker(), %error, "no replay");
                None
            }
            Err(_) => {
                debug!(worker = %self.holdings.worker(), "no replay in time");
                None
            }
        }
    }
}

async fn ask(replay: &str, from: u64) -> Result<Vec<(u64, Bytes)>, Error> {
    let mut asker = Asker::connect(replay, LARGEST_BATCH).await?;
    let number = Bytes::copy_from_slice(&from.to_be_bytes());
    asker.ask(&vec![Bytes::new(), number]).await?;
    let mut batches = Vec::new();
    while batches.len() < MOST_REPLAYED {
        match numbered(asker.answer().await?) {
            Some((END, _)) => break,
            Some(batch) => batches.push(batch),
            None => {}
        }
    }
    Ok(batches)
}

/// The last two parts of a message: a batch and its number. What comes before them differs.
fn numbered(mut message: Message) -> Option<(u64, Bytes)> {
    let payload = message.pop()?;
    let number = message.pop()?;
    Some((u64::from_be_bytes(number[..].try_into().ok()?), payload))
}
