//! Is a numbered stream of events whole?
//!
//! Engines number their batches from 0. A number that is too high means that some were lost;
//! one that is too low is either a batch that was read before (live and again) or the first
//! of an engine that has started anew. The time in the batch tells which.

/// What a number means for whoever listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Next,
    /// Read before.
    Duplicate,
    /// The batches from `from` up to this one are missing.
    Gap {
        from: u64,
    },
    /// The engine has begun to count again: nothing it had told is true any more.
    Restart,
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sequence {
    /// Number of the next batch; `None` before the first.
    next: Option<u64>,
    /// Time of the last batch.
    at: f64,
}

impl Sequence {
    /// The number that would come next, if anything has come.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// What a batch is, before it is taken in.
    pub fn judge(&self, number: u64, at: f64) -> Verdict {
        match self.next {
            None => Verdict::Next,
            Some(next) if number == next => Verdict::Next,
            Some(next) if number > next => Verdict::Gap { from: next },
            Some(_) if at > self.at => Verdict::Restart,
            Some(_) => Verdict::Duplicate,
        }
    }

    /// Whether the engine's batch of this number is the one that was taken in last.
    pub fn is_last(&self, number: u64, at: f64) -> bool {
        self.next == Some(number.saturating_add(1)) && self.at.total_cmp(&at).is_eq()
    }

    /// The batch could not be read, and is over.
    pub fn skip(&mut self, number: u64) {
        self.next = Some(number.saturating_add(1));
    }

    /// The batch has been taken in.
    pub fn took(&mut self, number: u64, at: f64) {
        self.next = Some(number.saturating_add(1));
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_tell_what_a_batch_is() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.judge(7, 1.0), Verdict::Next);
        sequence.took(7, 1.0);
        assert_eq!(sequence.next(), Some(8));
        for (number, at, expected) in [
            (8, 2.0, Verdict::Next),
            (9, 2.0, Verdict::Gap { from: 8 }),
            (7, 1.0, Verdict::Duplicate),
            (3, 0.5, Verdict::Duplicate),
            (0, 2.0, Verdict::Restart),
            (u64::MAX, 2.0, Verdict::Gap { from: 8 }),
        ] {
            assert_eq!(sequence.judge(number, at), expected, "{number} at {at}");
        }
        assert!(sequence.is_last(7, 1.0));
        assert!(!sequence.is_last(7, 2.0));
        assert!(!sequence.is_last(6, 1.0));
        sequence.skip(8);
        assert_eq!(sequence.judge(8, 1.0), Verdict::Duplicate);
        sequence.took(u64::MAX, 3.0);
        assert_eq!(sequence.next(), Some(u64::MAX));
    }
}
