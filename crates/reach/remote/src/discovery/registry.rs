//! etcd as a registry: workers write their registration under a lease, frontends watch.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::WorkerId;
use etcd::{Etcd, KeyValue, Update};
use tasks::Tasks;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::Addresses;
use crate::registration::Registration;

/// How long to wait before registering is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// A withdrawal that takes longer is left to the lease.
const FAREWELL: Duration = Duration::from_secs(1);

fn prefix(cluster: &str) -> String {
    format!("homing/{cluster}/workers/")
}

/// Where a worker's registration is.
pub fn key(cluster: &str, worker: WorkerId) -> String {
    format!("{}{:016x}", prefix(cluster), worker.0)
}

/// Addresses of the workers that are registered, as they come and go.
pub fn etcd(etcd: &Etcd, cluster: &str, tasks: &Tasks) -> mpsc::Receiver<Addresses> {
    let (sender, receiver) = mpsc::channel(1);
    let mut watch = etcd.watch_prefix(prefix(cluster).as_bytes());
    tasks.spawn_until_stop(async move {
        let mut known = Registrations::default();
        loop {
            known.update(watch.next().await);
            if sender.send(known.addresses()).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// What is under the prefix.
#[derive(Debug, Default)]
struct Registrations {
    by_key: BTreeMap<Vec<u8>, String>,
}

impl Registrations {
    fn update(&mut self, update: Update) {
        match update {
            Update::Snapshot(pairs) => {
                self.by_key.clear();
                for pair in pairs {
                    self.put(pair);
                }
            }
            Update::Put(pair) => self.put(pair),
            Update::Deleted(key) => {
                self.by_key.remove(&key);
            }
        }
    }

    fn put(&mut self, pair: KeyValue) {
        let text = String::from_utf8_lossy(&pair.value);
        match Registration::from_json(&text) {
            Ok(registration) => {
                self.by_key.insert(pair.key, registration.address);
            }
            Err(error) => {
                let key = String::from_utf8_lossy(&pair.key);
                warn!(%key, %error, "not a registration");
                self.by_key.remove(&pair.key);
            }
        }
    }

    fn addresses(&self) -> Addresses {
        self.by_key.values().cloned().collect()
    }
}

/// A registration that keeps itself in etcd.
#[derive(Debug)]
pub struct Registered {
    withdraw: CancellationToken,
    done: CancellationToken,
}

impl Registered {
    /// Registers, and again whenever the lease was lost, until it is withdrawn. etcd need not
    /// be there yet.
    pub fn open(etcd: Etcd, key: String, text: String, ttl: Duration, tasks: &TaskTracker) -> Self {
        let (withdraw, done) = (CancellationToken::new(), CancellationToken::new());
        let registered = Self {
            withdraw: withdraw.clone(),
            done: done.clone(),
        };
        let own = tasks.clone();
        tasks.spawn(async move {
            let _done = done.drop_guard();
            let mut complained = false;
            loop {
                let attempt = register(&etcd, &key, &text, ttl, &own);
                let Some(lease) = withdraw.run_until_cancelled(attempt).await else {
                    return;
                };
                match lease {
                    Ok(lease) => {
                        info!(key, "registered");
                        complained = false;
                        if withdraw.run_until_cancelled(lease.lost()).await.is_none() {
                            // Its lease takes the key along.
                            lease.close().await;
                            return;
                        }
                        warn!(key, "the registration was lost; registering again");
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut complained, true) {
                            warn!(key, %error, "cannot register; retrying");
                        }
                        let pause = tokio::time::sleep(PAUSE);
                        withdraw.run_until_cancelled(pause).await;
                    }
                }
            }
        });
        registered
    }

    /// Takes the registration back, so that nobody new comes.
    pub async fn withdraw(self) {
        self.withdraw.cancel();
        let _ = tokio::time::timeout(FAREWELL, self.done.cancelled()).await;
    }
}

async fn register(
    etcd: &Etcd,
    key: &str,
    text: &str,
    ttl: Duration,
    tasks: &TaskTracker,
) -> Result<etcd::Lease, etcd::Error> {
    let lease = etcd.lease(ttl, tasks).await?;
    etcd.put(key.as_bytes(), text.as_bytes(), Some(lease.id()))
        .await?;
    Ok(lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::tests::registration;

    fn pair(key: &str, text: &str) -> KeyValue {
        KeyValue {
            key: key.as_bytes().to_vec(),
            value: text.as_bytes().to_vec(),
            lease: None,
        }
    }

    #[test]
    fn what_is_registered_is_known_until_it_is_deleted() {
        let mut known = Registrations::default();
        let text = registration().to_json();
        known.update(Update::Snapshot(vec![
            pair("a", &text),
            pair("b", "nonsense"),
        ]));
        let address = registration().address;
        assert_eq!(known.addresses(), Addresses::from([address.clone()]));
        let other = Registration {
            address: "http://127.0.0.1:7009".to_owned(),
            ..registration()
        };
        known.update(Update::Put(pair("b", &other.to_json())));
        assert_eq!(known.addresses().len(), 2);
        known.update(Update::Deleted(b"a".to_vec()));
        assert_eq!(known.addresses(), Addresses::from([other.address]));
        known.update(Update::Snapshot(vec![]));
        assert_eq!(known.addresses(), Addresses::new());
    }
}
