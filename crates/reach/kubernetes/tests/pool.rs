//! An InferencePool and its pods, as they come, change and go.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::time::Duration;

use kubernetes::{Config, PoolMembers, PoolSettings, PoolWatch};
use serde_json::{Value, json};
use tasks::Tasks;
use test_servers::kubernetes::StandIn;

/// Far beyond any pause: what has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

fn pool(app: &str, ports: &[u16]) -> Value {
    let ports = ports.iter().map(|port| json!({ "number": port }));
    json!({
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": { "name": "llama", "namespace": "ai" },
        "spec": {
            "selector": { "matchLabels": { "app": app } },
            "targetPorts": ports.collect::<Vec<_>>(),
            "endpointPickerRef": { "name": "homing-epp", "port": { "number": 9002 } }
        }
    })
}

fn pod(name: &str, app: &str, ip: &str, ready: bool) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "ai", "labels": { "app": app } },
        "status": {
            "podIP": ip,
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }]
        }
    })
}

fn objective(name: &str, pool: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "llm-d.ai/v1alpha2",
        "kind": "InferenceObjective",
        "metadata": { "name": name, "namespace": "ai" },
        "spec": { "poolRef": { "name": pool }, "priority": priority }
    })
}

struct Watched {
    pool: PoolWatch,
    _stop: tokio_util::sync::DropGuard,
}

impl Watched {
    fn at(server: &StandIn) -> Self {
        let tasks = Tasks::new();
        let config = Config::new(server.url().parse().unwrap());
        let settings = PoolSettings {
            name: "llama".to_owned(),
            namespace: Some("ai".to_owned()),
        };
        let client = kubernetes::client(config).unwrap();
        let pool = PoolWatch::of(client, settings, &tasks);
        let _stop = tasks.stop.drop_guard();
        Self { pool, _stop }
    }

    /// Waits until these are the members.
    async fn settle_on(&mut self, hosts: &[&str], ports: &[u16]) {
        let expected = PoolMembers {
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            ports: ports.to_vec(),
        };
        let seen = async { while self.pool.members.recv().await.unwrap() != expected {} };
        tokio::time::timeout(PATIENCE, seen).await.unwrap();
    }
}

#[tokio::test]
async fn ready_pods_that_the_pool_selects_are_its_members() {
    let server = StandIn::start();
    server.put(pod("a", "llama", "10.0.0.1", true));
    server.put(pod("b", "llama", "10.0.0.2", false));
    server.put(pod("c", "other", "10.0.0.3", true));
    server.put(pool("llama", &[8000]));
    let mut watched = Watched::at(&server);
    watched.settle_on(&["10.0.0.1"], &[8000]).await;
    server.put(pod("b", "llama", "10.0.0.2", true));
    watched.settle_on(&["10.0.0.1", "10.0.0.2"], &[8000]).await;
    // One that is being deleted takes nothing new, although it is still ready.
    let mut leaving = pod("a", "llama", "10.0.0.1", true);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.put(leaving);
    watched.settle_on(&["10.0.0.2"], &[8000]).await;
    server.delete("pods", "b");
    watched.settle_on(&[], &[8000]).await;
}

#[tokio::test]
async fn a_pool_may_come_later_and_change_its_labels_and_ports() {
    let server = StandIn::start();
    server.put(pod("a", "llama", "10.0.0.1", true));
    server.put(pod("c", "other", "10.0.0.3", true));
    let mut watched = Watched::at(&server);
    let asked = async {
        while server.asked().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    server.put(pool("llama", &[8000]));
    watched.settle_on(&["10.0.0.1"], &[8000]).await;
    server.put(pool("llama", &[8000, 8001]));
    watched.settle_on(&["10.0.0.1"], &[8000, 8001]).await;
    server.put(pool("other", &[9000]));
    watched.settle_on(&["10.0.0.3"], &[9000]).await;
    // Without its pool nobody is sent away.
    server.delete("inferencepools", "llama");
    server.put(pod("d", "other", "10.0.0.4", true));
    watched.settle_on(&["10.0.0.3", "10.0.0.4"], &[9000]).await;
}

#[tokio::test]
async fn objectives_of_the_pool_have_priorities() {
    let server = StandIn::start();
    server.put(objective("urgent", "llama", 10));
    server.put(objective("elsewhere", "other", 7));
    let mut watched = Watched::at(&server);
    let expected = HashMap::from([("urgent".to_owned(), 10)]);
    let first = watched.pool.objectives.recv();
    let first = tokio::time::timeout(PATIENCE, first).await.unwrap();
    assert_eq!(first, Some(expected));
    server.put(objective("urgent", "llama", -1));
    let next = watched.pool.objectives.recv();
    let next = tokio::time::timeout(PATIENCE, next).await.unwrap().unwrap();
    assert_eq!(next["urgent"], -1);
}
