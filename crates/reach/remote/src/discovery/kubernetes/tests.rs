//! The table of what slices mean, and pods that come and go at a server.

use kubernetes::Config;
use serde_json::{Value, json};
use std::time::Duration;
use test_servers::kubernetes::StandIn;

use super::*;
use tasks::Tasks;

/// Far beyond any pause: what has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);

fn slice(family: &str, ports: Value, endpoints: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "homing-worker-x7k2p",
            "namespace": "homing",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "homing-worker",
                "service.kubernetes.io/headless": ""
            }
        },
        "addressType": family,
        "ports": ports,
        "endpoints": endpoints
    })
}

fn named(mut slice: Value, name: &str) -> Value {
    slice["metadata"]["name"] = json!(name);
    slice
}

fn grpc() -> Value {
    json!([{ "name": "grpc", "protocol": "TCP", "port": 7000 }])
}

fn ready(ip: &str) -> Value {
    let pod = json!({ "kind": "Pod", "namespace": "homing", "name": "homing-worker-0" });
    let conditions = json!({ "ready": true, "serving": true, "terminating": false });
    json!({ "addresses": [ip], "conditions": conditions, "nodeName": "node-1", "targetRef": pod })
}

fn in_condition(ip: &str, conditions: Value) -> Value {
    json!({ "addresses": [ip], "conditions": conditions })
}

fn v4(ips: &[&str]) -> Value {
    let endpoints = ips.iter().map(|ip| ready(ip)).collect();
    slice("IPv4", grpc(), Value::Array(endpoints))
}

#[track_caller]
fn check(slices: &[Value], expected: &[&str]) {
    let slices: Vec<EndpointSlice> = slices
        .iter()
        .map(|slice| serde_json::from_value(slice.clone()).unwrap())
        .collect();
    let expected: Addresses = expected.iter().map(|&address| address.to_owned()).collect();
    assert_eq!(addresses(slices.iter(), "http"), expected);
}

#[test]
fn those_who_are_ready_and_stay_are_listed() {
    let conditions = json!([
        ready("10.0.0.1"),
        { "addresses": ["10.0.0.2"] },
        in_condition("10.0.0.3", json!({})),
        in_condition("10.0.0.4", json!({ "ready": null, "terminating": null })),
        in_condition("10.0.0.5", json!({ "ready": false, "serving": false, "terminating": false })),
        in_condition("10.0.0.6", json!({ "ready": false, "serving": true, "terminating": true })),
        // As a Service says that publishes pods that are not ready.
        in_condition("10.0.0.7", json!({ "ready": true, "serving": true, "terminating": true })),
    ]);
    check(
        &[slice("IPv4", grpc(), conditions)],
        &[
            "http://10.0.0.1:7000",
            "http://10.0.0.2:7000",
            "http://10.0.0.3:7000",
            "http://10.0.0.4:7000",
        ],
    );
}

#[test]
fn slices_are_joined() {
    check(&[], &[]);
    check(&[slice("IPv4", Value::Null, Value::Null)], &[]);
    let several = [v4(&["10.0.0.1", "10.0.0.2"]), v4(&["10.0.0.3", "10.0.0.1"])];
    check(
        &several,
        &[
            "http://10.0.0.1:7000",
            "http://10.0.0.2:7000",
            "http://10.0.0.3:7000",
        ],
    );
    // Pods of two generations may listen on different ports.
    let other = json!([{ "name": "grpc", "port": 7001 }]);
    check(
        &[
            v4(&["10.0.0.1"]),
            slice("IPv4", other, json!([ready("10.0.0.2")])),
        ],
        &["http://10.0.0.1:7000", "http://10.0.0.2:7001"],
    );
}

