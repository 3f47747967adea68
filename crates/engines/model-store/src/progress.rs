//! How far a pull has come: plain numbers, so that a terminal, a page or a test can show them.

/// What a pull is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Asks which files there are.
    Listing,
    /// Brings bytes over the network.
    Fetching,
    /// Takes the model out of what was fetched.
    Unpacking,
}

/// How far a pull is; reported a few times per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub step: Step,
    /// The current package or file.
    pub what: String,
    /// Bytes of the whole step, not of the file alone.
    pub done: u64,
    /// `None` as long as the size is unknown.
    pub total: Option<u64>,
}

impl Progress {
    /// Rounded down: 100 means that the step is done.
    pub fn percent(&self) -> Option<u8> {
        let total = self.total.filter(|&total| total > 0)?;
        let share = u128::from(self.done) * 100 / u128::from(total);
        Some(u8::try_from(share.min(100)).expect("at most a hundred"))
    }
}

/// A callback that takes progress reports.
pub type Report<'a> = &'a mut (dyn FnMut(Progress) + Send);
