//! Detects lost and repeated batches of events.
//!
//! Engines number their batches from 0. A number that is too high means that batches were lost.
//! One that is too low is either a batch that was read before (live and by replay) or the first
//! of an engine that has restarted; the time in the batch shows which.

/// What a batch's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Next,
    /// Read before.
    Duplicate,
    /// The batches from `from` up to this one are missing.
    Gap {
        from: u64,
    },
    /// The engine has restarted: nothing that it reported before is true any more.
    Restart,
}

/// How far a stream of batches has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchNumbering {
    /// Number of the next batch; `None` before the first.
    next: Option<u64>,
    /// Time of the last batch.
    at: f64,
}

impl BatchNumbering {
    /// The number of the next batch; `None` before the first.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Classifies a batch, before it is applied.
    pub fn judge(&self, number: u64, at: f64) -> Verdict {
        match self.next {
            None => Verdict::Next,
            Some(next) if number == next => Verdict::Next,
            Some(next) if number > next => Verdict::Gap { from: next },
            Some(_) if at > self.at => Verdict::Restart,
            Some(_) => Verdict::Duplicate,
        }
    }

    /// Whether this is the batch that was applied last.
    pub fn is_last(&self, number: u64, at: f64) -> bool {
        self.next == Some(number.saturating_add(1)) && self.at.total_cmp(&at).is_eq()
    }

    /// The batch could not be read, and the next one follows.
    pub fn skip(&mut self, number: u64) {
        self.next = Some(number.saturating_add(1));
    }

    /// The batch has been applied.
    pub fn applied(&mut self, number: u64, at: f64) {
        self.next = Some(number.saturating_add(1));
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_classify_a_batch() {
        let mut numbering = BatchNumbering::default();
        assert_eq!(numbering.judge(7, 1.0), Verdict::Next);
        numbering.applied(7, 1.0);
        assert_eq!(numbering.next(), Some(8));
        for (number, at, expected) in [
            (8, 2.0, Verdict::Next),
            (9, 2.0, Verdict::Gap { from: 8 }),
            (7, 1.0, Verdict::Duplicate),
            (3, 0.5, Verdict::Duplicate),
            (0, 2.0, Verdict::Restart),
            (u64::MAX, 2.0, Verdict::Gap { from: 8 }),
        ] {
            assert_eq!(numbering.judge(number, at), expected, "{number} at {at}");
        }
        assert!(numbering.is_last(7, 1.0));
        assert!(!numbering.is_last(7, 2.0));
        assert!(!numbering.is_last(6, 1.0));
        numbering.skip(8);
        assert_eq!(numbering.judge(8, 1.0), Verdict::Duplicate);
        numbering.applied(u64::MAX, 3.0);
        assert_eq!(numbering.next(), Some(u64::MAX));
    }
}