#[test]
fn the_port_is_the_named_one_or_the_only_one() {
    let check = |ports: Value, expected: &[&str]| {
        check(
            &[slice("IPv4", ports, json!([ready("10.0.0.1")]))],
            expected,
        );
    };
    let metrics = json!({ "name": "metrics", "port": 9090 });
    check(
        json!([metrics, { "name": "grpc", "port": 7000 }]),
        &["http://10.0.0.1:7000"],
    );
    check(
        json!([{ "name": "", "port": 7000 }]),
        &["http://10.0.0.1:7000"],
    );
    check(json!([{ "port": 7000 }]), &["http://10.0.0.1:7000"]);
    check(json!([metrics]), &["http://10.0.0.1:9090"]);
    check(json!([metrics, { "name": "rpc", "port": 7000 }]), &[]);
    check(json!([{ "name": "grpc", "port": null }]), &[]);
    check(json!([{ "name": "grpc", "port": 70000 }]), &[]);
    check(json!([]), &[]);
    check(Value::Null, &[]);
}

#[test]
fn of_two_families_the_older_is_used() {
    let v6 = slice("IPv6", grpc(), json!([ready("fd00::1"), ready("fd00::2")]));
    check(
        std::slice::from_ref(&v6),
        &["http://[fd00::1]:7000", "http://[fd00::2]:7000"],
    );
    check(&[v6.clone(), v4(&["10.0.0.1"])], &["http://10.0.0.1:7000"]);
    // That nobody is ready does not move anybody to the other family.
    check(&[v6, v4(&[])], &[]);
    let names = slice("FQDN", grpc(), json!([ready("worker.example")]));
    check(&[names], &[]);
}

#[test]
fn a_worker_with_tls_is_at_https() {
    let slice: EndpointSlice = serde_json::from_value(v4(&["10.0.0.1"])).unwrap();
    let expected = Addresses::from(["https://10.0.0.1:7000".to_owned()]);
    assert_eq!(addresses([slice].iter(), "https"), expected);
}

fn settings() -> KubernetesSettings {
    KubernetesSettings {
        service: "homing-worker".to_owned(),
        namespace: Some("homing".to_owned()),
        tls: false,
    }
}

/// What is discovered at a server, until it is dropped.
struct Discovered {
    sets: mpsc::Receiver<Addresses>,
    tasks: Tasks,
}

impl Discovered {
    fn of(config: Config, settings: KubernetesSettings) -> Self {
        let tasks = Tasks::new();
        let client = kubernetes::client(config).unwrap();
        let sets = open(client, settings, &tasks);
        Self { sets, tasks }
    }

    fn at(server: &StandIn) -> Self {
        Self::of(Config::new(server.url().parse().unwrap()), settings())
    }

    /// Waits until these are the addresses.
    #[track_caller]
    fn settle_on(&mut self, ips: &[&str]) -> impl Future<Output = ()> {
        let expected: Addresses = ips.iter().map(|ip| format!("http://{ip}:7000")).collect();
        let seen = async move {
            loop {
                let set = self.sets.recv().await.expect("the watcher runs");
                if set == expected {
                    return;
                }
            }
        };
        async { tokio::time::timeout(PATIENCE, seen).await.unwrap() }
    }
}

#[tokio::test]
async fn pods_come_and_go() {
    let server = StandIn::start();
    server.put(v4(&["10.0.0.1"]));
    let mut foreign = named(v4(&["10.9.9.9"]), "other-abcde");
    foreign["metadata"]["labels"]["kubernetes.io/service-name"] = json!("other");
    server.put(foreign);
    let mut discovered = Discovered::at(&server);
    discovered.settle_on(&["10.0.0.1"]).await;
    server.put(v4(&["10.0.0.1", "10.0.0.2"]));
    discovered.settle_on(&["10.0.0.1", "10.0.0.2"]).await;
    server.put(named(v4(&["10.0.0.3"]), "homing-worker-9fq4z"));
    discovered
        .settle_on(&["10.0.0.1", "10.0.0.2", "10.0.0.3"])
        .await;
    server.bookmark();
    server.delete("endpointslices", "homing-worker-x7k2p");
    discovered.settle_on(&["10.0.0.3"]).await;
    assert_eq!(
        server.asked(),
        [
            "list homing endpointslices kubernetes.io/service-name=homing-worker",
            "watch homing endpointslices kubernetes.io/service-name=homing-worker from 2"
        ],
    );
    discovered.tasks.finish().await;
}
