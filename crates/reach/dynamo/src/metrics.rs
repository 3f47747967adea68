//! What goes wrong without failing a request: events, registrations and connections that were
//! not accepted.

use telemetry::{Counter, Gauge, Registry, catalog};

#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) refused_streams: Counter,
    pub(crate) unreadable_registrations: Counter,
    pub(crate) unreadable_events: Counter,
    pub(crate) unknown_worker_events: Counter,
    pub(crate) orphaned_blocks: Counter,
    pub(crate) snapshots: Counter,
    pub(crate) event_channels: Gauge,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |metric| registry.counter(metric, &[]);
        Self {
            refused_streams: counter(&catalog::DYNAMO_REFUSED_STREAMS_TOTAL),
            unreadable_registrations: counter(&catalog::DYNAMO_UNREADABLE_REGISTRATIONS_TOTAL),
            unreadable_events: counter(&catalog::DYNAMO_UNREADABLE_EVENTS_TOTAL),
            unknown_worker_events: counter(&catalog::DYNAMO_UNKNOWN_WORKER_EVENTS_TOTAL),
            orphaned_blocks: counter(&catalog::DYNAMO_ORPHANED_BLOCKS_TOTAL),
            snapshots: counter(&catalog::DYNAMO_SNAPSHOTS_TOTAL),
            event_channels: registry.gauge(&catalog::DYNAMO_EVENT_CHANNELS, &[]),
        }
    }
}
