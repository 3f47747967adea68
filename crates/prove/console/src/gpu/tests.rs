//! Tables of what Prometheus says, and a stand-in for it on a paused clock.

use std::collections::BTreeMap;

use contract::{Abilities, BlockFormat, GpuSpec, ModelName, WorkerCard, WorkerId, WorkerStatus};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::matching::{apply, join};
use super::*;
use crate::prometheus::Series;
use crate::tests::bench;

fn worker(id: u64, name: &str, gpus: u32) -> WorkerState {
    let card = WorkerCard {
        id: WorkerId(id),
        name: name.to_owned(),
        model: ModelName::new("m"),
        blocks: BlockFormat {
            size: 32,
            hashing: contract::Hashing::default(),
        },
        total_blocks: 1000,
        slots: 64,
        max_step_tokens: 8192,
        max_context_tokens: 32_768,
        gpu: GpuSpec {
            kind: "GPU".to_owned(),
            count: gpus,
            memory_bytes: 100,
        },
        engine: "invented".to_owned(),
        simulated: true,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        adapters: Vec::new(),
        forwards: Vec::new(),
    };
    let status = WorkerStatus {
        utilization: 0.5,
        ..WorkerStatus::default()
    };
    WorkerState::new(&card, &status)
}

/// Labels as `name=value name=value`.
fn series(labels: &str, value: f64) -> Series {
    let labels = labels.split(' ').map(|label| {
        let (name, value) = label.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    });
    Series {
        labels: labels.collect(),
        value,
    }
}

