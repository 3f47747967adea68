//! Who has connected and not said yet whom it answers: a bounded number, shared fairly by
//! addresses. Pure; whoever is shown out hears it by a token.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use tokio_util::sync::CancellationToken;

/// Names a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

#[derive(Debug)]
pub(super) struct Door {
    most: usize,
    next: u64,
    /// The oldest first.
    guests: BTreeMap<Place, (IpAddr, CancellationToken)>,
}

impl Door {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            next: 0,
            guests: BTreeMap::new(),
        }
    }

    /// Lets one in. If that is too many, the address that has most loses its oldest, which may
    /// be the same.
    pub(super) fn enter(&mut self, from: IpAddr) -> (Place, CancellationToken) {
        let place = Place(self.next);
        self.next += 1;
        let shown_out = CancellationToken::new();
        self.guests.insert(place, (from, shown_out.clone()));
        if self.guests.len() > self.most {
            self.show_out();
        }
        (place, shown_out)
    }

    /// One has said who it is, or has gone.
    pub(super) fn leave(&mut self, place: Place) {
        self.guests.remove(&place);
    }

    fn show_out(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (from, _) in self.guests.values() {
            *counts.entry(*from).or_default() += 1;
        }
        let crowd = counts.values().copied().max();
        let oldest = self
            .guests
            .iter()
            .find(|(_, (from, _))| counts.get(from).copied() == crowd)
            .map(|(place, _)| *place);
        if let Some((_, shown_out)) = oldest.and_then(|place| self.guests.remove(&place)) {
            shown_out.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_address_with_most_guests_loses_its_oldest() {
        let mut door = Door::new(4);
        let (worker, at_ease) = door.enter(address(1));
        let crowd: Vec<_> = (0..5).map(|_| door.enter(address(2)).1).collect();
        let gone: Vec<bool> = crowd.iter().map(CancellationToken::is_cancelled).collect();
        assert_eq!(gone, [true, true, false, false, false]);
        assert!(!at_ease.is_cancelled(), "the oldest of all, but alone");
        door.leave(worker);
        let (_, late) = door.enter(address(3));
        assert!(!late.is_cancelled() && !crowd[2].is_cancelled());
        assert_eq!(door.guests.len(), 4);
    }
}
