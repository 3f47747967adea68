//! The part of a run that is measured.

use contract::Moment;

/// The time that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
}

impl Window {
    pub(crate) fn contains(&self, at: Moment) -> bool {
        self.begin <= at && at < self.end
    }
}
