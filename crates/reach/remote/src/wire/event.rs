//! One event message, as bytes: what every event plane carries.
//!
//! A receiver knows whom it listens to. An envelope that names another worker or another life
//! of it, or that makes no sense, is refused with the reason, and costs nothing but a count.

use std::time::Duration;

use bytes::Bytes;
use contract::{BlockHash, FeedMessage, FrontendId, KvEvent, LocalHash, StoredBlock, WorkerId};
use prost::Message;

use super::convert::{from_load, from_status, to_load, to_status};
use super::generated::envelope::Content;
use super::generated::kv_event::Event;
use super::generated::{self as wire, Envelope};

/// Why an envelope was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("not an envelope: {0}")]
    Malformed(String),
    #[error("it comes from worker {found}, but this is the feed of worker {expected}")]
    OtherWorker { expected: WorkerId, found: WorkerId },
    #[error("it comes from epoch {found} of the worker, which is in epoch {expected}")]
    OtherEpoch { expected: u64, found: u64 },
    #[error("it is empty")]
    Empty,
    #[error("{hashes} hashes of blocks, but {locals} of their tokens")]
    Uneven { hashes: usize, locals: usize },
}

impl EnvelopeError {
    /// For metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::OtherWorker { .. } => "other_worker",
            Self::OtherEpoch { .. } => "other_epoch",
            Self::Empty => "empty",
            Self::Uneven { .. } => "uneven",
        }
    }
}

/// Whom a receiver listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub worker: WorkerId,
    pub epoch: u64,
}

/// `None` for what does not travel by event: leases, heads and drains belong to one frontend.
pub fn encode_envelope(worker: WorkerId, message: &FeedMessage, unix: Duration) -> Option<Bytes> {
    let content = match message {
        FeedMessage::Kv(batch) => Content::Kv(wire::KvBatch {
            epoch: batch.epoch,
            sequence: batch.sequence,
            events: batch.events.iter().map(to_event).collect(),
        }),
        FeedMessage::Status(status) => Content::Status(to_status(status)),
        FeedMessage::Loads(loads) => Content::Loads(wire::Loads {
            loads: loads
                .iter()
                .map(|(frontend, load)| wire::FrontendLoad {
                    frontend: frontend.0,
                    load: Some(to_load(load)),
                })
                .collect(),
        }),
        FeedMessage::Head { .. } | FeedMessage::Lease(_) | FeedMessage::Draining => return None,
    };
    let envelope = Envelope {
        worker: worker.0,
        published_unix_nanos: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
        content: Some(content),
    };
    Some(envelope.encode_to_vec().into())
}

/// The message, and when it was sent by the sender's clock.
pub fn decode_envelope(
    from: Sender,
    bytes: &[u8],
) -> Result<(FeedMessage, Duration), EnvelopeError> {
    let envelope =
        Envelope::decode(bytes).map_err(|error| EnvelopeError::Malformed(error.to_string()))?;
    if envelope.worker != from.worker.0 {
        return Err(EnvelopeError::OtherWorker {
            expected: from.worker,
            found: WorkerId(envelope.worker),
        });
    }
    let message = match envelope.content.ok_or(EnvelopeError::Empty)? {
        Content::Kv(batch) => FeedMessage::Kv(from_batch(from, batch)?),
        Content::Status(status) => FeedMessage::Status(from_status(&status)),
        Content::Loads(loads) => FeedMessage::Loads(
            loads
                .loads
                .into_iter()
                .map(|one| {
                    let load = one.load.unwrap_or_default();
                    (FrontendId(one.frontend), from_load(&load))
                })
                .collect(),
        ),
    };
    Ok((message, Duration::from_nanos(envelope.published_unix_nanos)))
}

fn from_batch(from: Sender, batch: wire::KvBatch) -> Result<contract::KvBatch, EnvelopeError> {
    if batch.epoch != from.epoch {
        return Err(EnvelopeError::OtherEpoch {
            expected: from.epoch,
            found: batch.epoch,
        });
    }
    let events = batch.events.into_iter().map(from_event);
    Ok(contract::KvBatch {
        worker: from.worker,
        epoch: batch.epoch,
        sequence: batch.sequence,
        events: events.collect::<Result<_, _>>()?,
    })
}

fn to_event(event: &KvEvent) -> wire::KvEvent {
    let event = match event {
        KvEvent::Stored { parent, blocks } => Event::Stored(wire::Stored {
            parent: parent.map(|parent| parent.0),
            hashes: blocks.iter().map(|block| block.hash.0).collect(),
            locals: blocks.iter().map(|block| block.local.0).collect(),
        }),
        KvEvent::Removed { blocks } => Event::Removed(wire::Removed {
            hashes: blocks.iter().map(|block| block.0).collect(),
        }),
        KvEvent::Cleared => Event::Cleared(wire::Cleared {}),
    };
    wire::KvEvent { event: Some(event) }
}

