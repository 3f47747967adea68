//! Workers and frontends that do not fit each other.

use crate::client::get;
use crate::system::{Process, metric, until_workers, workers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_other_blocks_is_refused_and_the_others_serve() {
    let fits = Process::worker(&[]);
    let other = Process::worker(&["--kv-cache-block-size", "16"]);
    let list = format!("{},{}", fits.address, other.address);
    let frontend = Process::frontend(&["--workers", &list]);
    until_workers(&frontend, 1).await;
    for _ in 0..50 {
        if metric(&frontend, "homing_net_refusals_total").await > 0.0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(metric(&frontend, "homing_net_refusals_total").await > 0.0);
    assert_eq!(workers(&frontend).await.len(), 1);
    let health = get(&format!("{}/health", frontend.address)).await;
    assert!(health.contains("healthy"), "{health}");
}
