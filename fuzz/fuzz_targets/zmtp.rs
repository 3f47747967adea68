//! What a ZeroMQ peer sends.
//!
//! Asserts that messages do not depend on how the bytes were cut, that none is larger than
//! allowed, that no frame makes room for more than that, and that what was read is written to
//! bytes which read the same. The first byte says where to cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zmtp::Message;
use zmtp::codec::{
    Assembly, Frame, GREETING, Kind, Violation, check_greeting, check_ready, decode, encode_message,
};

const LIMIT: usize = 300;

fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    if let Some(greeting) = bytes.first_chunk::<GREETING>() {
        let _ = check_greeting(greeting);
    }
    for kind in [Kind::Pub, Kind::Sub, Kind::Dealer, Kind::Router] {
        let frame = Frame {
            command: true,
            more: false,
            body: bytes.to_vec().into(),
        };
        let _ = check_ready(kind, &frame);
    }
    let (whole, end) = read(bytes, bytes.len().max(1));
    assert_eq!(
        (&whole, &end),
        (&read(bytes, usize::from(cut).max(1)).0, &end)
    );
    let mut again = bytes::BytesMut::new();
    for message in &whole {
        assert!(message.iter().map(bytes::Bytes::len).sum::<usize>() <= LIMIT);
        encode_message(message, &mut again);
    }
    assert_eq!(read(&again, 7), (whole, Ok(())));
});

/// The messages in a stream that comes in pieces, and how it ended.
fn read(bytes: &[u8], piece: usize) -> (Vec<Message>, Result<(), Violation>) {
    let (mut buffer, mut assembly) = (bytes::BytesMut::new(), Assembly::default());
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            let frame = match decode(&mut buffer, LIMIT) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(violation) => return (messages, Err(violation)),
            };
            match assembly.take(frame, LIMIT) {
                Ok(message) => messages.extend(message),
                Err(violation) => return (messages, Err(violation)),
            }
        }
    }
    (messages, Ok(()))
}
