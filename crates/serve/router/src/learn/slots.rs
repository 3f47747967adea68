//! How many requests a worker runs at once, when its card does not say.
//!
//! Additive increase, multiplicative decrease: each first token that comes on time from a
//! worker that was nearly full adds a slot, and signs that requests wait in the engine take
//! a tenth away. One decrease answers all the signs of one episode, because the requests
//! that were sent too many go on giving signs until they are through.

/// A number to begin with: small against what engines run, so that finding out begins below.
const FIRST: u32 = 16;
const MOST: u32 = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Slots {
    believed: f64,
    /// First tokens to be seen before the next decrease.
    patience: u32,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            believed: f64::from(FIRST),
            patience: 0,
        }
    }
}

impl Slots {
    pub fn count(&self) -> u32 {
        self.believed as u32
    }

    /// A first token of a request that found so many others on the worker; `late` if it
    /// took much longer than computing takes. Returns whether it must have waited for a slot.
    pub fn first_token(&mut self, in_flight: u32, late: bool) -> bool {
        self.patience = self.patience.saturating_sub(1);
        let taken = f64::from(in_flight + 1) / self.believed;
        let waited = late && taken >= 0.8;
        if waited {
            self.waiting();
        } else if taken >= 0.95 {
            self.believed = (self.believed + 1.0).min(f64::from(MOST));
        }
        waited
    }

    /// Requests are known to wait in the engine.
    pub fn waiting(&mut self) {
        if self.patience == 0 {
            self.believed = (self.believed * 0.9).max(1.0);
            self.patience = self.count();
        }
    }
}
