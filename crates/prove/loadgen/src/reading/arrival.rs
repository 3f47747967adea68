//! What is known of an answer while it is still being read.
//!
//! Figures of the last minute cannot wait for the end of an answer, which may take longer
//! than a minute. So each event with content is reported as it comes, and the reported tokens
//! are added up, so that the end of the answer counts only the rest.

use std::time::Duration;

use contract::Moment;
use openai::Usage;

use super::Gap;

/// An event with content, as soon as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrival {
    pub at: Moment,
    /// Since sending; of the first event only.
    pub ttft: Option<Duration>,
    /// Its tokens: exact if the server counts along, and taken for one if it does not.
    pub tokens: u32,
    /// The time since the event before, if the event's tokens are exact.
    pub gap: Option<Gap>,
    /// What the server says about the prompt with the first event.
    pub usage: Option<Usage>,
}

/// Follows an answer while it is read. Called for every event, so it must be fast.
pub trait Listener: Send {
    fn arrived(&mut self, arrival: &Arrival);
}

/// Ignores every event.
impl Listener for () {
    fn arrived(&mut self, _arrival: &Arrival) {}
}

/// All arrivals of an answer together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalTotals {
    pub ttft: Option<Duration>,
    pub events: u32,
    pub tokens: u32,
    /// Gaps whose tokens were exact.
    pub gaps: u32,
    /// Whether the server reported the length of the prompt.
    pub prompt: bool,
}

impl ArrivalTotals {
    pub fn add(&mut self, arrival: &Arrival) {
        self.ttft = self.ttft.or(arrival.ttft);
        self.events += 1;
        self.tokens += arrival.tokens;
        self.gaps += u32::from(arrival.gap.is_some());
        self.prompt |= arrival.usage.is_some();
    }
}
