//! Starts what records requests: spans for a collector, and lines of a request trace.

use contract::Clock;
use otlp::{Exporter, ExporterMetrics};
use request_trace::{RecordFile, Recorder};
use spans::Tracer;
use tasks::Tasks;
use telemetry::Registry;

use crate::plan::{RequestTracePlan, SpansPlan, TracingPlan, draw_id};

/// Sends and writes on `tasks`, the last of it after these were told to stop.
pub(crate) async fn start(
    plan: TracingPlan,
    clock: Clock,
    registry: &Registry,
    tasks: &Tasks,
) -> anyhow::Result<(Tracer, Recorder)> {
    let tracer = match plan.spans {
        Some(plan) => tracer(plan, clock, registry, tasks),
        None => Tracer::off(),
    };
    let recorder = match plan.requests {
        Some(plan) => recorder(&plan, registry, tasks).await?,
        None => Recorder::off(),
    };
    Ok((tracer, recorder))
}

fn tracer(plan: SpansPlan, clock: Clock, registry: &Registry, tasks: &Tasks) -> Tracer {
    let (tracer, finished) = Tracer::new(plan.ratio, draw_id(), clock, registry);
    let metrics = ExporterMetrics::new(registry);
    let exporter = Exporter::new(plan.collector, plan.resource, clock, metrics);
    tasks.spawn(exporter.run(finished, tasks.stop.clone()));
    tracer
}

async fn recorder(
    plan: &RequestTracePlan,
    registry: &Registry,
    tasks: &Tasks,
) -> anyhow::Result<Recorder> {
    let (recorder, file) = RecordFile::open(&plan.path, plan.most_bytes, registry).await?;
    tasks.spawn(file.run(tasks.stop.clone()));
    Ok(recorder)
}
