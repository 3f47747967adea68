//! Cache events as workers publish them over ZeroMQ and NATS.
//!
//! A message over ZeroMQ has four parts: topic, publisher (u64), number of the message (u64),
//! frame. The frame is a version byte, a big-endian u32 length and an envelope. A message over
//! NATS is the envelope alone. Envelopes are msgpack, and so is their payload: one event or a
//! list of them.

use serde::Deserialize;

use super::{Codec, DecodeError};

/// The topic under which cache events are published.
pub const TOPIC: &str = "kv-events";

/// A step that stores a very long prompt stays far below it.
pub const LARGEST_FRAME: usize = 64 << 20;

const VERSION: u8 = 1;

/// One change of a worker's cache.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct WorkerEvent {
    pub worker_id: u64,
    #[serde(default)]
    pub storage_tier: Option<String>,
    #[serde(default)]
    pub residency_domain: Option<String>,
    pub event: CacheEvent,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CacheEvent {
    /// Contiguous for a worker and rank.
    pub event_id: u64,
    pub data: CacheChange,
    #[serde(default)]
    pub dp_rank: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheChange {
    Stored(Stored),
    Removed(Removed),
    Cleared,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Stored {
    #[serde(default)]
    pub parent_hash: Option<u64>,
    #[serde(default)]
    pub start_position: Option<u64>,
    pub blocks: Vec<Block>,
}

/// A stored block: the engine's name for it and the hash of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Block {
    pub block_hash: u64,
    pub tokens_hash: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Removed {
    pub block_hashes: Vec<u64>,
}

impl WorkerEvent {
    /// Whether it speaks of memory from which the engine computes: blocks that were moved to
    /// slower memory have to be brought back first.
    pub fn is_on_device(&self) -> bool {
        let is = |field: &Option<String>, expected| {
            field.as_deref().is_none_or(|value| value == expected)
        };
        is(&self.storage_tier, "device") && is(&self.residency_domain, "worker")
    }
}

/// The events in the fourth part of a message over ZeroMQ.
pub fn decode(frame: &[u8]) -> Result<Vec<WorkerEvent>, DecodeError> {
    const WHAT: &str = "event frame";
    let Some((&[version, a, b, c, d], rest)) = frame.split_first_chunk::<5>() else {
        return Err(DecodeError::malformed(WHAT, "too short"));
    };
    if version != VERSION {
        let detail = format!("version {version} is not {VERSION}");
        return Err(DecodeError::malformed(WHAT, detail));
    }
    let size = u32::from_be_bytes([a, b, c, d]);
    if size as usize > LARGEST_FRAME {
        return Err(DecodeError::TooLarge {
            what: WHAT,
            size: u64::from(size),
            limit: LARGEST_FRAME,
        });
    }
    let envelope = rest
        .get(..size as usize)
        .ok_or_else(|| DecodeError::malformed(WHAT, "shorter than it says"))?;
    decode_envelope(envelope)
}

/// The events in a message over NATS.
pub fn decode_envelope(envelope: &[u8]) -> Result<Vec<WorkerEvent>, DecodeError> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(deserialize_with = "bytes")]
        payload: Vec<u8>,
    }
    let envelope: Envelope = Codec::Msgpack.decode("event envelope", envelope)?;
    events(&envelope.payload)
}

/// The events in a payload: versions before 1.3 send one, later ones a list.
fn events(payload: &[u8]) -> Result<Vec<WorkerEvent>, DecodeError> {
    const WHAT: &str = "cache events";
    let is_list = matches!(payload.first(), Some(0x90..=0x9f | 0xdc | 0xdd));
    if is_list {
        Codec::Msgpack.decode(WHAT, payload)
    } else {
        Ok(vec![Codec::Msgpack.decode(WHAT, payload)?])
    }
}

/// Bytes, written as bytes or as a list of numbers.
fn bytes<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct Bytes;
    impl<'de> serde::de::Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = list.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
    deserializer.deserialize_byte_buf(Bytes)
}

#[cfg(test)]
mod tests;
