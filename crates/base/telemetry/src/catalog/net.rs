//! What a frontend reports about workers on other machines.

use super::{Metric, Stage, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Network",
    about: "How a frontend reaches workers in other processes, and what it refused to believe.",
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
        "Attached workers that fell silent, broke the connection or left.",
    );
    NET_REFUSALS_TOTAL = Metric::counter(
        "homing_net_refusals_total",
        &[],
        "Attempts to attach that failed because frontend and worker do not fit each other.",
    );
    NET_EVENTS_REFUSED_TOTAL = Metric::counter(
        "homing_net_events_refused_total",
        &["reason"],
        "Event messages that were not taken in: `malformed`, `other_worker`, `other_epoch`, `empty` or `uneven`.",
    );
    NET_REPLAYED_BATCHES_TOTAL = Metric::counter(
        "homing_net_replayed_batches_total",
        &[],
        "Batches of cache events that were missed and asked for again (ZeroMQ).",
    );
}
