//! TensorRT-LLM's events, in its public format.

use proptest::prelude::*;

use super::*;

const STORED: &str = r#"[
    {"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [101, 0]}, "window_size": 4096},
    {"event_id": 1, "window_size": 4096, "data": {"type": "stored", "parent_hash": null, "blocks": [
        {"type": "stored_block", "block_hash": 11, "cache_level": 0, "priority": 35, "tokens": [
            {"type": "unique_token", "token_id": 1, "token_extra_id": 0},
            {"type": "unique_token", "token_id": 2, "token_extra_id": 0}]},
        {"type": "stored_block", "block_hash": -12, "cache_level": 0, "priority": 35, "tokens": [
            {"type": "unique_token", "token_id": 3, "token_extra_id": 0}]}]}},
    {"event_id": 2, "data": {"type": "removed", "block_hashes": [11, "text"]}},
    {"event_id": 3, "data": {"type": "updated", "block_hash": 11,
        "cache_level": {"type": "event_diff", "new_value": 1, "old_value": 0}, "priority": null}},
    {"event_id": 4, "data": {"type": "updated", "block_hash": 11, "cache_level": null,
        "priority": {"type": "event_diff", "new_value": 1, "old_value": 0}}},
    {"event_id": 5, "data": {"type": "from_a_later_release", "much": [1]}}
]"#;

#[test]
fn every_kind_of_event_is_read() {
    let events = decode(STORED.as_bytes()).unwrap();
    let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
    assert_eq!((events[1].window_size, events[2].window_size), (4096, 0));
    let EngineEvent::Stored(stored) = &events[1].event else {
        panic!("not stored: {:?}", events[1]);
    };
    assert_eq!((stored.parent, stored.key), (None, Key::Plain));
    let windows: Vec<&[TokenId]> = stored
        .blocks
        .iter()
        .map(|block| &block.window[..])
        .collect();
    assert_eq!(windows, [&[1, 2][..], &[3]]);
    assert_eq!(stored.blocks[1].hash, EngineHash((-12_i64).cast_unsigned()));
    let hashes = vec![EngineHash(11), EngineHash::of_bytes(b"text")];
    let group = None;
    assert_eq!(events[2].event, EngineEvent::Removed { hashes, group });
    let (hash, on_gpu) = (EngineHash(11), false);
    assert_eq!(events[3].event, EngineEvent::Moved { hash, on_gpu });
    for quiet in [0, 4, 5] {
        assert_eq!(events[quiet].event, EngineEvent::Ignored(Ignored::NoChange));
    }
}

#[test]
fn what_depends_on_more_than_tokens_is_not_ours() {
    let block = |fields: &str, extra: u32| {
        let text = format!(
            r#"[{{"event_id":0,"data":{{"type":"stored","parent_hash":7,"blocks":[
            {{"block_hash":1,"tokens":[{{"token_id":1,"token_extra_id":{extra}}}]{fields}}}]}}}}]"#
        );
        decode(text.as_bytes()).unwrap().remove(0).event
    };
    let key = |event: EngineEvent| match event {
        EngineEvent::Stored(stored) => Some(stored.key),
        EngineEvent::Removed { .. }
        | EngineEvent::Moved { .. }
        | EngineEvent::Cleared
        | EngineEvent::Ignored(_) => None,
    };
    assert_eq!(key(block("", 0)), Some(Key::Plain));
    assert_eq!(key(block(r#","mm_keys":[]"#, 0)), Some(Key::Plain));
    assert_eq!(key(block("", 5)), Some(Key::Foreign));
    assert_eq!(
        key(block(r#","mm_keys":[{"hash":"a"}]"#, 0)),
        Some(Key::Foreign)
    );
    assert_eq!(key(block(r#","cache_salt":"a""#, 0)), Some(Key::Foreign));
    let host = block(r#","cache_level":1"#, 0);
    assert_eq!(host, EngineEvent::Ignored(Ignored::OtherMedium));
}

#[test]
fn nothing_is_an_answer_too() {
    assert_eq!(decode(b"[]"), Ok(vec![]));
    assert_eq!(decode(b"null"), Ok(vec![]));
    for wrong in ["", "{}", "[1]", r#"[{"event_id":1}]"#, "[[[[["] {
        assert!(decode(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..STORED.len(), byte in any::<u8>()) {
        let mut bytes = STORED.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = decode(&bytes);
    }
}
