//! The batches that vLLM and SGLang publish over ZeroMQ.
//!
//! ```text
//! batch  [time in seconds, [event, …], data-parallel rank?]
//! event  {"type": "BlockStored", "block_hashes": …, …}       newer vLLM
//!        ["BlockStored", block_hashes, parent, …]            older vLLM, SGLang
//! ```
//!
//! Fields are found by name or by position; what comes after the known ones is ignored, because
//! each release adds some. A hash is a number (of either sign) or a string of bytes. Tokens are
//! numbers, or pairs of a token and the one after it.

use contract::TokenId;
use rmpv::{Value, ValueRef};

use super::{EngineEvent, EngineHash, Group, Ignored, Key, Malformed, Stored, divide, seed_of};

/// More than any engine sends at once; a batch covers one step.
pub const MOST_BYTES: usize = 64 << 20;
/// Deeper than any batch nests.
const DEEPEST: usize = 16;

/// The events of one step of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The time on the engine's clock, in seconds since 1970.
    pub at: f64,
    pub events: Vec<EngineEvent>,
}

/// Reads one batch.
pub fn decode(mut bytes: &[u8]) -> Result<Batch, Malformed> {
    if bytes.len() > MOST_BYTES {
        return Err(Malformed("it is too long"));
    }
    let value = rmpv::decode::read_value_ref_with_max_depth(&mut bytes, DEEPEST)
        .map_err(|_| Malformed("it is not MessagePack"))?;
    let ValueRef::Array(parts) = &value else {
        return Err(Malformed("it is not a list"));
    };
    let [at, ValueRef::Array(events), ..] = &parts[..] else {
        return Err(Malformed("it has no time or no events"));
    };
    let at = float(at).ok_or(Malformed("its time is not a number"))?;
    let events = events.iter().map(event).collect::<Result<_, _>>()?;
    Ok(Batch { at, events })
}

/// The fields of an event, in either notation.
enum Fields<'a> {
    Named(&'a [(ValueRef<'a>, ValueRef<'a>)]),
    Placed(&'a [ValueRef<'a>]),
}

impl<'a> Fields<'a> {
    /// The field with that name, or at that position. An absent one is null.
    fn get(&self, name: &str, place: usize) -> &'a ValueRef<'a> {
        static ABSENT: ValueRef<'static> = ValueRef::Nil;
        let found = match self {
            Self::Named(fields) => {
                let mut fields = fields.iter();
                fields.find_map(|(key, value)| (text(key) == Some(name)).then_some(value))
            }
            Self::Placed(fields) => fields.get(place),
        };
        found.unwrap_or(&ABSENT)
    }
}

fn event(value: &ValueRef<'_>) -> Result<EngineEvent, Malformed> {
    let fields = if let ValueRef::Map(fields) = value {
        Fields::Named(fields)
    } else if let ValueRef::Array(fields) = value {
        Fields::Placed(fields)
    } else {
        return Err(Malformed("an event is neither a list nor a map"));
    };
    match text(fields.get("type", 0)) {
        Some("BlockStored") => stored(&fields),
        Some("BlockRemoved") => removed(&fields),
        Some("AllBlocksCleared") => Ok(EngineEvent::Cleared),
        // A kind of event that a later release may have added.
        Some(_) => Ok(EngineEvent::Ignored(Ignored::NoChange)),
        None => Err(Malformed("an event has no type")),
    }
}

fn stored(fields: &Fields<'_>) -> Result<EngineEvent, Malformed> {
    if !on_gpu(fields.get("medium", 6)) {
        return Ok(EngineEvent::Ignored(Ignored::OtherMedium));
    }
    let hashes = hashes(fields.get("block_hashes", 1))?;
    let parent = fields.get("parent_block_hash", 2);
    let parent = if matches!(parent, ValueRef::Nil) {
        None
    } else {
        Some(hash(parent)?)
    };
    let block_size = fields.get("block_size", 4).as_u64();
    let block_size = block_size.and_then(|size| usize::try_from(size).ok());
    let block_size = block_size.filter(|size| *size > 0);
    let block_size = block_size.ok_or(Malformed("a block has no size"))?;
    let tokens = list(fields.get("token_ids", 3))?;
    let blocks = match tokens.first() {
        Some(first) if !is_array(first) => {
            let tokens = tokens.iter().map(token).collect::<Result<Vec<_>, _>>()?;
            divide(&hashes, &tokens, block_size)
        }
        Some(_) => pairs(&hashes, tokens, block_size)?,
        None => divide(&hashes, &[], block_size),
    };
    let blocks = blocks.ok_or(Malformed("tokens and blocks do not fit each other"))?;
    Ok(EngineEvent::Stored(Stored {
        parent,
        blocks,
        key: key(fields),
        group: group(fields),
    }))
}

/// The layers of a block. By position the group comes after the keys, or one later in releases
/// that have another field in between.
fn group(fields: &Fields<'_>) -> Group {
    let index = [9, 10].map(|place| fields.get("group_idx", place).as_u64());
    let kind = [10, 11].map(|place| text(fields.get("kv_cache_spec_kind", place)));
    Group {
        index: index[0].or(index[1]),
        windowed: kind[0].or(kind[1]).is_some_and(is_windowed),
    }
}

