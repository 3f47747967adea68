//! What a frontend reports about workers on other machines.

use super::{Metric, Stage, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Network",
    about: "Connections of a frontend to workers in other processes, and messages that it rejected.",
    metrics: ALL,
};

metrics! {
    NET_CONNECTIONS_TOTAL = Metric::counter(
        "homing_net_connections_total",
        &[],
        "Workers on other machines that this frontend has attached to, again after each loss.",
    );
    NET_CONNECTION_LOSSES_TOTAL = Metric::counter(
        "homing_net_connection_losses_total",
        &[],
        "Attached workers that stopped responding, lost the connection or left.",
    );
    NET_REFUSALS_TOTAL = Metric::counter(
        "homing_net_refusals_total",
        &[],
        "Attempts to attach that failed because frontend and worker are incompatible.",
    );
    NET_EVENTS_REFUSED_TOTAL = Metric::counter(
        "homing_net_events_refused_total",
        &["reason"],
        "Event messages that were rejected: `malformed`, `other_worker`, `other_epoch`, `empty` or `uneven`.",
    );
    NET_REPLAYED_BATCHES_TOTAL = Metric::counter(
        "homing_net_replayed_batches_total",
        &[],
        "Batches of cache events that were missed and requested again (ZeroMQ).",
    );
    NET_PEERS = Metric::gauge(
        "homing_net_peers",
        &[],
        "Other frontends with which this one divides the slots of engines, as heard of lately.",
    );
}
