//! What objects and pods mean together, and both at a server.

use kubernetes::Config;
use serde_json::json;
use test_servers::kubernetes::StandIn;

use super::*;
use tasks::Tasks;

fn object(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoWorkerMetadata",
        "metadata": { "name": name, "namespace": "dynamo" },
        "spec": { "data": data }
    })
}

fn slice(pods: &[(&str, bool)]) -> Value {
    let endpoints = pods.iter().map(|(pod, ready)| {
        json!({
            "addresses": ["10.0.0.1"],
            "conditions": { "ready": ready },
            "targetRef": { "kind": "Pod", "name": pod }
        })
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": { "name": "workers-abcde", "namespace": "dynamo", "labels": {
            "nvidia.com/dynamo-discovery-backend": "kubernetes",
            "nvidia.com/dynamo-discovery-enabled": "true"
        } },
        "addressType": "IPv4",
        "ports": [],
        "endpoints": endpoints.collect::<Vec<_>>()
    })
}

fn data(worker: u32) -> Value {
    json!({ "endpoints": { "d/b/generate": worker }, "model_cards": { "d/b/generate": worker } })
}

/// What an object with this name says of a worker of this pod.
fn of_pod(pod: &str, name: &str, worker: u32) -> PodRegistrations {
    let pairs = ["endpoints", "model_cards"].map(|part| {
        let key = format!("{name}/{part}/d/b/generate");
        (key, worker.to_string().into_bytes())
    });
    PodRegistrations {
        pod: pod.to_owned(),
        pairs: pairs.to_vec(),
    }
}

fn told(workers: &[(&str, u32)]) -> Vec<PodRegistrations> {
    let workers = workers.iter();
    workers
        .map(|(name, worker)| of_pod(name, name, *worker))
        .collect()
}

/// Objects as the server gives them.
fn seen(objects: &[Value]) -> BTreeMap<String, Registered> {
    let objects = objects.iter().map(|object| {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        (object.name_any(), object)
    });
    registered(&objects.collect())
}

#[test]
fn an_object_counts_while_its_pod_is_ready() {
    let objects = seen(&[object("w-0", &data(0)), object("w-1", &data(1))]);
    let mut remembered = BTreeMap::new();
    let mut check = |ready: &[&str], expected: &[(&str, u32)]| {
        let ready = ready.iter().map(|&pod| pod.to_owned()).collect();
        let pods = joined(&ready, &objects, &mut remembered);
        assert_eq!(pods, told(expected));
    };
    check(&[], &[]);
    check(&["w-1", "other"], &[("w-1", 1)]);
    check(&["w-0", "w-1"], &[("w-0", 0), ("w-1", 1)]);
}

#[test]
fn an_object_of_a_container_belongs_to_the_pod_that_owns_it() {
    let mut owned = object("w-0-main", &data(7));
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Pod", "name": "w-0", "uid": "u" }]);
    let ready = BTreeSet::from(["w-0".to_owned()]);
    let pods = joined(&ready, &seen(&[owned]), &mut BTreeMap::new());
    assert_eq!(pods, [of_pod("w-0", "w-0-main", 7)]);
}

#[test]
fn an_object_that_is_empty_for_a_moment_means_what_it_said_before() {
    let ready = BTreeSet::from(["w-0".to_owned()]);
    let mut remembered = BTreeMap::new();
    let mut pods = |data: Value| joined(&ready, &seen(&[object("w-0", &data)]), &mut remembered);
    assert_eq!(pods(Value::Null), []);
    assert_eq!(pods(data(3)), told(&[("w-0", 3)]));
    assert_eq!(pods(Value::Null), told(&[("w-0", 3)]));
    // Gone and back, it is another one.
    joined(&ready, &BTreeMap::new(), &mut remembered);
    let empty = seen(&[object("w-0", &Value::Null)]);
    assert_eq!(joined(&ready, &empty, &mut remembered), []);
}

#[tokio::test]
async fn both_are_followed_at_the_server() {
    let server = StandIn::start();
    server.put(object("w-0", &data(0)));
    server.put(slice(&[("w-0", true), ("w-1", false)]));
    let client = kubernetes::client(Config::new(server.url().parse().unwrap())).unwrap();
    let tasks = Tasks::new();
    let mut pods = Pods::new(&client, "dynamo", &tasks);
    assert_eq!(pods.next().await, Update::Pods(told(&[("w-0", 0)])));
    server.put(object("w-1", &data(1)));
    server.put(slice(&[("w-0", true), ("w-1", true)]));
    assert_eq!(
        pods.next().await,
        Update::Pods(told(&[("w-0", 0), ("w-1", 1)]))
    );
    server.delete("dynamoworkermetadatas", "w-0");
    assert_eq!(pods.next().await, Update::Pods(told(&[("w-1", 1)])));
    server.put(slice(&[("w-1", false)]));
    assert_eq!(pods.next().await, Update::Pods(told(&[])));
    tasks.finish().await;
}
