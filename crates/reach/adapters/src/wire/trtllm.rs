//! The events that TensorRT-LLM returns when asked (`POST /kv_cache_events`).
//!
//! ```text
//! [{"event_id": 7, "data": {"type": "stored", "parent_hash": 1, "blocks": [
//!     {"type": "stored_block", "block_hash": 2, "cache_level": 0,
//!      "tokens": [{"type": "unique_token", "token_id": 5, "token_extra_id": 0}, …]}]}}, …]
//! ```
//!
//! Events are numbered without gaps and returned only once, so a missing number went to another
//! client. Blocks that are not full are reported too; the caller, who knows the block size,
//! leaves them out.

use contract::TokenId;
use serde::Deserialize;

use super::{Block, EngineEvent, EngineHash, Group, Ignored, Key, Malformed, Stored};

/// An answer that is longer is not read.
pub const MOST_BYTES: usize = 64 << 20;

/// An event and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub id: u64,
    /// The attention window of the block's layers. The largest one covers the whole text.
    pub window_size: u64,
    pub event: EngineEvent,
}

#[derive(Deserialize)]
struct Outer {
    event_id: u64,
    #[serde(default)]
    window_size: u64,
    data: Data,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Data {
    Created {},
    Stored {
        parent_hash: Option<Name>,
        blocks: Vec<StoredBlock>,
    },
    Removed {
        block_hashes: Vec<Name>,
    },
    Updated {
        block_hash: Name,
        cache_level: Option<Difference>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct StoredBlock {
    block_hash: Name,
    tokens: Vec<UniqueToken>,
    #[serde(default)]
    cache_level: u64,
    /// Images and the like.
    #[serde(default)]
    mm_keys: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    cache_salt: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    lora_id: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct UniqueToken {
    token_id: TokenId,
    #[serde(default)]
    token_extra_id: u64,
}

#[derive(Deserialize)]
struct Difference {
    new_value: u64,
}

/// A block's hash: a number of either sign, or text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Number(u64),
    Signed(i64),
    Text(String),
}

impl Name {
    fn hash(&self) -> EngineHash {
        match self {
            Self::Number(number) => EngineHash(*number),
            Self::Signed(number) => EngineHash(number.cast_unsigned()),
            Self::Text(text) => EngineHash::of_bytes(text.as_bytes()),
        }
    }
}

/// Reads one answer.
pub fn decode(bytes: &[u8]) -> Result<Vec<Numbered>, Malformed> {
    if bytes.len() > MOST_BYTES {
        return Err(Malformed("it is too long"));
    }
    let events: Option<Vec<Outer>> =
        serde_json::from_slice(bytes).map_err(|_| Malformed("it is not a list of events"))?;
    Ok(events
        .unwrap_or_default()
        .into_iter()
        .map(numbered)
        .collect())
}

fn numbered(outer: Outer) -> Numbered {
    let window_size = outer.window_size;
    let event = match outer.data {
        Data::Created {} | Data::Other => EngineEvent::Ignored(Ignored::NoChange),
        Data::Stored {
            parent_hash,
            blocks,
        } => stored(parent_hash.as_ref(), &blocks),
        Data::Removed { block_hashes } => EngineEvent::Removed {
            hashes: block_hashes.iter().map(Name::hash).collect(),
            group: None,
        },
        Data::Updated {
            block_hash,
            cache_level,
        } => match cache_level {
            Some(level) => EngineEvent::Moved {
                hash: block_hash.hash(),
                on_gpu: level.new_value == 0,
            },
            None => EngineEvent::Ignored(Ignored::NoChange),
        },
    };
    Numbered {
        id: outer.event_id,
        window_size,
        event,
    }
}

fn stored(parent: Option<&Name>, blocks: &[StoredBlock]) -> EngineEvent {
    if blocks.iter().any(|block| block.cache_level > 0) {
        return EngineEvent::Ignored(Ignored::OtherMedium);
    }
    let foreign = blocks.iter().any(|block| {
        let marked = block.cache_salt.is_some() || block.lora_id.is_some();
        let extra = block.tokens.iter().any(|token| token.token_extra_id != 0);
        marked || extra || !block.mm_keys.is_empty()
    });
    let blocks = blocks.iter().map(|block| Block {
        hash: block.block_hash.hash(),
        window: block.tokens.iter().map(|token| token.token_id).collect(),
    });
    EngineEvent::Stored(Stored {
        parent: parent.map(Name::hash),
        blocks: blocks.collect(),
        key: if foreign { Key::Foreign } else { Key::Plain },
        group: Group::default(),
    })
}

#[cfg(test)]
mod tests;
