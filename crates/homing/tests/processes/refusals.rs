//! Workers and frontends that do not fit each other, and machines that lack what an engine needs.

use std::path::Path;
use std::process::Command;

use crate::client::get;
use crate::system::{PROGRAM, Process, until_metric_exceeds, until_workers, workers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_other_blocks_is_refused_and_the_others_serve() {
    let fits = Process::worker(&[]);
    let other = Process::worker(&["--kv-cache-block-size", "16"]);
    let list = format!("{},{}", fits.address, other.address);
    let frontend = Process::frontend(&["--workers", &list]);
    until_workers(&frontend, 1).await;
    until_metric_exceeds(&frontend, "homing_net_refusals_total", 0.0).await;
    assert_eq!(workers(&frontend).await.len(), 1);
    let health = get(&format!("{}/health", frontend.address)).await;
    assert!(health.contains("healthy"), "{health}");
}

#[test]
fn a_machine_without_a_gpu_is_told_so_in_one_line() {
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/llama/tests/golden/llama-gqa");
    let ended = Command::new(PROGRAM)
        .args(["demo", "--engine", "cuda", "--no-load"])
        .args(["--http-port", "0", "--console-port", "0", "--model-path"])
        .arg(model)
        // The driver of a machine that has a GPU hides it.
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .output()
        .expect("the program starts");
    assert!(!ended.status.success(), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    let refusals = said.lines().filter(|line| line.contains("--engine cuda: "));
    assert_eq!(refusals.count(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
