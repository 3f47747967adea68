//! Bucket boundaries of the histograms.
//!
//! The frontend's bounds are NVIDIA Dynamo's defaults, so that a quantile read from our
//! histogram and from theirs is wrong in the same way: zero first, then values spaced
//! evenly by logarithm between a minimum and a maximum, rounded to two figures. The test
//! recomputes them.

/// 0.001 to 480 seconds in 18.
pub(super) const TIME_TO_FIRST_TOKEN: &[f64] = &[
    0.0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0,
    100.0, 220.0, 480.0,
];

/// 0.001 to 2 seconds in 13.
pub(super) const INTER_TOKEN: &[f64] = &[
    0.0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2.0,
];

/// 1 to 512 seconds in 10.
pub(super) const REQUEST_DURATION: &[f64] =
    &[0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 130.0, 260.0, 510.0];

/// 50 to 128,000 tokens in 12.
pub(super) const INPUT_TOKENS: &[f64] = &[
    0.0, 100.0, 210.0, 430.0, 870.0, 1800.0, 3600.0, 7400.0, 15000.0, 31000.0, 63000.0, 130000.0,
];

/// 50 to 32,000 tokens in 10.
pub(super) const OUTPUT_TOKENS: &[f64] = &[
    0.0, 100.0, 210.0, 430.0, 880.0, 1800.0, 3700.0, 7600.0, 16000.0, 32000.0,
];

/// 1 µs to 10 ms: a routing decision is a few microseconds of pure code.
pub(super) const DECISION: &[f64] = &[
    0.000001, 0.000002, 0.000005, 0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002,
    0.005, 0.01,
];

/// 1 µs to 1 s: a warm prompt is prepared in microseconds, while dispatch may wait for a
/// network.
pub(super) const STAGE: &[f64] = &[
    0.000001, 0.000003, 0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0,
];

/// 10 µs to 30 s: within a process an event waits for a turn of its reader, and a gap waits for
/// snapshots that are asked for up to five times, a second apart.
pub(super) const LAG: &[f64] = &[
    0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0,
];

/// 1 ms to 1 s: a decode step of a 70B model takes tens of milliseconds, a step full of
/// prefill several hundred.
pub(super) const STEP: &[f64] = &[
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.4, 0.7, 1.0,
];

/// 1 ms to 2 minutes: zero wait on a free worker, a minute behind a full one.
pub(super) const QUEUE_TIME: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
