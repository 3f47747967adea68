//! Frames as workers of several versions publish them, and frames that nobody should.

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::*;

/// A frame as a worker makes it.
fn frame(payload: &Value) -> Vec<u8> {
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
    let envelope = rmp_serde::to_vec_named(&Envelope {
        publisher_id: 2_223_198_827_383_330,
        sequence: 2,
        published_at: 1_794_759_266_934,
        topic: TOPIC,
        payload: Bytes(rmp_serde::to_vec_named(payload).unwrap()),
    })
    .unwrap();
    let mut frame = vec![1];
    frame.extend((envelope.len() as u32).to_be_bytes());
    frame.extend(envelope);
    frame
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
