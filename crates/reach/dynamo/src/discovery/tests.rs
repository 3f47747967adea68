//! What an operator sees of registrations that cannot be used.

use std::fs;
use std::time::Duration;

use contract::Clock;
use tasks::Tasks;
use transport::roster;

use crate::{Config, Registry};

#[tokio::test]
async fn a_registration_that_cannot_be_read_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = folder.path().join("v1/mdc");
    fs::create_dir_all(&bucket).unwrap();
    fs::write(bucket.join("broken"), "not a registration").unwrap();
    let (metrics, tasks) = (telemetry::Registry::new(), Tasks::new());
    let (roster, _changes) = roster();
    let config = Config {
        namespace: None,
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        nats: None,
        clock: Clock::start(),
    };
    let registry = Registry::Files(folder.path().to_owned());
    crate::start(config, registry, roster, &metrics, &tasks)
        .await
        .unwrap();
    let page = || metrics.render(Duration::ZERO);
    let counted = async {
        while !page().contains("homing_dynamo_unreadable_registrations_total 1\n") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), counted).await;
    assert!(waited.is_ok(), "{}", page());
    assert!(page().contains("homing_dynamo_event_channels 0\n"));
    tasks.finish().await;
}
