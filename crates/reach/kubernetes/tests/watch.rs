//! The watch against a server that misbehaves.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::time::Duration;

use kubernetes::{
    Api, Config, EndpointSlice, KubeConfigOptions, Kubeconfig, Objects, Selection, follow,
};
use serde_json::{Value, json};
use tasks::Tasks;
use test_servers::kubernetes::StandIn;
use tokio::sync::mpsc;

/// Far beyond any pause: what has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

fn v4(ips: &[&str]) -> Value {
    let endpoints = ips.iter().map(|ip| json!({ "addresses": [ip] }));
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": { "name": "worker-x7k2p", "namespace": "homing", "labels": { "app": "worker" } },
        "addressType": "IPv4",
        "ports": [],
        "endpoints": endpoints.collect::<Vec<_>>()
    })
}

fn addresses(slices: &Objects<EndpointSlice>) -> BTreeSet<String> {
    let endpoints = slices.values().flat_map(|slice| &slice.endpoints);
    endpoints
        .flat_map(|endpoint| endpoint.addresses.clone())
        .collect()
}

/// What is discovered at a server, until it is dropped.
struct Discovered {
    sets: mpsc::Receiver<BTreeSet<String>>,
    _stop: tokio_util::sync::DropGuard,
}

impl Discovered {
    fn of(config: Config) -> Self {
        let tasks = Tasks::new();
        let client = kubernetes::client(config).unwrap();
        let namespace = client.default_namespace().to_owned();
        let selection = Selection {
            api: Api::namespaced(client, &namespace),
            labels: "app=worker".to_owned(),
            what: "workers".to_owned(),
        };
        let sets = follow(selection, addresses, &tasks);
        let _stop = tasks.stop.drop_guard();
        Self { sets, _stop }
    }

    fn at(server: &StandIn) -> Self {
        Self::of(Config::new(server.url().parse().unwrap()))
    }

    /// Waits until these are the addresses.
    async fn settle_on(&mut self, ips: &[&str]) {
        let expected: BTreeSet<String> = ips.iter().map(|&ip| ip.to_owned()).collect();
        let seen = async { while self.sets.recv().await.expect("the watcher runs") != expected {} };
        tokio::time::timeout(PATIENCE, seen).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_that_ends_is_followed_by_a_list() {
    let server = StandIn::start();
    server.put(v4(&["10.0.0.1"]));
    let mut discovered = Discovered::at(&server);
    discovered.settle_on(&["10.0.0.1"]).await;
    // Nobody is told of these changes: only another list shows them.
    server.put_unseen(v4(&["10.0.0.2"]));
    server.end_watches();
    discovered.settle_on(&["10.0.0.2"]).await;
    server.put_unseen(v4(&["10.0.0.3"]));
    server.expire();
    discovered.settle_on(&["10.0.0.3"]).await;
    server.put(v4(&["10.0.0.4"]));
    discovered.settle_on(&["10.0.0.4"]).await;
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again() {
    let mut server = StandIn::start();
    server.put(v4(&["10.0.0.1"]));
    let mut discovered = Discovered::at(&server);
    discovered.settle_on(&["10.0.0.1"]).await;
    server.stop().await;
    let turned_away = server.turn_away();
    tokio::time::timeout(PATIENCE, turned_away).await.unwrap();
    server.put(v4(&["10.0.0.2"]));
    server.resume();
    discovered.settle_on(&["10.0.0.2"]).await;
    server.put(v4(&["10.0.0.3"]));
    discovered.settle_on(&["10.0.0.3"]).await;
}

#[tokio::test]
async fn an_account_that_gets_its_rights_later_sees_then() {
    let server = StandIn::start();
    server.put(v4(&["10.0.0.1"]));
    server.forbid(true);
    let mut discovered = Discovered::at(&server);
    let refused = async {
        while server.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    assert!(discovered.sets.is_empty(), "a refusal is no empty set");
    server.forbid(false);
    discovered.settle_on(&["10.0.0.1"]).await;
}

#[tokio::test]
async fn a_kubeconfig_names_server_authority_token_and_namespace() {
    let (server, authority) = StandIn::start_with_tls("sesame");
    server.put(v4(&["10.0.0.1"]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    std::fs::write(&path, authority).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "c",
            "cluster": { "server": server.url(), "certificate-authority": path },
        }],
        "users": [{ "name": "u", "user": { "token": "sesame" } }],
        "contexts": [{
            "name": "x",
            "context": { "cluster": "c", "user": "u", "namespace": "homing" },
        }],
        "current-context": "x",
    });
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut discovered = Discovered::of(config.unwrap());
    discovered.settle_on(&["10.0.0.1"]).await;
    assert_eq!(server.asked()[0], "list homing endpointslices app=worker");
}
