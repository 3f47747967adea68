//! Listens to an engine's events during an examination.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::StoredBlock;
use tokio::time::Instant;
use zmtp::Subscriber;
use zmtp::replay::{Numbered, replay};

use super::Findings;
use crate::engine_cache::{EngineCache, FormatMismatch};
use crate::events::zmq::{Decode, LARGEST_BATCH};

/// Events come with the step that stores the blocks.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clocks that differ by more show wrong delays.
const SKEW: f64 = 1.0;

/// A subscription.
pub(super) struct Ear {
    subscriber: Subscriber,
    decode: Decode,
}

/// Why events cannot be had.
#[derive(Debug)]
pub(super) enum Deaf {
    Timeout,
    Wire(zmtp::Error),
}

impl fmt::Display for Deaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("nothing accepts connections there"),
            Self::Wire(error) => f.write_str(&contract::error_chain(error)),
        }
    }
}

/// What was heard of one prompt.
#[derive(Debug, Default)]
pub(super) struct Heard {
    batches: u32,
    /// Blocks of the prompt that the events name as we do.
    blocks: usize,
    /// The engine's clock against ours, in seconds, as last seen.
    skew: f64,
    unreadable: Option<String>,
    mismatch: Option<FormatMismatch>,
}

impl Ear {
    pub(super) async fn open(
        address: &str,
        topic: &str,
        decode: Decode,
        patience: Duration,
    ) -> Result<Self, Deaf> {
        let connecting = Subscriber::connect(address, topic, LARGEST_BATCH);
        let connected = tokio::time::timeout(patience, connecting).await;
        let subscriber = connected.map_err(|_| Deaf::Timeout)?.map_err(Deaf::Wire)?;
        // A subscription takes a moment to reach the publisher; what it publishes before is lost.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(Self { subscriber, decode })
    }

    /// Listens until the events have named every block of `chain`, or for long enough.
    pub(super) async fn hear(&mut self, cache: &mut EngineCache, chain: &[StoredBlock]) -> Heard {
        let mut heard = Heard::default();
        let deadline = Instant::now() + PATIENCE;
        while heard.blocks < chain.len() {
            let next = tokio::time::timeout_at(deadline, self.subscriber.next()).await;
            let Ok(next) = next else { break };
            let Some(message) = next.ok().as_ref().and_then(Numbered::from_message) else {
                continue;
            };
            heard.batches += 1;
            let batch = match (self.decode)(&message.payload) {
                Ok(batch) => batch,
                Err(error) => {
                    heard.unreadable = Some(error.to_string());
                    break;
                }
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            heard.skew = now.unwrap_or_default().as_secs_f64() - batch.at;
            for event in &batch.events {
                if let Err(mismatch) = cache.apply(event) {
                    heard.mismatch = Some(mismatch);
                    return heard;
                }
            }
            heard.blocks = cache.overlap(chain);
        }
        heard
    }
}

impl Heard {
    pub(super) fn findings(&self, expected: usize) -> Findings {
        let mut findings = Findings::default();
        let batches = self.batches;
        if let Some(error) = &self.unreadable {
            let help = "this release writes events that Homing does not know: please report it";
            findings.bad("events", format!("they cannot be read: {error}"), help);
        } else if batches == 0 {
            let help = "check that \"enable_kv_cache_events\" is true and that topic= is the publisher's, or empty";
            findings.bad(
                "events",
                "connected, but nothing was published".to_owned(),
                help,
            );
        } else {
            findings.good("events", format!("{batches} batches heard"));
        }
        if let Some(mismatch) = &self.mismatch {
            let help = "start the frontend with the engine's --kv-cache-block-size";
            findings.bad("block hashes", contract::error_chain(mismatch), help);
        } else if batches > 0 && self.blocks < expected {
            let found = format!(
                "{} of {expected} blocks of the prompt were named",
                self.blocks
            );
            let help =
                "the engine's blocks are not those of the frontend: compare block size and model";
            findings.bad("block hashes", found, help);
        } else if batches > 0 {
            findings.good(
                "block hashes",
                format!("all {expected} blocks of the prompt agree"),
            );
        }
        if batches > 0 && self.skew.abs() > SKEW {
            let found = format!("its events are {:.1} s off our time", self.skew);
            findings.doubtful("clock", found, "synchronise the machines' clocks");
        } else if batches > 0 {
            let found = format!("events {:.0} ms old when they arrive", self.skew * 1e3);
            findings.good("clock", found);
        }
        findings
    }
}

/// How many batches the engine would send again.
pub(super) async fn replayable(address: &str, patience: Duration) -> Result<usize, Deaf> {
    let asking = replay(address, 0, LARGEST_BATCH);
    let kept = tokio::time::timeout(patience, asking).await;
    let kept = kept.map_err(|_| Deaf::Timeout)?.map_err(Deaf::Wire)?;
    Ok(kept.len())
}