fn removed(fields: &Fields<'_>) -> Result<EngineEvent, Malformed> {
    if !on_gpu(fields.get("medium", 2)) {
        return Ok(EngineEvent::Ignored(Ignored::OtherMedium));
    }
    Ok(EngineEvent::Removed {
        hashes: hashes(fields.get("block_hashes", 1))?,
        group: fields.get("group_idx", 3).as_u64(),
    })
}

/// Pairs of a token and the next one: a draft head computes a token from both, so a block's
/// hash covers the token after it.
fn pairs(
    hashes: &[EngineHash],
    pairs: &[ValueRef<'_>],
    block_size: usize,
) -> Result<Option<Vec<super::Block>>, Malformed> {
    let mut tokens = Vec::with_capacity(pairs.len() + 1);
    let mut last = None;
    for pair in pairs {
        let [first, second] = list(pair)? else {
            return Err(Malformed("a pair of tokens is not two"));
        };
        tokens.push(token(first)?);
        last = Some(token(second)?);
    }
    tokens.extend(last);
    Ok(divide(hashes, &tokens, block_size))
}

/// What the blocks depend on. vLLM lists it per block (`extra_keys`), SGLang once (`metadata`,
/// at the position where vLLM has the adapter's name).
fn key(fields: &Fields<'_>) -> Key {
    let adapter = text(fields.get("lora_name", 7));
    let has_adapter = adapter.is_some() || !matches!(fields.get("lora_id", 5), ValueRef::Nil);
    let metadata = fields.get("metadata", 7);
    if let (ValueRef::Map(entries), false) = (metadata, has_adapter) {
        let entries = Fields::Named(entries);
        return match text(entries.get("cache_salt", 0)) {
            Some(salt) => seed_of(salt).map_or(Key::Foreign, Key::Ours),
            None => Key::Plain,
        };
    }
    let mut found = Key::Plain;
    if let ValueRef::Array(blocks) = fields.get("extra_keys", 8) {
        let keys = blocks.iter().filter_map(|keys| {
            let ValueRef::Array(keys) = keys else {
                return None;
            };
            Some(keys)
        });
        // The adapter itself says nothing new: the salt that we send with it differs by adapter.
        let named = keys.flatten().map(text);
        for key in named.filter(|key| key.is_none() || *key != adapter) {
            found = match key.and_then(seed_of) {
                Some(seed) => Key::Ours(seed),
                None => return Key::Foreign,
            };
        }
    }
    let begins = matches!(fields.get("parent_block_hash", 2), ValueRef::Nil);
    // Sent by somebody else, or by us without a salt.
    let unknown = has_adapter && (begins || adapter.is_none());
    match found == Key::Plain && unknown {
        true => Key::Foreign,
        false => found,
    }
}

/// Whether layers of that kind see only a part of the text, or keep no blocks of it.
fn is_windowed(kind: &str) -> bool {
    !matches!(
        kind,
        "full_attention" | "mla_attention" | "sink_full_attention" | "unknown"
    )
}

fn on_gpu(medium: &ValueRef<'_>) -> bool {
    match text(medium) {
        Some(medium) => matches!(medium, "GPU" | "DEVICE"),
        // Releases without this field have only the GPU.
        None => matches!(medium, ValueRef::Nil),
    }
}

fn is_array(value: &ValueRef<'_>) -> bool {
    matches!(value, ValueRef::Array(_))
}

fn list<'a>(value: &'a ValueRef<'_>) -> Result<&'a [ValueRef<'a>], Malformed> {
    if let ValueRef::Array(values) = value {
        return Ok(values);
    }
    Err(Malformed("a list is missing"))
}

fn hashes(value: &ValueRef<'_>) -> Result<Vec<EngineHash>, Malformed> {
    list(value)?.iter().map(hash).collect()
}

fn hash(value: &ValueRef<'_>) -> Result<EngineHash, Malformed> {
    if let Some(number) = value.as_u64() {
        return Ok(EngineHash(number));
    }
    if let ValueRef::Integer(number) = value
        && let Some(number) = Value::Integer(*number).as_i64()
    {
        return Ok(EngineHash(number.cast_unsigned()));
    }
    if let ValueRef::Binary(bytes) = value {
        return Ok(EngineHash::of_bytes(bytes));
    }
    if let ValueRef::String(name) = value {
        return Ok(EngineHash::of_bytes(name.as_bytes()));
    }
    Err(Malformed("a hash is neither a number nor bytes"))
}

fn token(value: &ValueRef<'_>) -> Result<TokenId, Malformed> {
    let token = value
        .as_u64()
        .and_then(|token| TokenId::try_from(token).ok());
    token.ok_or(Malformed("a token is not a small number"))
}

fn float(value: &ValueRef<'_>) -> Option<f64> {
    if let ValueRef::F64(number) = value {
        return Some(*number);
    }
    if let ValueRef::F32(number) = value {
        return Some(f64::from(*number));
    }
    value.as_u64().map(|number| number as f64)
}

fn text<'a>(value: &'a ValueRef<'_>) -> Option<&'a str> {
    if let ValueRef::String(text) = value {
        return text.as_str();
    }
    None
}

#[cfg(test)]
mod tests;
