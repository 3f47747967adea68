//! Everything that a Dynamo worker, or a registry, may send.
//!
//! Asserts that no decoder panics, that a frame is the same however much follows it and is
//! decoded from what its parts encode to, and that events speak of no more blocks than their
//! bytes have room for.

#![no_main]

use dynamo::registration;
use dynamo::wire::event::{CacheChange, WorkerEvent};
use dynamo::wire::request::Acknowledgement;
use dynamo::wire::{Codec, control, engine, event, query, request, two_part};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 16;

// The first byte chooses the decoder.
fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    let codec = match kind & 1 {
        0 => Codec::Json,
        _ => Codec::Msgpack,
    };
    match kind >> 1 & 7 {
        0 => {
            if let Ok(events) = event::decode(bytes) {
                check_events(&events, bytes.len());
            }
        }
        1 => frames(bytes),
        2 => headers(bytes),
        3 => {
            if let Ok(engine::Answer::Data(output)) = engine::output(bytes, codec) {
                assert!(output.token_ids.len() <= bytes.len());
                let _ = output.cached_tokens();
            }
        }
        4 => dump_reply(bytes, codec),
        5 => acknowledgement(bytes),
        6 => {
            let _ = registration::decode(bytes);
        }
        _ => {
            if let Ok(events) = event::decode_envelope(bytes) {
                check_events(&events, bytes.len());
            }
        }
    }
});

fn check_events(events: &[WorkerEvent], room: usize) {
    let blocks = |event: &WorkerEvent| match &event.event.data {
        CacheChange::Stored(stored) => stored.blocks.len(),
        CacheChange::Removed(removed) => removed.block_hashes.len(),
        CacheChange::Cleared => 0,
    };
    assert!(events.iter().map(blocks).sum::<usize>() <= room);
    let _ = events.iter().filter(|event| event.is_on_device()).count();
}

/// Frames one after the other, as on a connection.
fn frames(mut bytes: &[u8]) {
    while let Ok(Some((frame, length))) = two_part::decode(bytes, LIMIT) {
        assert!(frame.header.len() + frame.body.len() <= LIMIT);
        assert_eq!(two_part::decode(&bytes[..length - 1], LIMIT), Ok(None));
        assert_eq!(
            two_part::decode(&bytes[..length], LIMIT),
            Ok(Some((frame, length)))
        );
        let encoded = two_part::encode(frame.header, frame.body);
        assert_eq!(two_part::decode(&encoded, LIMIT), Ok(Some((frame, length))));
        headers(frame.header);
        bytes = &bytes[length..];
    }
}

fn headers(bytes: &[u8]) {
    let _ = control::subject(bytes);
    let _ = control::prologue(bytes);
    let _ = control::is_sentinel(bytes);
}

fn dump_reply(bytes: &[u8], codec: Codec) {
    use query::DumpReply::*;
    if let Ok(engine::Answer::Data(answer)) = query::dump_reply(bytes, codec) {
        match answer {
            TreeDump(dump) | Events(dump) => check_events(&dump.events, bytes.len()),
            TreeDumpFailed { .. } | TooNew { .. } | InvalidRange {} | Error(_) => {}
        }
    }
}

fn acknowledgement(bytes: &[u8]) {
    if let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        if let Ok(length) = request::acknowledgement_length(*length) {
            assert!(length <= LIMIT);
        }
        let taken = Acknowledgement::decode(rest) == Acknowledgement::Taken;
        assert_eq!(taken, rest.is_empty());
    }
}
