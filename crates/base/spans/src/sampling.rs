//! Which traces are recorded, and the ids of those that begin here.
//!
//! Whoever asks decides: a `traceparent` that says that its trace is recorded is obeyed, and one that
//! says that it is not, too. A trace that begins here is recorded by a share of all traces, which is
//! decided by its id alone, so that every process with the same share decides the same.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use contract::random::mix;
use contract::{SpanId, TraceContext, TraceId};

/// Bits of a trace id that the share is compared with.
const RANDOM_BITS: u32 = 56;

/// The share of the traces that begin here which is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRatio(f64);

/// The text is no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number from 0 (none) to 1 (all)")]
pub struct RatioError;

impl SampleRatio {
    pub const ALL: Self = Self(1.0);
    pub const NONE: Self = Self(0.0);

    pub fn new(ratio: f64) -> Result<Self, RatioError> {
        match (0.0..=1.0).contains(&ratio) {
            true => Ok(Self(ratio)),
            false => Err(RatioError),
        }
    }

    /// Whether a trace that begins here is recorded.
    pub fn takes(self, trace: TraceId) -> bool {
        let all = (1_u64 << RANDOM_BITS) as f64;
        let below = ((1.0 - self.0) * all) as u64;
        trace.randomness() >= below
    }
}

impl FromStr for SampleRatio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        Self::new(text.trim().parse().map_err(|_| RatioError)?)
    }
}

/// Ids that no other process draws, if its seed is another.
#[derive(Debug)]
pub(crate) struct Ids {
    seed: u64,
    drawn: AtomicU64,
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            drawn: AtomicU64::new(0),
        }
    }

    fn draw(&self, stream: u64, number: u64) -> u64 {
        mix(self.seed, stream, number)
    }

    pub(crate) fn span(&self) -> SpanId {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        // One in 2^64 is zero, which names nothing.
        let id = self.draw(0, number).max(1);
        SpanId::new(id).expect("at least 1")
    }

    fn trace(&self) -> TraceId {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let high = u128::from(self.draw(1, number)) << 64;
        let id = high | u128::from(self.draw(2, number).max(1));
        TraceId::new(id).expect("at least 1")
    }

    /// A trace that begins here.
    pub(crate) fn root(&self, ratio: SampleRatio) -> TraceContext {
        let trace = self.trace();
        TraceContext::root(trace, self.span(), ratio.takes(trace))
    }
}
