//! Cache events of vLLM and SGLang, as maps and by place, up to the mirror of the engine.
//!
//! Asserts that any bytes are a batch or are refused, and what [`homing_fuzz::cache`] asserts
//! of a batch's events. Numbers of batches are judged without a panic, and a batch that was
//! taken in is not taken for the next one.

#![no_main]

use adapters::numbering::{BatchNumbering, Verdict};
use adapters::wire::msgpack;
use libfuzzer_sys::fuzz_target;

// The first byte is the plan of the cache.
fuzz_target!(|input: &[u8]| {
    let Some((&plan, bytes)) = input.split_first() else {
        return;
    };
    let Ok(batch) = msgpack::decode(bytes) else {
        return;
    };
    homing_fuzz::cache::check(plan, batch.events.iter());
    let number = batch.at as u64;
    let mut numbering = BatchNumbering::default();
    assert_eq!(numbering.judge(number, batch.at), Verdict::Next);
    numbering.applied(number, batch.at);
    if number < u64::MAX {
        assert!(numbering.is_last(number, batch.at));
        assert_eq!(numbering.judge(number, batch.at), Verdict::Duplicate);
    }
});