/// The utilisation in percent that each worker is given.
#[track_caller]
fn check(workers: &[(&str, u32)], gpus: &[(&str, f64)], expected: &[Option<f64>]) {
    let numbered = workers.iter().zip(0..);
    let mut workers: Vec<WorkerState> = numbered
        .map(|((name, gpus), id)| worker(id, name, *gpus))
        .collect();
    let utilization = gpus.iter().map(|(labels, value)| series(labels, *value));
    let gpus = join(utilization.collect(), Vec::new(), Vec::new());
    apply(&gpus, &mut workers);
    let shown = workers.iter().map(|worker| worker.utilization);
    let shown: Vec<Option<f64>> = shown
        .map(|utilization| utilization.map(|share| (100.0 * share).round()))
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn gpus_find_their_workers() {
    let two = [("worker-0", 1), ("worker-1", 1)];
    // Ours, the exporter's on Kubernetes, and a host name.
    let ours = [
        ("Hostname=worker-1 gpu=0", 20.0),
        ("Hostname=worker-0 gpu=0", 10.0),
    ];
    check(&two, &ours, &[Some(10.0), Some(20.0)]);
    let pods = [
        ("Hostname=node-a gpu=0 exported_pod=llm-worker-1-x7", 20.0),
        ("Hostname=node-a gpu=1 exported_pod=llm-worker-0-p2", 10.0),
    ];
    check(&two, &pods, &[Some(10.0), Some(20.0)]);
    check(
        &two,
        &[("instance=worker-1:9400", 20.0)],
        &[None, Some(20.0)],
    );
    // A name that goes on is another's.
    let many = [("worker-1", 1), ("worker-10", 1)];
    let named = [("pod=worker-10", 90.0), ("pod=worker-1", 10.0)];
    check(&many, &named, &[Some(10.0), Some(90.0)]);
    check(
        &[("w", 1), ("w-1", 1)],
        &[("pod=w-1", 40.0)],
        &[None, Some(40.0)],
    );
    // Several GPUs of one worker.
    let both = [
        ("Hostname=worker-0 gpu=0", 10.0),
        ("Hostname=worker-0 gpu=1", 30.0),
    ];
    check(&[("worker-0", 2)], &both, &[Some(20.0)]);
}

#[test]
fn without_a_name_the_order_decides() {
    let nodes = [
        ("Hostname=b gpu=0 UUID=4", 50.0),
        ("Hostname=a gpu=10 UUID=3", 40.0),
        ("Hostname=a gpu=2 UUID=2", 20.0),
        ("Hostname=a gpu=1 UUID=1", 10.0),
    ];
    let workers = [("worker-0", 2), ("worker-1", 2)];
    check(&workers, &nodes, &[Some(15.0), Some(45.0)]);
    check(&workers, &[], &[None, None]);
    // Some of them are others'.
    check(&workers, &nodes[1..], &[None, None]);
    check(&workers[..1], &nodes, &[None]);
}

/// A worker that does not know its GPU.
fn engine(id: u64, name: &str) -> WorkerState {
    let mut engine = worker(id, name, 1);
    engine.gpu.kind.clear();
    engine.gpu.memory_bytes = 0;
    engine
}

/// What each engine is shown with: GPUs, utilisation and why there is none.
#[track_caller]
fn check_engines(names: &[&str], gpus: &[(&str, f64)], expected: &[&str]) {
    let numbered = names.iter().zip(0..);
    let mut workers: Vec<WorkerState> = numbered.map(|(name, id)| engine(id, name)).collect();
    let utilization = gpus.iter().map(|(labels, value)| series(labels, *value));
    apply(
        &join(utilization.collect(), Vec::new(), Vec::new()),
        &mut workers,
    );
    let shown = workers.iter().map(|worker| {
        let GpuSpec { kind, count, .. } = &worker.gpu;
        match (worker.utilization, &worker.unknown) {
            (Some(share), None) => format!("{count} x {kind}: {:.0}", 100.0 * share),
            (share, unknown) => format!("{count} x {kind}: {share:?} {unknown:?}"),
        }
    });
    assert_eq!(shown.collect::<Vec<String>>(), expected);
}

#[test]
fn pods_have_as_many_gpus_as_name_them() {
    let gpus = [
        (
            "gpu=0 UUID=0 modelName=H100 exported_pod=homing-engine-1",
            10.0,
        ),
        (
            "gpu=1 UUID=1 modelName=H100 exported_pod=homing-engine-1",
            30.0,
        ),
        (
            "gpu=2 UUID=2 modelName=H100 exported_pod=homing-engine-0",
            50.0,
        ),
        (
            "gpu=3 UUID=3 modelName=H100 exported_pod=homing-engine-0",
            70.0,
        ),
    ];
    let pods = ["homing-engine-0", "homing-engine-1"];
    check_engines(&pods, &gpus, &["2 x H100: 60", "2 x H100: 20"]);
    let third = [pods[0], pods[1], "homing-engine-10"];
    let none =
        r#"1 x : None Some("Prometheus knows 4 GPUs, with no label that names this worker")"#;
    check_engines(&third, &gpus, &["2 x H100: 60", "2 x H100: 20", none]);
}

#[test]
fn engines_that_no_label_names_are_not_guessed() {
    let gpus = [
        ("gpu=0 modelName=H200", 10.0),
        ("gpu=1 modelName=H200", 90.0),
    ];
    let none =
        r#"1 x : None Some("Prometheus knows 2 GPUs, with no label that names this worker")"#;
    check_engines(&["vllm-a:8000", "vllm-b:8000"], &gpus, &[none, none]);
    check_engines(&["vllm-a:8000"], &gpus, &[none]);
    check_engines(&["vllm-a:8000"], &gpus[..1], &["1 x H200: 10"]);
    check_engines(&["vllm-a:8000"], &[], &["1 x : None None"]);
}

#[test]
fn memory_is_the_fullest_gpus() {
    let mut workers = [worker(0, "worker-0", 2)];
    let of = |values: [f64; 2]| {
        let values = [("gpu=0", values[0]), ("gpu=1", values[1])];
        values.map(|(labels, value)| series(labels, value)).to_vec()
    };
    let gpus = join(of([10.0, 20.0]), of([300.0, 700.0]), of([500.0, 324.0]));
    apply(&gpus, &mut workers);
    assert_eq!(workers[0].memory_used_bytes, Some(700 << 20));
    assert_eq!(workers[0].gpu.memory_bytes, 1 << 30);
}

#[test]
fn only_an_address_of_a_server_is_taken() {
    for (url, is_taken) in [
        ("http://prometheus:9090", true),
        ("https://example.org/prometheus/", true),
        ("prometheus:9090", false),
        ("ftp://prometheus", false),
        ("http://user:word@prometheus", false),
        ("http://prometheus?x=1", false),
        ("", false),
    ] {
        assert_eq!(GpuFeed::new(url).is_ok(), is_taken, "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_prometheus_says_is_shown_and_its_absence_too() {
    use axum::extract::Query;
    let answer = async |Query(query): Query<BTreeMap<String, String>>| {
        let value = match query["query"].as_str() {
            "DCGM_FI_DEV_GPU_UTIL" => "80",
            "DCGM_FI_DEV_FB_USED" => "600",
            "DCGM_FI_DEV_FB_FREE" => "424",
            other => panic!("{other}"),
        };
        let row = json!({ "metric": { "pod": "worker-0" }, "value": [1.5, value] });
        axum::Json(json!({ "status": "success", "data": { "result": [row] } }))
    };
    let there = axum::Router::new().route("/prom/api/v1/query", axum::routing::get(answer));
    let tasks = tokio_util::task::TaskTracker::new();
    let closing = CancellationToken::new();
    for (routes, utilization, error) in [
        (there, Some(0.8), None),
        (axum::Router::new(), None, Some("status 404")),
    ] {
        let feed = GpuFeed::new("http://prometheus:9090/prom/").unwrap();
        let mut workers = [worker(0, "worker-0", 1)];
        let before = feed.show(&mut workers);
        assert!(matches!(before, GpuSource::Prometheus { error: None, .. }));
        assert_eq!(workers[0].utilization, None, "nothing is known yet");
        let transport = bench::transport(routes, &tasks);
        tasks.spawn(feed.clone().poll(transport, closing.clone()));
        tokio::time::sleep(std::time::Duration::from_secs(6)).await;
        let source = feed.show(&mut workers);
        let GpuSource::Prometheus { url, error: shown } = source else {
            panic!("{source:?}");
        };
        assert_eq!(url, "http://prometheus:9090/prom");
        assert_eq!(workers[0].utilization, utilization);
        assert_eq!(workers[0].memory_used_bytes, utilization.map(|_| 600 << 20));
        let shown = shown.as_deref().unwrap_or_default();
        assert!(shown.starts_with(error.unwrap_or_default()), "{shown}");
        assert_eq!(shown.is_empty(), error.is_none(), "{shown}");
    }
    closing.cancel();
}
