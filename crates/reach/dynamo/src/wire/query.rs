//! Asks a worker for a dump of everything that it holds.

use serde::{Deserialize, Serialize};

use super::event::WorkerEvent;
use super::{Codec, DecodeError, engine};

/// Two million blocks at a hundred bytes each.
pub const LARGEST_DUMP: usize = 256 << 20;

#[derive(Debug, Serialize)]
struct Query {
    worker_id: u64,
    dp_rank: u32,
    /// None at both ends: everything.
    start_event_id: Option<u64>,
    end_event_id: Option<u64>,
    supports_tree_dump_failed: bool,
}

/// A worker's reply to a request for a dump.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum DumpReply {
    /// Everything it holds, parents before children. The events' own numbers are meaningless;
    /// `last_event_id` is the last event that is contained.
    TreeDump {
        events: Vec<WorkerEvent>,
        last_event_id: u64,
    },
    /// The events themselves, if it still has all of them.
    Events {
        events: Vec<WorkerEvent>,
        last_event_id: u64,
    },
    TreeDumpFailed {
        #[serde(default)]
        message: String,
    },
    TooNew {},
    InvalidRange {},
    Error(String),
}

/// The body of a query for everything.
pub fn everything(worker_id: u64, dp_rank: u32, codec: Codec) -> Vec<u8> {
    codec.encode(&Query {
        worker_id,
        dp_rank,
        start_event_id: None,
        end_event_id: None,
        supports_tree_dump_failed: true,
    })
}

/// Reads one frame of the answer.
pub fn dump_reply(body: &[u8], codec: Codec) -> Result<engine::Answer<DumpReply>, DecodeError> {
    engine::plain("tree dump", body, codec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::engine::Answer;
    use super::*;

    #[track_caller]
    fn read(frame: serde_json::Value) -> Answer<DumpReply> {
        let written = rmp_serde::to_vec_named(&frame).unwrap();
        let read = dump_reply(&written, Codec::Msgpack).unwrap();
        let written = serde_json::to_vec(&frame).unwrap();
        assert_eq!(dump_reply(&written, Codec::Json).unwrap(), read);
        read
    }

    #[test]
    fn a_dump_is_read() {
        let event = json!({"worker_id": 1, "storage_tier": "device", "event": {"event_id": 0,
            "data": {"stored": {"parent_hash": null, "start_position": null, "blocks":
            [{"block_hash": 5, "tokens_hash": 6, "mm_extra_info": null}]}}, "dp_rank": 0}});
        let frame = json!({"data": {"TreeDump": {"events": [event], "last_event_id": 1,
            "reset_scope": "all"}}, "complete_final": false});
        let Answer::Data(DumpReply::TreeDump {
            events,
            last_event_id,
        }) = read(frame)
        else {
            panic!("a dump was written");
        };
        assert_eq!((events.len(), last_event_id), (1, 1));
        assert_eq!(read(json!({"complete_final": true})), Answer::End);
    }

    #[test]
    fn refusals_are_read() {
        let refusal = |value| match read(json!({ "data": value })) {
            Answer::Data(reply) => reply,
            Answer::Nothing | Answer::End | Answer::Error { .. } => panic!("no data"),
        };
        let failed = refusal(json!({"TreeDumpFailed": {"last_event_id": 3, "message": "x"}}));
        let message = "x".to_owned();
        assert_eq!(failed, DumpReply::TreeDumpFailed { message });
        assert_eq!(
            refusal(json!({"Error": "y"})),
            DumpReply::Error("y".to_owned())
        );
        let new = json!({"TooNew": {"requested_start": 1, "requested_end": null,
            "newest_available": 0}});
        assert_eq!(refusal(new), DumpReply::TooNew {});
    }

    #[test]
    fn a_query_for_everything_has_no_ends() {
        let body = everything(7, 0, Codec::Json);
        let expected = r#"{"worker_id":7,"dp_rank":0,"start_event_id":null,"end_event_id":null,"supports_tree_dump_failed":true}"#;
        assert_eq!(std::str::from_utf8(&body).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = dump_reply(&bytes, Codec::Json);
            let _ = dump_reply(&bytes, Codec::Msgpack);
        }
    }
}
