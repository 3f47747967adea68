//! Starts the export of spans, if a collector is named.

use contract::Clock;
use otlp::{Exporter, ExporterMetrics};
use spans::Tracer;
use tasks::Tasks;
use telemetry::Registry;

use crate::plan::{TracingPlan, draw_id};

/// What records spans. They are sent on `tasks`, the last of them after these were told to stop.
pub(crate) fn start(
    plan: Option<TracingPlan>,
    clock: Clock,
    registry: &Registry,
    tasks: &Tasks,
) -> Tracer {
    let Some(plan) = plan else {
        return Tracer::off();
    };
    let (tracer, finished) = Tracer::new(plan.ratio, draw_id(), clock, registry);
    let metrics = ExporterMetrics::new(registry);
    let exporter = Exporter::new(plan.collector, plan.resource, clock, metrics);
    tasks.spawn(exporter.run(finished, tasks.stop.clone()));
    tracer
}
