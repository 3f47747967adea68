//! The batches of vLLM and SGLang, in their public formats.
//!
//! The files in `fixtures/` were written by `fixtures/encode.py` with the encoder that both
//! engines use and structures of the layout that both publish.

use contract::HashSeed;
use proptest::prelude::*;

use super::*;
use crate::wire::Block;

const VLLM: &[u8] = include_bytes!("../../../fixtures/vllm.msgpack");
const VLLM_ARRAY: &[u8] = include_bytes!("../../../fixtures/vllm-array.msgpack");
const VLLM_BYTES: &[u8] = include_bytes!("../../../fixtures/vllm-bytes.msgpack");
const SGLANG: &[u8] = include_bytes!("../../../fixtures/sglang.msgpack");
const SGLANG_PAIRS: &[u8] = include_bytes!("../../../fixtures/sglang-pairs.msgpack");

fn stored(event: &EngineEvent) -> &Stored {
    match event {
        EngineEvent::Stored(stored) => stored,
        EngineEvent::Removed { .. }
        | EngineEvent::Moved { .. }
        | EngineEvent::Cleared
        | EngineEvent::Ignored(_) => panic!("not stored: {event:?}"),
    }
}

fn block(hash: u64, window: &[TokenId]) -> Block {
    Block {
        hash: EngineHash(hash),
        window: window.to_vec(),
    }
}

/// What every `encode.py` batch says first.
#[track_caller]
fn two_blocks(event: &EngineEvent) {
    let stored = stored(event);
    assert_eq!(stored.parent, None);
    assert_eq!(
        stored.blocks,
        [block(101, &[1, 2, 3, 4]), block(102, &[5, 6, 7, 8])]
    );
    assert_eq!(stored.key, Key::Plain);
    assert!(!stored.group.windowed);
}

#[test]
fn vllm_writes_maps() {
    let batch = decode(VLLM).unwrap();
    assert_eq!(batch.at, 1_700_000_000.5);
    let events = &batch.events;
    two_blocks(&events[0]);
    assert_eq!(stored(&events[0]).group.index, Some(0));
    let child = stored(&events[1]);
    assert_eq!(child.parent, Some(EngineHash(102)));
    assert_eq!(child.blocks[0].hash, EngineHash((-7_i64).cast_unsigned()));
    assert_eq!(
        stored(&events[2]).key,
        Key::Ours(HashSeed::from_bits(0x1234))
    );
    assert_eq!(stored(&events[3]).key, Key::Foreign, "an adapter");
    assert_eq!(stored(&events[4]).key, Key::Foreign, "an image");
    assert_eq!(events[5], EngineEvent::Ignored(Ignored::OtherMedium));
    assert!(stored(&events[6]).group.windowed);
    let hashes = vec![EngineHash(101)];
    let group = Some(0);
    assert_eq!(events[7], EngineEvent::Removed { hashes, group });
    assert_eq!(events[8], EngineEvent::Ignored(Ignored::OtherMedium));
    assert_eq!(events[9], EngineEvent::Cleared);
    assert_eq!(events.len(), 10);
}

#[test]
fn an_older_vllm_writes_lists() {
    let events = decode(VLLM_ARRAY).unwrap().events;
    two_blocks(&events[0]);
    let hashes = vec![EngineHash(101), EngineHash(102)];
    let group = None;
    assert_eq!(events[1], EngineEvent::Removed { hashes, group });
    assert_eq!(events[2], EngineEvent::Cleared);
}

#[test]
fn hashes_may_be_bytes() {
    let events = decode(VLLM_BYTES).unwrap().events;
    let name = EngineHash::of_bytes(&[7; 32]);
    assert_eq!(stored(&events[0]).blocks[0].hash, name);
    let (hashes, group) = (vec![name], None);
    assert_eq!(events[1], EngineEvent::Removed { hashes, group });
}

#[test]
fn sglang_writes_lists_and_its_salts_apart() {
    let events = decode(SGLANG).unwrap().events;
    two_blocks(&events[0]);
    assert_eq!(
        stored(&events[1]).key,
        Key::Ours(HashSeed::from_bits(0x1234))
    );
    assert_eq!(stored(&events[2]).key, Key::Foreign);
    assert_eq!(events[3], EngineEvent::Ignored(Ignored::OtherMedium));
    assert_eq!(events[5], EngineEvent::Cleared);
}

#[test]
fn pairs_of_tokens_look_ahead() {
    let events = decode(SGLANG_PAIRS).unwrap().events;
    let blocks = &stored(&events[0]).blocks;
    assert_eq!(
        blocks[..],
        [block(101, &[1, 2, 3, 4, 5]), block(102, &[5, 6, 7, 8, 9])]
    );
}

#[test]
fn what_is_no_batch_is_refused() {
    for wrong in [
        &b""[..],
        &[0xc0],
        &[0x90],
        &[0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0x01],
        // A list that claims four billion events.
        &[0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(decode(wrong).is_err(), "{wrong:x?}");
    }
    let deep = [0x91_u8; 4096];
    assert!(decode(&deep).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..VLLM.len(), byte in any::<u8>(), cut in 0..VLLM.len()) {
        let mut bytes = VLLM.to_vec();
        bytes[at] = byte;
        let _ = decode(&bytes);
        let _ = decode(&bytes[..cut]);
    }
}

/// What a stored block of an adapter depends on.
fn adapter_key(parent: Option<u64>, keys: &[&str]) -> Key {
    use rmpv::Value;
    let texts =
        |texts: &[&str]| Value::Array(texts.iter().map(|text| Value::from(*text)).collect());
    let fields = [
        ("type", Value::from("BlockStored")),
        ("block_hashes", Value::Array(vec![Value::from(101)])),
        ("parent_block_hash", parent.map_or(Value::Nil, Value::from)),
        (
            "token_ids",
            Value::Array((1..=4).map(Value::from).collect()),
        ),
        ("block_size", Value::from(4)),
        ("lora_id", Value::from(1)),
        ("lora_name", Value::from("sql")),
        ("extra_keys", Value::Array(vec![texts(keys)])),
    ];
    let fields = fields.map(|(name, value)| (Value::from(name), value));
    let batch = Value::Array(vec![
        Value::from(1.0),
        Value::Array(vec![Value::Map(fields.to_vec())]),
        Value::Nil,
    ]);
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &batch).unwrap();
    stored(&decode(&bytes).unwrap().events[0]).key
}

#[test]
fn blocks_of_an_adapter_are_known_by_the_salt_that_we_sent_with_it() {
    let salt = crate::wire::salt(HashSeed::from_bits(0x1234)).unwrap();
    let ours = Key::Ours(HashSeed::from_bits(0x1234));
    assert_eq!(adapter_key(None, &["sql", &salt]), ours);
    assert_eq!(adapter_key(Some(7), &["sql"]), Key::Plain, "as its parent");
    assert_eq!(adapter_key(None, &["sql"]), Key::Foreign);
    assert_eq!(adapter_key(None, &["sql", "theirs"]), Key::Foreign);
    assert_eq!(adapter_key(None, &["other", &salt]), Key::Foreign);
}
