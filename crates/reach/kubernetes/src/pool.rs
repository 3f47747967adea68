//! An InferencePool (`inference.networking.k8s.io/v1`): which pods serve a model, and on which ports.
//!
//! The pool names its pods by labels and their ports by number; which pods there are and which of them
//! are ready is asked of the pods themselves. Objectives of the pool (`llm-d.ai/v1alpha2`
//! InferenceObjective) give priorities names.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde::Deserialize;
use tasks::Tasks;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::watch::{Objects, Selection, follow};
use crate::{Client, KubernetesError, connect};

/// Whose pods are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    pub name: String,
    /// Where it is; by default the pod's own namespace, or the one that the kubeconfig names.
    pub namespace: Option<String>,
}

/// The pods that are ready, and the ports of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolMembers {
    pub hosts: BTreeSet<IpAddr>,
    /// Several are several servers of one pod, such as ranks of data parallelism.
    pub ports: Vec<u16>,
}

/// A pool that is watched.
#[derive(Debug)]
pub struct PoolWatch {
    pub members: mpsc::Receiver<PoolMembers>,
    /// Priorities by the names of objectives.
    pub objectives: mpsc::Receiver<HashMap<String, i32>>,
}

impl PoolWatch {
    /// Asks the server that the environment names, on `tasks` until they are stopped.
    pub async fn start(settings: PoolSettings, tasks: &Tasks) -> Result<Self, KubernetesError> {
        Ok(Self::of(connect().await?, settings, tasks))
    }

    /// Asks the server of `client`.
    pub fn of(client: Client, settings: PoolSettings, tasks: &Tasks) -> Self {
        let namespace = match settings.namespace {
            Some(namespace) => namespace,
            None => client.default_namespace().to_owned(),
        };
        let objectives = objectives(&client, &namespace, settings.name.clone(), tasks);
        let (sender, members) = mpsc::channel(1);
        let follower = Follower {
            client,
            namespace,
            name: settings.name,
            tasks: tasks.clone(),
            sender,
        };
        tasks.spawn_until_stop(follower.run());
        Self {
            members,
            objectives,
        }
    }
}

/// What a pool says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pool {
    /// As `kubectl` takes them.
    labels: String,
    ports: Vec<u16>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolSpec {
    selector: PoolSelector,
    target_ports: Vec<TargetPort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PoolSelector {
    match_labels: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct TargetPort {
    number: u16,
}

impl Pool {
    /// `None` without labels, which would select every pod, or without ports.
    fn of(object: &DynamicObject) -> Option<Self> {
        let spec = PoolSpec::deserialize(object.data.get("spec")?).ok()?;
        let labels = spec.selector.match_labels;
        if labels.is_empty() || spec.target_ports.is_empty() {
            return None;
        }
        let labels: Vec<String> = labels
            .into_iter()
            .map(|(label, value)| format!("{label}={value}"))
            .collect();
        Some(Self {
            labels: labels.join(","),
            ports: spec.target_ports.iter().map(|port| port.number).collect(),
        })
    }
}

/// Follows a pool, and the pods that it selects.
struct Follower {
    client: Client,
    namespace: String,
    name: String,
    tasks: Tasks,
    sender: mpsc::Sender<PoolMembers>,
}

/// The pods of a pool as it was last.
struct Pods {
    pool: Pool,
    ready: mpsc::Receiver<BTreeSet<IpAddr>>,
    /// Ends the watch of these pods.
    _stop: DropGuard,
}

impl Follower {
    async fn run(self) {
        let mut pools = self.pools();
        let mut pods: Option<Pods> = None;
        let mut members = PoolMembers::default();
        loop {
            tokio::select! {
                pool = pools.recv() => match pool {
                    None => return,
                    Some(None) => warn!(
                        pool = self.name,
                        namespace = self.namespace,
                        "there is no such InferencePool, or it has no labels or ports; the endpoints stay as they are"
                    ),
                    Some(Some(pool)) => {
                        members.ports.clone_from(&pool.ports);
                        match &mut pods {
                            Some(pods) if pods.pool.labels == pool.labels => {
                                pods.pool = pool;
                                // Before the first list of pods nothing is known.
                                if members.hosts.is_empty() {
                                    continue;
                                }
                            }
                            _ => {
                                info!(pool = self.name, labels = pool.labels, "following the pods of the pool");
                                pods = Some(self.pods(pool));
                                continue;
                            }
                        }
                        if self.sender.send(members.clone()).await.is_err() {
                            return;
                        }
                    }
                },
                Some(hosts) = next(&mut pods) => {
                    members.hosts = hosts;
                    if self.sender.send(members.clone()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn pools(&self) -> mpsc::Receiver<Option<Pool>> {
        let kind = GroupVersionKind::gvk("inference.networking.k8s.io", "v1", "InferencePool");
        let kind = ApiResource::from_gvk(&kind);
        let selection = Selection {
            api: Api::namespaced_with(self.client.clone(), &self.namespace, &kind),
            labels: String::new(),
            what: format!("InferencePools in the namespace {}", self.namespace),
        };
        let name = self.name.clone();
        let view = move |pools: &Objects<DynamicObject>| pools.get(&name).and_then(Pool::of);
        follow(selection, view, &self.tasks)
    }

    fn pods(&self, pool: Pool) -> Pods {
        let stop: CancellationToken = self.tasks.stop.child_token();
        let tasks = Tasks {
            tracker: self.tasks.tracker.clone(),
            stop: stop.clone(),
        };
        let selection = Selection {
            api: Api::namespaced(self.client.clone(), &self.namespace),
            labels: pool.labels.clone(),
            what: format!("pods of the InferencePool {}", self.name),
        };
        Pods {
            pool,
            ready: follow(selection, hosts, &tasks),
            _stop: stop.drop_guard(),
        }
    }
}

/// Never, if there are no pods to wait for.
async fn next(pods: &mut Option<Pods>) -> Option<BTreeSet<IpAddr>> {
    match pods {
        Some(pods) => pods.ready.recv().await,
        None => std::future::pending().await,
    }
}

/// The addresses of pods that can be sent requests.
fn hosts(pods: &Objects<Pod>) -> BTreeSet<IpAddr> {
    let ready = pods.values().filter(|pod| is_ready(pod));
    let address = |pod: &Pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
    ready.filter_map(address).collect()
}

/// A pod that is being deleted stays ready until it has ended.
fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectiveSpec {
    pool_ref: PoolRef,
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct PoolRef {
    name: String,
}

/// The priorities of the pool's objectives.
fn objectives(
    client: &Client,
    namespace: &str,
    pool: String,
    tasks: &Tasks,
) -> mpsc::Receiver<HashMap<String, i32>> {
    let kind = GroupVersionKind::gvk("llm-d.ai", "v1alpha2", "InferenceObjective");
    let kind = ApiResource::from_gvk(&kind);
    let selection = Selection {
        api: Api::namespaced_with(client.clone(), namespace, &kind),
        labels: String::new(),
        what: format!("InferenceObjectives in the namespace {namespace}"),
    };
    let view = move |objects: &Objects<DynamicObject>| {
        let priorities = objects.iter().filter_map(|(name, object)| {
            let spec = ObjectiveSpec::deserialize(object.data.get("spec")?).ok()?;
            (spec.pool_ref.name == pool).then(|| (name.clone(), spec.priority))
        });
        priorities.collect()
    };
    follow(selection, view, tasks)
}
