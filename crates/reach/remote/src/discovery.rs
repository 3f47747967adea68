//! Where workers are: a list, etcd, or Kubernetes.
//!
//! Discovery says addresses and nothing else. What is behind an address says by itself what it
//! is when a frontend attaches ([`crate::connect`]), so a stale entry costs a failed attempt
//! and never a wrong belief. An address that discovery forgets is not tried again, but a
//! worker that is attached stays until its connection ends: a discovery service that is down
//! takes nothing down with it.

mod kubernetes;
mod registry;

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::{mpsc, watch};

pub use self::kubernetes::{KubernetesError, KubernetesSettings, kubernetes};
pub use self::registry::{Registered, etcd, key};
use crate::connect::Connector;

/// Addresses at which there are workers, as known now.
pub type Addresses = BTreeSet<String>;

/// Keeps a connection to every address of the latest set that arrives.
pub fn follow(connector: Connector, mut sets: mpsc::Receiver<Addresses>) {
    let tasks = connector.tasks().clone();
    tasks.spawn_until_stop(async move {
        let mut kept: BTreeMap<String, watch::Sender<bool>> = BTreeMap::new();
        while let Some(addresses) = sets.recv().await {
            kept.retain(|address, listed| {
                listed.send_replace(addresses.contains(address));
                // A keeper that has ended has dropped its end.
                !listed.is_closed()
            });
            for address in addresses {
                kept.entry(address.clone()).or_insert_with(|| {
                    let (listed, listening) = watch::channel(true);
                    connector.keep(address, listening);
                    listed
                });
            }
        }
        // Discovery has ended; what is attached stays.
        std::future::pending::<()>().await;
    });
}

/// A set that never changes.
pub fn list(addresses: Addresses) -> mpsc::Receiver<Addresses> {
    let (sender, receiver) = mpsc::channel(1);
    // The channel has room for one.
    let _ = sender.try_send(addresses);
    receiver
}
