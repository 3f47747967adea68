//! Connections that have not named the request that they answer yet: a bounded number, shared
//! fairly by addresses. Pure; a connection that is evicted learns it by its token.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use tokio_util::sync::CancellationToken;

/// Identifies a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

#[derive(Debug)]
pub(super) struct PendingConnections {
    most: usize,
    next: u64,
    /// The oldest first.
    connections: BTreeMap<ConnectionId, (IpAddr, CancellationToken)>,
}

impl PendingConnections {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            next: 0,
            connections: BTreeMap::new(),
        }
    }

    /// Adds a connection. If there are too many then, the address with the most of them loses
    /// its oldest, which may be the same one.
    pub(super) fn add(&mut self, from: IpAddr) -> (ConnectionId, CancellationToken) {
        let id = ConnectionId(self.next);
        self.next += 1;
        let evicted = CancellationToken::new();
        self.connections.insert(id, (from, evicted.clone()));
        if self.connections.len() > self.most {
            self.evict();
        }
        (id, evicted)
    }

    /// The connection has named its request, or has ended.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    fn evict(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (from, _) in self.connections.values() {
            *counts.entry(*from).or_default() += 1;
        }
        let crowd = counts.values().copied().max();
        let oldest = self
            .connections
            .iter()
            .find(|(_, (from, _))| counts.get(from).copied() == crowd)
            .map(|(id, _)| *id);
        if let Some((_, evicted)) = oldest.and_then(|id| self.connections.remove(&id)) {
            evicted.cancel();
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
    fn the_address_with_most_connections_loses_its_oldest() {
        let mut pending = PendingConnections::new(4);
        let (worker, at_ease) = pending.add(address(1));
        let crowd: Vec<_> = (0..5).map(|_| pending.add(address(2)).1).collect();
        let gone: Vec<bool> = crowd.iter().map(CancellationToken::is_cancelled).collect();
        assert_eq!(gone, [true, true, false, false, false]);
        assert!(!at_ease.is_cancelled(), "the oldest of all, but alone");
        pending.remove(worker);
        let (_, late) = pending.add(address(3));
        assert!(!late.is_cancelled() && !crowd[2].is_cancelled());
        assert_eq!(pending.connections.len(), 4);
    }
}
