//! Envelopes of the event plane.
//!
//! Asserts that decoding never panics, and that what was decoded is encoded to bytes which
//! decode to the same, from whichever worker and life of it the envelope says it comes.

#![no_main]

use contract::{FeedMessage, WorkerId};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use remote::wire::envelope::Content;
use remote::wire::{Envelope, EnvelopeError, Sender, decode_envelope, encode_envelope};

const EXPECTED: Sender = Sender {
    worker: WorkerId(7),
    epoch: 3,
};

fuzz_target!(|bytes: &[u8]| {
    check(EXPECTED, bytes);
    if let Ok(envelope) = Envelope::decode(bytes) {
        let epoch = match envelope.content {
            Some(Content::Kv(batch)) => batch.epoch,
            Some(Content::Status(_) | Content::Loads(_)) | None => 0,
        };
        let worker = WorkerId(envelope.worker);
        check(Sender { worker, epoch }, bytes);
    }
});

fn check(from: Sender, bytes: &[u8]) {
    let (message, sent) = match decode_envelope(from, bytes) {
        Ok(decoded) => decoded,
        Err(error) => return assert!(!said(&error).is_empty()),
    };
    match &message {
        FeedMessage::Kv(batch) => {
            assert_eq!((batch.worker, batch.epoch), (from.worker, from.epoch));
        }
        FeedMessage::Status(status) => assert!((0.0..=1.0).contains(&status.utilization)),
        FeedMessage::Loads(_) => {}
        FeedMessage::Head { .. } | FeedMessage::Lease(_) | FeedMessage::Draining => {
            panic!("{message:?} does not travel by event");
        }
    }
    let encoded = encode_envelope(from.worker, &message, sent).expect("it travels by event");
    let (again, sent_again) = decode_envelope(from, &encoded).expect("our own bytes");
    assert_eq!(
        (format!("{again:?}"), sent_again),
        (format!("{message:?}"), sent)
    );
}

fn said(error: &EnvelopeError) -> String {
    format!("{}: {error}", error.reason())
}
