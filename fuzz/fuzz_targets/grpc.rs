//! Messages of the request plane, from and to what the program works with.
//!
//! Asserts that a request, a chunk, a load or a status of any bytes is taken in or refused
//! without a panic, and that what was taken in crosses the wire again unchanged. Wire forms are
//! compared as bytes, because not every number in them equals itself.

#![no_main]

use contract::WorkerId;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use remote::wire::{
    Chunk, GenerateRequest, Load, Status, from_chunk, from_grpc, from_load, from_request,
    from_status, to_chunk, to_grpc, to_load, to_request, to_status,
};

// The first byte chooses the message.
fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    match kind % 4 {
        0 => request(bytes),
        1 => chunk(bytes),
        2 => load(bytes),
        _ => status(bytes),
    }
});

fn request(bytes: &[u8]) {
    let Ok(sent) = GenerateRequest::decode(bytes) else {
        return;
    };
    let frontend = sent.frontend;
    match from_request(sent.clone()) {
        Ok(taken) => {
            assert!(!taken.prompt.is_empty());
            assert!((taken.answered.len() as u64) < u64::from(taken.limits.max_tokens));
            let crossed = to_request(&taken, frontend);
            // What a frontend that does not know of it leaves away is said here.
            let repetition_penalty = sent.repetition_penalty.or(Some(1.0));
            let said = GenerateRequest {
                repetition_penalty,
                ..sent
            };
            assert_eq!(crossed.encode_to_vec(), said.encode_to_vec());
        }
        Err(refusal) => {
            // A refusal means the same on the other side, whichever way it is told.
            let error = from_grpc(WorkerId(1), &refusal);
            assert_eq!(from_grpc(WorkerId(1), &to_grpc(&error)), error);
        }
    }
}

fn chunk(bytes: &[u8]) {
    let Some(taken) = Chunk::decode(bytes).ok().and_then(from_chunk) else {
        return;
    };
    let sent = to_chunk(taken);
    let crossed = from_chunk(sent.clone()).expect("our own chunk");
    assert_eq!(to_chunk(crossed).encode_to_vec(), sent.encode_to_vec());
}

fn load(bytes: &[u8]) {
    let Ok(sent) = Load::decode(bytes) else {
        return;
    };
    let taken = from_load(&sent);
    assert_eq!(from_load(&to_load(&taken)), taken);
}

fn status(bytes: &[u8]) {
    let Ok(sent) = Status::decode(bytes) else {
        return;
    };
    let taken = from_status(&sent);
    assert!((0.0..=1.0).contains(&taken.utilization));
    assert_eq!(from_status(&to_status(&taken)), taken);
}
