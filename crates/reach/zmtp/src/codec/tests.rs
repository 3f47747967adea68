//! Round trips, limits, and whatever a stranger may send.

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1000;

/// Everything that a piece of a stream makes of messages.
fn read(buffer: &mut BytesMut, assembly: &mut Assembly) -> Result<Vec<Message>, Violation> {
    let mut messages = Vec::new();
    while let Some(frame) = decode(buffer, LIMIT)? {
        messages.extend(assembly.take(frame, LIMIT)?);
    }
    Ok(messages)
}

proptest! {
    #[test]
    fn messages_survive_in_any_pieces(
        messages in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..4), 0..6),
        piece in 1..50_usize,
    ) {
        let messages: Vec<Message> = messages
            .into_iter()
            .map(|parts| parts.into_iter().map(Bytes::from).collect())
            .collect();
        let mut wire = BytesMut::new();
        for message in &messages {
            encode_message(message, &mut wire);
        }
        let (mut buffer, mut assembly) = (BytesMut::new(), Assembly::default());
        let mut seen = Vec::new();
        for piece in wire.chunks(piece) {
            buffer.extend_from_slice(piece);
            seen.extend(read(&mut buffer, &mut assembly).unwrap());
        }
        prop_assert_eq!(seen, messages);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn nothing_that_is_sent_makes_more_room_than_is_allowed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut buffer = BytesMut::from(&bytes[..]);
        let before = buffer.capacity();
        // Either outcome is fine; room is what matters.
        let _ = read(&mut buffer, &mut Assembly::default());
        prop_assert!(buffer.capacity() <= before);
        let frame = Frame { command: true, more: false, body: bytes.into() };
        let _ = check_ready(Kind::Sub, &frame);
    }
}

#[test]
fn a_frame_is_refused_when_it_has_said_its_length() {
    for size in [LIMIT as u64 + 1, 1 << 40, u64::MAX] {
        let mut buffer = BytesMut::from(&[2][..]);
        buffer.put_u64(size);
        let refused = decode(&mut buffer, LIMIT);
        assert_eq!(refused, Err(Violation::TooLarge { size, limit: LIMIT }));
    }
    let mut buffer = BytesMut::from(&[0x80, 0][..]);
    assert_eq!(decode(&mut buffer, LIMIT), Err(Violation::Flags(0x80)));
}

#[test]
fn a_message_has_limits_too() {
    let part = |size: usize| Frame {
        command: false,
        more: true,
        body: vec![0; size].into(),
    };
    let mut assembly = Assembly::default();
    assert_eq!(assembly.take(part(LIMIT), LIMIT), Ok(None));
    let (size, limit) = (LIMIT as u64 + 1, LIMIT);
    let refused = assembly.take(part(1), LIMIT);
    assert_eq!(refused, Err(Violation::TooLarge { size, limit }));
    let mut assembly = Assembly::default();
    for _ in 0..MOST_PARTS {
        assert_eq!(assembly.take(part(0), LIMIT), Ok(None));
    }
    let refused = assembly.take(part(0), LIMIT);
    assert_eq!(refused, Err(Violation::TooManyParts));
}

#[test]
fn handshakes_are_checked() {
    assert_eq!(check_greeting(&greeting()), Ok(()));
    let mut newer = greeting();
    newer[11] = 1;
    assert_eq!(check_greeting(&newer), Ok(()));
    let mut older = greeting();
    older[10] = 1;
    assert_eq!(check_greeting(&older), Err(Violation::Greeting));
    let mut secured = greeting();
    secured[12..17].copy_from_slice(b"CURVE");
    assert_eq!(check_greeting(&secured), Err(Violation::Mechanism));
    assert_eq!(check_greeting(&[0; GREETING]), Err(Violation::Greeting));

    assert_eq!(check_ready(Kind::Sub, &ready(Kind::Pub)), Ok(()));
    assert_eq!(check_ready(Kind::Router, &ready(Kind::Dealer)), Ok(()));
    let wrong = check_ready(Kind::Sub, &ready(Kind::Router));
    assert_eq!(wrong, Err(Violation::Peer("ROUTER".to_owned())));
    for body in [&b"\x05ERROR"[..], b"\x05READY", b"\x05READY\xffx"] {
        let frame = Frame {
            command: true,
            more: false,
            body: Bytes::from_static(body),
        };
        assert_eq!(check_ready(Kind::Sub, &frame), Err(Violation::Handshake));
    }
}
