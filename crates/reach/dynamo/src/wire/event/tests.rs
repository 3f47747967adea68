//! Frames as workers of several versions publish them, and frames that nobody should.

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::*;

/// A frame as a worker makes it, for ZeroMQ.
fn frame(payload: &Value) -> Vec<u8> {
    let envelope = envelope(payload);
    let mut frame = vec![1];
    frame.extend((envelope.len() as u32).to_be_bytes());
    frame.extend(envelope);
    frame
}

/// A message as a worker makes it, for NATS.
fn envelope(payload: &Value) -> Vec<u8> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        publisher_id: u64,
        sequence: u64,
        published_at: u64,
        topic: &'a str,
        payload: Bytes,
    }
    struct Bytes(Vec<u8>);
    impl Serialize for Bytes {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }
    rmp_serde::to_vec_named(&Envelope {
        publisher_id: 2_223_198_827_383_330,
        sequence: 2,
        published_at: 1_794_759_266_934,
        topic: TOPIC,
        payload: Bytes(rmp_serde::to_vec_named(payload).unwrap()),
    })
    .unwrap()
}

fn stored() -> Value {
    json!({"worker_id": 7_216_921_776_586_614_218_u64, "storage_tier": "device",
        "residency_domain": "worker", "event": {"event_id": 3, "data": {"stored": {
        "parent_hash": null, "start_position": null, "blocks": [
        {"block_hash": 9_124_126_944_695_923_888_u64, "tokens_hash": 9_124_126_944_695_923_888_u64,
        "mm_extra_info": null}]}}, "dp_rank": 0}})
}

#[test]
fn events_of_known_versions_are_read() {
    let event = WorkerEvent {
        worker_id: 7_216_921_776_586_614_218,
        storage_tier: Some("device".to_owned()),
        residency_domain: Some("worker".to_owned()),
        event: CacheEvent {
            event_id: 3,
            data: CacheChange::Stored(Stored {
                parent_hash: None,
                start_position: None,
                blocks: vec![Block {
                    block_hash: 9_124_126_944_695_923_888,
                    tokens_hash: 9_124_126_944_695_923_888,
                }],
            }),
            dp_rank: 0,
        },
    };
    assert_eq!(decode(&frame(&json!([stored()]))), Ok(vec![event.clone()]));
    assert_eq!(decode(&frame(&stored())), Ok(vec![event]));
    // The first versions named neither tier nor rank.
    let old = json!({"worker_id": 1, "event": {"event_id": 0,
        "data": {"removed": {"block_hashes": [5, 6]}}}});
    let events = decode(&frame(&old)).unwrap();
    let removed = Removed {
        block_hashes: vec![5, 6],
    };
    assert_eq!(events[0].event.data, CacheChange::Removed(removed));
    assert!(events[0].is_on_device());
    let cleared = json!([{"worker_id": 1, "event": {"event_id": 9, "data": "cleared"}}]);
    let events = decode(&frame(&cleared)).unwrap();
    assert_eq!(events[0].event.data, CacheChange::Cleared);
}

/// What a worker of 1.6.1 published over NATS when it had computed three blocks.
const OVER_NATS: &[u8] =
    b"\x85\xacpublisher_id\xcf\x00\x1c\xc47\xf3Q\"\xb2\xa8sequence\x00\xacpublished_at\xcf\
    \x00\x00\x01\xa1\xf2\xca\x8f~\xa5topic\xa9kv-events\xa7payload\xc5\x019\x91\x84\xa9\
    worker_id\xcfiM\xa1\xf2\xc9\xdc\\\x08\xacstorage_tier\xa6device\xb0residency_doma\
    in\xa6worker\xa5event\x83\xa8event_id\x01\xa4data\x81\xa6stored\x83\xabparent_has\
    h\xc0\xaestart_position\xc0\xa6blocks\x93\x83\xaablock_hash\xcfD\xab\x134L\xbb\x9a\
    \xdb\xabtokens_hash\xcfD\xab\x134L\xbb\x9a\xdb\xadmm_extra_info\xc0\x83\xaablock_\
    hash\xcf\x1a\x18a\x83\\\xc7\x84\xe3\xabtokens_hash\xcf\x10]G\x05\xc9C;\xed\xadmm_\
    extra_info\xc0\x83\xaablock_hash\xcf@g\xdd\x18V&\xc3\x01\xabtokens_hash\xcf\x1e\xc1\
    \xf5\xb5e\xc3N\xf0\xadmm_extra_info\xc0\xa7dp_rank\x00";

#[test]
fn a_genuine_message_over_nats_is_read() {
    let events = decode_envelope(OVER_NATS).unwrap();
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(event.worker_id, 7_587_899_011_329_973_256);
    assert!(event.is_on_device());
    assert_eq!((event.event.event_id, event.event.dp_rank), (1, 0));
    let CacheChange::Stored(Stored {
        parent_hash: None,
        blocks,
        ..
    }) = &event.event.data
    else {
        panic!("{event:?}");
    };
    assert_eq!(blocks.len(), 3);
    // The first block of a chain is named by the hash of its tokens.
    assert_eq!(blocks[0].block_hash, blocks[0].tokens_hash);
    assert_ne!(blocks[1].block_hash, blocks[1].tokens_hash);

    for end in 0..OVER_NATS.len() {
        assert!(decode_envelope(&OVER_NATS[..end]).is_err(), "cut at {end}");
    }
    // Over ZeroMQ the same stands in a frame, and neither is taken for the other.
    let message = envelope(&json!([stored()]));
    let framed = frame(&json!([stored()]));
    assert_eq!(decode_envelope(&message), decode(&framed));
    assert!(decode(&message).is_err());
    assert!(decode_envelope(&framed).is_err());
}

#[test]
fn only_the_engines_own_memory_counts() {
    let with = |field: &str, value: &str| {
        let mut event = stored();
        event[field] = json!(value);
        decode(&frame(&event)).unwrap()[0].is_on_device()
    };
    assert!(with("storage_tier", "device"));
    assert!(!with("storage_tier", "host_pinned"));
    assert!(!with("residency_domain", "cache_owner"));
}

#[test]
fn malformed_frames_are_refused() {
    let good = frame(&stored());
    for end in 0..good.len() {
        assert!(decode(&good[..end]).is_err(), "cut at {end}");
    }
    let mut huge = good.clone();
    huge[1..5].copy_from_slice(&[0xff; 4]);
    assert!(matches!(decode(&huge), Err(DecodeError::TooLarge { .. })));
    let mut later = good;
    later[0] = 2;
    assert!(decode(&later).is_err());
    for bad in [
        json!(3),
        json!([3]),
        json!({"worker_id": "x"}),
        json!([[[[]]]]),
    ] {
        assert!(decode(&frame(&bad)).is_err(), "{bad}");
    }
    let unknown = json!({"worker_id": 1, "event": {"event_id": 0, "data": {"moved": {}}}});
    assert!(decode(&frame(&unknown)).is_err());
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = decode_envelope(&bytes);
        let _ = events(&bytes);
    }

    #[test]
    fn a_damaged_frame_never_panics(at in 0_usize..300, byte in any::<u8>()) {
        let mut frame = frame(&stored());
        let at = at % frame.len();
        frame[at] = byte;
        let _ = decode(&frame);
    }
}
