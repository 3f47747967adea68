//! Cache events of TensorRT-LLM, up to the mirror of the engine.
//!
//! Asserts that any bytes are a list of events or are refused, and what
//! [`homing_fuzz::cache`] asserts of them.

#![no_main]

use adapters::wire::trtllm;
use libfuzzer_sys::fuzz_target;

// The first byte is the plan of the cache.
fuzz_target!(|input: &[u8]| {
    let Some((&plan, bytes)) = input.split_first() else {
        return;
    };
    if let Ok(events) = trtllm::decode(bytes) {
        homing_fuzz::cache::check(plan, events.iter().map(|numbered| &numbered.event));
    }
});
