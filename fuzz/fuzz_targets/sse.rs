//! Server-sent events: any bytes, cut anywhere.
//!
//! Asserts that neither the events nor the answer that they make depend on how the bytes were
//! read: all at once, each alone, or in the pieces that the input's first bytes say.

#![no_main]

use contract::Moment;
use libfuzzer_sys::fuzz_target;
use loadgen::reading::{Answer, Reading};
use openai::event_reader::{Parser, TooLong};

// The first byte says how many of the next are lengths of pieces.
fuzz_target!(|input: &[u8]| {
    let Some((&count, rest)) = input.split_first() else {
        return;
    };
    let (lengths, stream) = rest.split_at(usize::from(count % 16).min(rest.len()));
    let whole = [stream];
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    let pieces = pieces(stream, lengths);
    let (events, answer) = (events(&whole), answer(&whole));
    for reads in [&bytes, &pieces] {
        assert_eq!(self::events(reads), events, "in pieces of {lengths:?}");
        assert_eq!(self::answer(reads), answer, "in pieces of {lengths:?}");
    }
    for event in &events.0 {
        assert!(!event.contains('\r'), "a line's end within {event:?}");
    }
});

fn events(reads: &[&[u8]]) -> (Vec<String>, Result<(), TooLong>) {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for bytes in reads {
        if let Err(error) = parser.push(bytes, |event| events.push(event.to_owned())) {
            return (events, Err(error));
        }
    }
    (events, Ok(()))
}

/// What a client makes of it, or the message of what went wrong.
fn answer(reads: &[&[u8]]) -> Result<Answer, String> {
    let now = Moment::from_nanos(5);
    let mut reading = Reading::new(Moment::ZERO);
    for bytes in reads {
        reading.push(now, bytes);
        while reading.next_arrival().is_some() {}
    }
    reading.finish(now).map_err(|failure| failure.to_string())
}

/// Pieces of these lengths in turn, and then the rest.
fn pieces<'a>(mut stream: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = stream.split_at(usize::from(length).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces.push(stream);
    pieces
}
