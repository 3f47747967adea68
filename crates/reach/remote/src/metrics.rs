//! What a frontend counts about its workers on other machines.

use telemetry::{Counter, Registry, catalog};

/// Counters of one frontend's connections.
#[derive(Clone, Debug)]
pub(crate) struct NetMetrics {
    registry: Registry,
    pub(crate) connections: Counter,
    pub(crate) losses: Counter,
    pub(crate) refusals: Counter,
    pub(crate) replayed: Counter,
}

impl NetMetrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |metric| registry.counter(metric, &[]);
        Self {
            registry: registry.clone(),
            connections: counter(&catalog::NET_CONNECTIONS_TOTAL),
            losses: counter(&catalog::NET_CONNECTION_LOSSES_TOTAL),
            refusals: counter(&catalog::NET_REFUSALS_TOTAL),
            replayed: counter(&catalog::NET_REPLAYED_BATCHES_TOTAL),
        }
    }

    /// An event message that was not taken in. Rare, so it is looked up each time.
    pub(crate) fn refused_event(&self, reason: &str) {
        self.registry
            .counter(&catalog::NET_EVENTS_REFUSED_TOTAL, &[reason])
            .inc();
    }
}