fn from_event(event: wire::KvEvent) -> Result<KvEvent, EnvelopeError> {
    Ok(match event.event.ok_or(EnvelopeError::Empty)? {
        Event::Stored(stored) => {
            let (hashes, locals) = (stored.hashes.len(), stored.locals.len());
            if hashes != locals {
                return Err(EnvelopeError::Uneven { hashes, locals });
            }
            let blocks = stored.hashes.into_iter().zip(stored.locals);
            let blocks = blocks.map(|(hash, local)| StoredBlock {
                hash: BlockHash(hash),
                local: LocalHash(local),
            });
            KvEvent::Stored {
                parent: stored.parent.map(BlockHash),
                blocks: blocks.collect(),
            }
        }
        Event::Removed(removed) => KvEvent::Removed {
            blocks: removed.hashes.into_iter().map(BlockHash).collect(),
        },
        Event::Cleared(wire::Cleared {}) => KvEvent::Cleared,
    })
}

#[cfg(test)]
mod tests {
    use contract::{FrontendLoad, KvBatch, WorkerStatus};
    use proptest::prelude::*;

    use super::*;

    const FROM: Sender = Sender {
        worker: WorkerId(7),
        epoch: 3,
    };

    fn event() -> impl Strategy<Value = KvEvent> {
        let stored = (
            any::<Option<u64>>(),
            prop::collection::vec(any::<(u64, u64)>(), 0..20),
        );
        prop_oneof![
            stored.prop_map(|(parent, blocks)| KvEvent::Stored {
                parent: parent.map(BlockHash),
                blocks: blocks
                    .into_iter()
                    .map(|(hash, local)| StoredBlock {
                        hash: BlockHash(hash),
                        local: LocalHash(local)
                    })
                    .collect(),
            }),
            prop::collection::vec(any::<u64>(), 0..20).prop_map(|blocks| KvEvent::Removed {
                blocks: blocks.into_iter().map(BlockHash).collect()
            }),
            Just(KvEvent::Cleared),
        ]
    }

    fn batch(events: Vec<KvEvent>) -> KvBatch {
        KvBatch {
            worker: FROM.worker,
            epoch: FROM.epoch,
            sequence: 11,
            events,
        }
    }

    fn sent(message: &FeedMessage) -> Bytes {
        encode_envelope(FROM.worker, message, Duration::from_nanos(99)).unwrap()
    }

    proptest! {
        #[test]
        fn a_batch_arrives_as_it_was_sent(events in prop::collection::vec(event(), 0..8)) {
            let batch = batch(events);
            let bytes = sent(&FeedMessage::Kv(batch.clone()));
            let (message, at) = decode_envelope(FROM, &bytes).unwrap();
            let FeedMessage::Kv(arrived) = message else {
                panic!("a batch was sent");
            };
            prop_assert_eq!(arrived, batch);
            prop_assert_eq!(at, Duration::from_nanos(99));
        }

        #[test]
        fn any_bytes_are_taken_in_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_envelope(FROM, &bytes);
        }

        #[test]
        fn a_damaged_batch_is_taken_in_or_refused(
            events in prop::collection::vec(event(), 1..4),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = sent(&FeedMessage::Kv(batch(events))).to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = decode_envelope(FROM, &bytes);
            let _ = decode_envelope(FROM, &bytes[..at]);
        }
    }

    #[test]
    fn statuses_and_loads_arrive_as_they_were_sent() {
        let status = WorkerStatus {
            running: 3,
            utilization: 0.25,
            output_tokens: 9,
            ..WorkerStatus::default()
        };
        let (message, _) =
            decode_envelope(FROM, &sent(&FeedMessage::Status(status.clone()))).unwrap();
        assert!(matches!(message, FeedMessage::Status(arrived) if arrived == status));
        let load = FrontendLoad {
            in_flight: 4,
            pending_prefill_tokens: 1 << 40,
            pending_requests: 1,
            active_blocks: 77,
            waiting: 2,
            lease: Some(0),
        };
        let loads = vec![(FrontendId(u64::MAX), load)];
        let (message, _) =
            decode_envelope(FROM, &sent(&FeedMessage::Loads(loads.clone()))).unwrap();
        assert!(matches!(message, FeedMessage::Loads(arrived) if arrived == loads));
    }

    #[test]
    fn what_is_not_from_this_life_of_this_worker_is_refused() {
        let bytes = sent(&FeedMessage::Kv(batch(vec![KvEvent::Cleared])));
        let refused = |from| decode_envelope(from, &bytes).unwrap_err().reason();
        let other = Sender {
            worker: WorkerId(8),
            ..FROM
        };
        assert_eq!(refused(other), "other_worker");
        assert_eq!(refused(Sender { epoch: 4, ..FROM }), "other_epoch");
        assert_eq!(
            decode_envelope(FROM, b"\xff").unwrap_err().reason(),
            "malformed"
        );
        let silent = Envelope {
            worker: FROM.worker.0,
            ..Envelope::default()
        };
        let error = decode_envelope(FROM, &silent.encode_to_vec()).unwrap_err();
        assert_eq!(error, EnvelopeError::Empty);
    }
}
