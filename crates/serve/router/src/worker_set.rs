//! A set of up to 64 workers in one machine word.
//!
//! Members are positions 0 to 63 within a page of workers; the index keeps one page per 64
//! workers instead of sets that grow (see [`crate::prefix_index`]), so a set is always one
//! copyable word and set algebra is single instructions.

/// Positions within one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerSet(u64);

impl WorkerSet {
    /// Most workers in one set.
    pub(crate) const CAPACITY: usize = 64;

    pub(crate) const EMPTY: Self = Self(0);

    /// The set of one. `position` is below [`CAPACITY`](Self::CAPACITY).
    pub(crate) fn of(position: usize) -> Self {
        debug_assert!(
            position < Self::CAPACITY,
            "position {position} is on another page"
        );
        Self(1 << position)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The positions, in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let position = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(position)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(positions: &BTreeSet<usize>) -> WorkerSet {
        positions
            .iter()
            .fold(WorkerSet::EMPTY, |set, &one| set.union(WorkerSet::of(one)))
    }

    fn positions() -> impl Strategy<Value = BTreeSet<usize>> {
        prop::collection::btree_set(0..WorkerSet::CAPACITY, 0..12)
    }

    proptest! {
        #[test]
        fn algebra_agrees_with_ordinary_sets(left in positions(), right in positions()) {
            let (l, r) = (set(&left), set(&right));
            prop_assert!(l.iter().eq(left.iter().copied()));
            prop_assert!(l.union(r).iter().eq(left.union(&right).copied()));
            prop_assert!(l.intersection(r).iter().eq(left.intersection(&right).copied()));
            prop_assert!(l.without(r).iter().eq(left.difference(&right).copied()));
            prop_assert_eq!(l.contains(r), left.is_superset(&right));
            prop_assert_eq!(l.is_empty(), left.is_empty());
        }
    }
}
