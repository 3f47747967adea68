//! Bugs that can be switched on, to see that the search for faults finds them. Compiled only
//! with the feature `planted-bugs`, which nothing that ships has.

use std::sync::atomic::{AtomicU8, Ordering};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[repr(u8)]
pub enum Bug {
    /// A placement whose request failed is never given back.
    LostRelease = 1,
    /// A worker that continues an answer repeats the last token.
    RepeatedToken = 2,
    /// A gap in a worker's events is not noticed.
    MissedSnapshot = 3,
    /// A slot is given back when the client has read the answer, not when the engine is done.
    SlotUntilRead = 4,
    /// A prompt that waits for its siblings is not notified when one has ended.
    ForgottenSibling = 5,
    /// An answer that nobody reads is never cancelled.
    EndlessPatience = 6,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

/// Switches a bug on, for the rest of the process.
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u8, Ordering::Relaxed);
}

/// Whether a bug is on.
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as u8
}
