//! Counts one answer while it is read.
//!
//! Runs in the task that reads, for every event of every stream, so the lock of the figures
//! is taken for the first token and then once for some dozens of gaps; tokens are counted
//! without it.

use std::sync::Arc;

use contract::Moment;

use super::Shared;
use crate::reading::{Arrival, Gap, Listener};
use crate::record::TurnType;

/// Gaps that are handed over at once: about a second of a stream.
const BATCH: usize = 32;

pub(super) struct Meter {
    shared: Arc<Shared>,
    turn_type: TurnType,
    gaps: Vec<(Moment, Gap)>,
    /// Tokens that the counter of the metrics has not seen.
    tokens: u64,
}

impl Meter {
    pub(super) fn new(shared: Arc<Shared>, turn_type: TurnType) -> Self {
        Self {
            shared,
            turn_type,
            gaps: Vec::with_capacity(BATCH),
            tokens: 0,
        }
    }

    fn hand_over(&mut self) {
        if self.tokens == 0 && self.gaps.is_empty() {
            return;
        }
        let mut measurements = self.shared.measurements.lock();
        measurements.arrived(&self.gaps, self.tokens, self.turn_type);
        drop(measurements);
        self.gaps.clear();
        self.tokens = 0;
    }
}

impl Listener for Meter {
    fn arrived(&mut self, arrival: &Arrival) {
        let second = (arrival.at - Moment::ZERO).as_secs();
        self.shared.flow.count(second, arrival.tokens);
        self.tokens += u64::from(arrival.tokens);
        if arrival.ttft.is_some() {
            let mut measurements = self.shared.measurements.lock();
            measurements.first_token(arrival, self.turn_type);
        }
        if let Some(gap) = arrival.gap {
            self.gaps.push((arrival.at, gap));
        }
        if self.tokens >= BATCH as u64 || self.gaps.len() >= BATCH {
            self.hand_over();
        }
    }
}

/// What came counts, however the answer ended.
impl Drop for Meter {
    fn drop(&mut self) {
        self.hand_over();
    }
}
