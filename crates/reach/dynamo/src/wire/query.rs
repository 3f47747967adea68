//! Asks a worker for a dump of everything that it holds.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

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
    /// Everything it holds, parents before children. The events' own numbers are meaningless.
    TreeDump(Dump),
    /// The events themselves, if it still has all of them.
    Events(Dump),
    TreeDumpFailed {
        #[serde(default)]
        message: String,
    },
    /// Nothing so new has been published.
    TooNew {
        newest_available: u64,
    },
    InvalidRange {},
    Error(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    pub events: Vec<WorkerEvent>,
    /// The last event that is contained. Versions before 1.1 do not say it.
    pub last_event_id: Option<u64>,
}

impl<'de> Deserialize<'de> for Dump {
    /// Reads an object, or the list that versions before 1.1 send.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Dump;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("events, or an object that has them")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Dump, A::Error> {
                let mut events = Vec::new();
                while let Some(event) = list.next_element()? {
                    events.push(event);
                }
                Ok(Dump {
                    events,
                    last_event_id: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Dump, A::Error> {
                let (mut events, mut last_event_id) = (None, None);
                while let Some(name) = fields.next_key::<String>()? {
                    match name.as_str() {
                        "events" => events = Some(fields.next_value()?),
                        "last_event_id" => last_event_id = Some(fields.next_value()?),
                        _ => {
                            fields.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let missing = |name| <A::Error as serde::de::Error>::missing_field(name);
                Ok(Dump {
                    events: events.ok_or_else(|| missing("events"))?,
                    last_event_id: Some(last_event_id.ok_or_else(|| missing("last_event_id"))?),
                })
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    Everything,
    /// What no event can be part of: the reply, [`DumpReply::TooNew`], has the newest event's number.
    Beyond,
}

/// The body of a query.
pub fn request(worker_id: u64, dp_rank: u32, range: Range, codec: Codec) -> Vec<u8> {
    let start_event_id = match range {
        Range::Everything => None,
        Range::Beyond => Some(u64::MAX),
    };
    codec.encode(&Query {
        worker_id,
        dp_rank,
        start_event_id,
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

    /// As versions before 1.1 write it.
    fn dump_of_0_9() -> serde_json::Value {
        json!([{"worker_id": 1, "event": {"event_id": 0, "data": {"stored": {"parent_hash": null,
            "blocks": [{"block_hash": 5, "tokens_hash": 6}]}}, "dp_rank": 0}}])
    }

    #[track_caller]
    fn is_refused(frame: &serde_json::Value) {
        let written = serde_json::to_vec(frame).unwrap();
        assert!(dump_reply(&written, Codec::Json).is_err(), "{frame}");
    }

    #[test]
    fn a_dump_without_one_of_its_parts_is_refused() {
        is_refused(&json!({"data": {"TreeDump": {"events": []}}}));
        is_refused(&json!({"data": {"TreeDump": {"last_event_id": 1}}}));
        is_refused(&json!({"data": {"TreeDump": 1}}));
    }

    #[test]
    fn a_dump_is_read() {
        let event = json!({"worker_id": 1, "storage_tier": "device", "event": {"event_id": 0,
            "data": {"stored": {"parent_hash": null, "start_position": null, "blocks":
            [{"block_hash": 5, "tokens_hash": 6, "mm_extra_info": null}]}}, "dp_rank": 0}});
        let frame = json!({"data": {"TreeDump": {"events": [event], "last_event_id": 1,
            "reset_scope": "all"}}, "complete_final": false});
        let Answer::Data(DumpReply::TreeDump(dump)) = read(frame) else {
            panic!("a dump was written");
        };
        assert_eq!((dump.events.len(), dump.last_event_id), (1, Some(1)));
        let list = json!({"data": {"TreeDump": dump_of_0_9()}, "complete_final": false});
        let Answer::Data(DumpReply::TreeDump(dump)) = read(list) else {
            panic!("a dump was written");
        };
        assert_eq!((dump.events.len(), dump.last_event_id), (1, None));
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
        let newest_available = 0;
        assert_eq!(refusal(new), DumpReply::TooNew { newest_available });
    }

    #[test]
    fn a_query_for_everything_has_no_ends() {
        let body = request(7, 0, Range::Everything, Codec::Json);
        let expected = r#"{"worker_id":7,"dp_rank":0,"start_event_id":null,"end_event_id":null,"supports_tree_dump_failed":true}"#;
        assert_eq!(std::str::from_utf8(&body).unwrap(), expected);
        let body = request(7, 0, Range::Beyond, Codec::Json);
        let expected = expected.replacen("null", "18446744073709551615", 1);
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
