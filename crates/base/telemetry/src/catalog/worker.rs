//! What each worker reports under the names of Dynamo's workers, and its GPU under those of
//! NVIDIA's DCGM exporter.

use super::{Metric, Stage, buckets, metrics};

pub(super) const STAGE: Stage = Stage {
    title: "Worker",
    about: "One series per worker, under the names that Dynamo's workers and NVIDIA's DCGM \
            exporter use. A simulated GPU says so in its label `simulated`.",
    metrics: ALL,
};

const WORKER: &[&str] = &[
    "dynamo_namespace",
    "dynamo_component",
    "dynamo_endpoint",
    "worker_id",
    "model",
];

const WORKER_AND_ERROR: &[&str] = &[
    "dynamo_namespace",
    "dynamo_component",
    "dynamo_endpoint",
    "worker_id",
    "model",
    "error_type",
];

const GPU: &[&str] = &[
    "gpu",
    "UUID",
    "device",
    "model_name",
    "Hostname",
    "worker_id",
    "simulated",
];

metrics! {
    COMPONENT_INFLIGHT_REQUESTS = Metric::gauge(
        "dynamo_component_inflight_requests",
        WORKER,
        "Requests that the worker has accepted and not yet ended.",
    );
    COMPONENT_REQUESTS_TOTAL = Metric::counter(
        "dynamo_component_requests_total",
        WORKER,
        "Requests that the worker has accepted.",
    );
    COMPONENT_REQUEST_DURATION_SECONDS = Metric::histogram(
        "dynamo_component_request_duration_seconds",
        WORKER,
        buckets::REQUEST_DURATION,
        "From a request's arrival at the worker to its end.",
    );
    COMPONENT_ERRORS_TOTAL = Metric::counter(
        "dynamo_component_errors_total",
        WORKER_AND_ERROR,
        "Requests that the worker refused or failed.",
    );
    COMPONENT_UPTIME_SECONDS = Metric::gauge(
        "dynamo_component_uptime_seconds",
        WORKER,
        "Time since the worker started.",
    );
    COMPONENT_KVSTATS_ACTIVE_BLOCKS = Metric::gauge(
        "dynamo_component_kvstats_active_blocks",
        WORKER,
        "KV blocks that running requests use.",
    );
    COMPONENT_KVSTATS_TOTAL_BLOCKS = Metric::gauge(
        "dynamo_component_kvstats_total_blocks",
        WORKER,
        "KV blocks of the worker.",
    );
    COMPONENT_KVSTATS_GPU_CACHE_USAGE_PERCENT = Metric::gauge(
        "dynamo_component_kvstats_gpu_cache_usage_percent",
        WORKER,
        "Share of the KV blocks in use, from 0 to 1 as Dynamo reports it.",
    );
    COMPONENT_KVSTATS_GPU_PREFIX_CACHE_HIT_RATE = Metric::gauge(
        "dynamo_component_kvstats_gpu_prefix_cache_hit_rate",
        WORKER,
        "Share of prompt tokens found in the KV cache since the start, from 0 to 1.",
    );
    COMPONENT_KV_CACHE_EVENTS_APPLIED = Metric::untyped(
        "dynamo_component_kv_cache_events_applied",
        &["status", "event_type", "worker_id"],
        "KV events of the worker that the router has processed (a counter).",
    );
    WORKER_SIMULATED = Metric::gauge(
        "homing_worker_simulated",
        &["worker_id"],
        "1 if the worker's engine is a simulation, else 0.",
    );
    GPU_UTIL = Metric::gauge(
        "DCGM_FI_DEV_GPU_UTIL",
        GPU,
        "Share of time that the GPU computes, in percent.",
    );
    GPU_FB_USED = Metric::gauge("DCGM_FI_DEV_FB_USED", GPU, "GPU memory in use, in MiB.");
    GPU_FB_FREE = Metric::gauge("DCGM_FI_DEV_FB_FREE", GPU, "GPU memory free, in MiB.");
}
