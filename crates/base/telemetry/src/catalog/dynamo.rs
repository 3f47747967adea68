//! What a frontend reports about Dynamo's workers.

use super::{Metric, Stage, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Dynamo",
    about: "Dynamo's workers behind the router (`--discovery dynamo-…`): what they sent that could not be used.",
    metrics: ALL,
};

metrics! {
    DYNAMO_REFUSED_STREAMS_TOTAL = Metric::counter(
        "homing_dynamo_refused_streams_total",
        &[],
        "Connections to the response port that answered no request of this frontend.",
    );
    DYNAMO_UNREADABLE_REGISTRATIONS_TOTAL = Metric::counter(
        "homing_dynamo_unreadable_registrations_total",
        &[],
        "Values in the registry that could not be read; the log names the key.",
    );
    DYNAMO_UNREADABLE_EVENTS_TOTAL = Metric::counter(
        "homing_dynamo_unreadable_events_total",
        &[],
        "Messages with cache events that could not be read.",
    );
    DYNAMO_UNKNOWN_WORKER_EVENTS_TOTAL = Metric::counter(
        "homing_dynamo_unknown_worker_events_total",
        &[],
        "Cache events of workers that have not joined.",
    );
    DYNAMO_ORPHANED_BLOCKS_TOTAL = Metric::counter(
        "homing_dynamo_orphaned_blocks_total",
        &[],
        "Stored blocks that the router's index lacks because the block before them is unknown.",
    );
    DYNAMO_SNAPSHOTS_TOTAL = Metric::counter(
        "homing_dynamo_snapshots_total",
        &[],
        "Times a worker was asked for everything that it holds, at the start and after lost events.",
    );
    DYNAMO_EVENT_CHANNELS = Metric::gauge(
        "homing_dynamo_event_channels",
        &[],
        "Publishers of cache events that the frontend listens to.",
    );
}
