//! Workers that register in etcd. Their keys vanish with their leases.

use etcd::{Etcd, Watch};

use crate::directory::Update;

/// Everything that Dynamo registers is under it.
const PREFIX: &[u8] = b"v1/";

#[derive(Debug)]
pub(super) struct EtcdRegistry {
    watch: Watch,
}

impl EtcdRegistry {
    pub(super) fn new(etcd: &Etcd) -> Self {
        Self {
            watch: etcd.watch_prefix(PREFIX),
        }
    }

    pub(super) async fn next(&mut self) -> Update {
        match self.watch.next().await {
            etcd::Update::Snapshot(pairs) => {
                let pairs = pairs.into_iter();
                Update::Snapshot(pairs.map(|pair| (text(&pair.key), pair.value)).collect())
            }
            etcd::Update::Put(pair) => Update::Put(text(&pair.key), pair.value),
            etcd::Update::Deleted(key) => Update::Deleted(text(&key)),
        }
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}
