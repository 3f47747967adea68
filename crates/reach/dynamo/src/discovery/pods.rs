//! Workers that register at Kubernetes: each writes an object of its own, named like its pod,
//! with everything that elsewhere is under keys. It counts as long as its pod is ready.
//!
//! The objects are `DynamoWorkerMetadata` (`nvidia.com/v1alpha1`); which pods are ready is in the
//! EndpointSlices that Dynamo's operator labels.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::{
    Api, ApiResource, Client, DynamicObject, EndpointSlice, GroupVersionKind, Objects,
    ResourceExt as _, Selection, follow, is_ready,
};
use serde_json::Value;
use tasks::Tasks;
use tokio::sync::mpsc;

use crate::directory::{PodRegistrations, Update};

/// How Dynamo's operator labels the slices of its Services.
const SLICES: &str =
    "nvidia.com/dynamo-discovery-backend=kubernetes,nvidia.com/dynamo-discovery-enabled=true";
/// The parts of an object that we read; each maps names to values.
const PARTS: [&str; 4] = [
    "endpoints",
    "model_cards",
    "event_channels",
    "event_sources",
];

/// A registration by its key.
type Pairs = Vec<(String, Vec<u8>)>;

/// What one object says, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registered {
    pod: String,
    /// `None` while it is being written.
    pairs: Option<Pairs>,
}

#[derive(Debug)]
pub(super) struct Pods {
    ready: Latest<BTreeSet<String>>,
    registered: Latest<BTreeMap<String, Registered>>,
    /// The last content of each object, for the moments in which it has none.
    remembered: BTreeMap<String, Pairs>,
    returned: Option<Vec<PodRegistrations>>,
}

#[derive(Debug)]
struct Latest<T> {
    values: mpsc::Receiver<T>,
    value: Option<T>,
}

impl Pods {
    pub(super) fn new(client: &Client, namespace: &str, tasks: &Tasks) -> Self {
        let slices = Selection {
            api: Api::namespaced(client.clone(), namespace),
            labels: SLICES.to_owned(),
            what: format!("pods of Dynamo in the namespace {namespace}"),
        };
        let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "DynamoWorkerMetadata");
        // Not the regular plural.
        let resource = ApiResource::from_gvk_with_plural(&kind, "dynamoworkermetadatas");
        let objects = Selection {
            api: Api::namespaced_with(client.clone(), namespace, &resource),
            labels: String::new(),
            what: format!("DynamoWorkerMetadata in the namespace {namespace}"),
        };
        Self {
            ready: Latest {
                values: follow(slices, ready, tasks),
                value: None,
            },
            registered: Latest {
                values: follow(objects, registered, tasks),
                value: None,
            },
            remembered: BTreeMap::new(),
            returned: None,
        }
    }

    /// Waits until something differs from what was returned last.
    pub(super) async fn next(&mut self) -> Update {
        loop {
            tokio::select! {
                Some(ready) = self.ready.values.recv() => self.ready.value = Some(ready),
                Some(registered) = self.registered.values.recv() => {
                    self.registered.value = Some(registered);
                }
                // Both have ended: the program stops.
                else => std::future::pending().await,
            }
            let (Some(ready), Some(registered)) = (&self.ready.value, &self.registered.value)
            else {
                continue;
            };
            let pods = joined(ready, registered, &mut self.remembered);
            if self.returned.as_ref() != Some(&pods) {
                self.returned = Some(pods.clone());
                return Update::Pods(pods);
            }
        }
    }
}

/// The names of the pods that are ready.
fn ready(slices: &Objects<EndpointSlice>) -> BTreeSet<String> {
    let endpoints = slices.values().flat_map(|slice| &slice.endpoints);
    let ready = endpoints.filter(|endpoint| is_ready(endpoint));
    ready
        .filter_map(|endpoint| endpoint.target_ref.as_ref()?.name.clone())
        .collect()
}

fn registered(objects: &Objects<DynamicObject>) -> BTreeMap<String, Registered> {
    let entries = objects.iter().map(|(name, object)| {
        // Where a pod has several containers, each has an object; their owner is the pod.
        let owners = object.owner_references();
        let owner = owners.iter().find(|owner| owner.kind == "Pod");
        let pod = owner.map_or(name, |owner| &owner.name).clone();
        let pairs = object.data.pointer("/spec/data").and_then(pairs);
        (name.clone(), Registered { pod, pairs })
    });
    entries.collect()
}

fn pairs(data: &Value) -> Option<Pairs> {
    let data = data.as_object()?;
    let mut pairs = Pairs::new();
    for part in PARTS {
        let values = data.get(part).and_then(Value::as_object);
        for (key, value) in values.into_iter().flatten() {
            pairs.push((format!("{part}/{key}"), value.to_string().into_bytes()));
        }
    }
    Some(pairs)
}

/// What those who are ready have registered, in the order of their names.
fn joined(
    ready: &BTreeSet<String>,
    registered: &BTreeMap<String, Registered>,
    remembered: &mut BTreeMap<String, Pairs>,
) -> Vec<PodRegistrations> {
    remembered.retain(|name, _| registered.contains_key(name));
    for (name, registered) in registered {
        if let Some(pairs) = &registered.pairs {
            remembered.insert(name.clone(), pairs.clone());
        }
    }
    let there = registered
        .iter()
        .filter(|(_, registered)| ready.contains(&registered.pod));
    there
        .filter_map(|(name, registered)| {
            let pairs = remembered.get(name)?.iter().cloned();
            let pairs = pairs.map(|(key, value)| (format!("{name}/{key}"), value));
            Some(PodRegistrations {
                pod: registered.pod.clone(),
                pairs: pairs.collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
