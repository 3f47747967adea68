//! Batches over the network: many answers of one request on one connection to each worker.

use serde_json::json;

use crate::client::{get, post};
use crate::system::{MODEL, Process, until_workers};

/// Every token is a message of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_batch_breaks_no_connection() {
    let (one, two) = (Process::worker(&[]), Process::worker(&[]));
    let workers = format!("{},{}", one.address, two.address);
    let frontend = Process::frontend(&["--workers", &workers]);
    until_workers(&frontend, 2).await;
    let prompts: Vec<String> = (0..128).map(|number| format!("Prompt {number}")).collect();
    let body = json!({
        "model": MODEL, "prompt": prompts, "max_tokens": 1000, "ignore_eos": true,
    });
    let answer = post(&format!("{}/v1/completions", frontend.address), &body).await;
    assert_eq!(answer["usage"]["completion_tokens"], 128_000, "{answer}");
    let metrics = get(&format!("{}/metrics", frontend.address)).await;
    let lost = metrics
        .lines()
        .filter(|line| line.starts_with("homing_net_connection_losses_total"))
        .find(|line| !line.ends_with(" 0"));
    assert_eq!(lost, None);
}
