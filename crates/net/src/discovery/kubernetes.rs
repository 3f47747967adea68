//! Kubernetes as a registry: the pods behind a headless Service are the workers.
//!
//! Nobody registers. Kubernetes keeps EndpointSlices (`discovery.k8s.io/v1`) of every Service:
//! which pods it selects, at which addresses, and which of them are ready. One list and one
//! watch of them is all that is asked of the API server, so all that an account must be
//! allowed is to list and watch `endpointslices` in one namespace.
//!
//! However a watch ends, the answer is the same: list again, then watch from there. The server
//! ends each after [`WATCH`] anyway, so a watch need not be resumed, and what was missed
//! for whatever reason is repaired within that time. While the server is away, the addresses
//! that were known last stay.
//!
//! No cluster was at hand where this was written: it is tested against a server of our own that
//! speaks the public format.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::InferConfigError;
use kube::core::Status;
use kube::{Api, Client, Config, ResourceExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::Addresses;

/// Kubernetes names the Service of a slice by this label.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The port of the request plane, among several.
const PORT_NAME: &str = "grpc";
/// The server is asked to end a watch after so long. A connection that died in silence is
/// noticed then, so it is shorter than the five minutes that are usual.
const WATCH: Duration = Duration::from_secs(60);
/// How long the server may take for anything else.
const ANSWER: Duration = Duration::from_secs(10);
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Whose addresses are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// The headless Service that selects the workers' pods.
    pub service: String,
    /// Where it is; by default the pod's own namespace, or the one that the kubeconfig names.
    pub namespace: Option<String>,
    /// Whether workers speak TLS.
    pub tls: bool,
}

/// Why the API server cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    #[error(
        "found no way to the API server of Kubernetes: looked for a kubeconfig (KUBECONFIG, then ~/.kube/config) \
         and for a pod's account (KUBERNETES_SERVICE_HOST and /var/run/secrets/kubernetes.io/serviceaccount)"
    )]
    NotConfigured(#[source] Box<InferConfigError>),
    #[error("cannot use what is configured for the API server of Kubernetes")]
    Unusable(#[source] Box<kube::Error>),
}

/// Addresses of the workers that are ready, as they come and go.
pub async fn kubernetes(
    settings: KubernetesSettings,
    lifetime: (&TaskTracker, &CancellationToken),
) -> Result<mpsc::Receiver<Addresses>, KubernetesError> {
    let config = Config::infer()
        .await
        .map_err(|error| KubernetesError::NotConfigured(Box::new(error)))?;
    open(config, settings, lifetime)
}

fn open(
    config: Config,
    settings: KubernetesSettings,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<mpsc::Receiver<Addresses>, KubernetesError> {
    let client =
        Client::try_from(config).map_err(|error| KubernetesError::Unusable(Box::new(error)))?;
    let namespace = match settings.namespace {
        Some(namespace) => namespace,
        None => client.default_namespace().to_owned(),
    };
    let (sender, receiver) = mpsc::channel(1);
    let watcher = Watcher {
        slices: Api::namespaced(client, &namespace),
        selector: format!("{SERVICE_LABEL}={}", settings.service),
        service: settings.service,
        namespace,
        scheme: if settings.tls { "https" } else { "http" },
        sender,
    };
    let stop = stop.clone();
    tasks.spawn(async move {
        stop.run_until_cancelled(watcher.run()).await;
    });
    Ok(receiver)
}

/// Slices by name.
type Known = BTreeMap<String, EndpointSlice>;

struct Watcher {
    slices: Api<EndpointSlice>,
    selector: String,
    service: String,
    namespace: String,
    scheme: &'static str,
    sender: mpsc::Sender<Addresses>,
}

/// Why a round ended before its time.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{} ({})", .0.message, .0.code)]
    Refused(Box<Status>),
    #[error("the server does not answer")]
    Silent(#[from] tokio::time::error::Elapsed),
    #[error("nobody wants addresses any more")]
    NobodyListens,
}

impl Watcher {
    async fn run(self) {
        let mut pause = SHORTEST_PAUSE;
        let mut complained = false;
        loop {
            match self.round().await {
                Ok(()) => {
                    pause = SHORTEST_PAUSE;
                    complained = false;
                }
                Err(Trouble::NobodyListens) => return,
                Err(error @ (Trouble::Api(_) | Trouble::Refused(_) | Trouble::Silent(_))) => {
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    let (service, namespace) = (&self.service, &self.namespace);
                    if !std::mem::replace(&mut complained, true) {
                        warn!(%service, %namespace, %error, "cannot watch the pods of the service; trying on");
                    }
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Lists and watches until the watch ends.
    async fn round(&self) -> Result<(), Trouble> {
        let params = ListParams::default().labels(&self.selector);
        let listed = tokio::time::timeout(ANSWER, self.slices.list(&params)).await??;
        let version = listed.metadata.resource_version.unwrap_or_default();
        let named = listed.items.into_iter().map(|slice| (name(&slice), slice));
        let known: Known = named.collect();
        if known.is_empty() {
            let (service, namespace) = (&self.service, &self.namespace);
            info!(%service, %namespace, "there is no such service, or it selects nothing");
        }
        self.say(&known).await?;
        tokio::time::timeout(WATCH + ANSWER, self.watch(&version, known)).await?
    }

    async fn watch(&self, version: &str, mut known: Known) -> Result<(), Trouble> {
        let params = WatchParams::default()
            .labels(&self.selector)
            .timeout(WATCH.as_secs() as u32)
            .disable_bookmarks();
        let mut events = pin!(self.slices.watch(&params, version).await?);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                    known.insert(name(&slice), slice);
                }
                WatchEvent::Deleted(slice) => {
                    known.remove(&name(&slice));
                }
                // For those who resume.
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => return Err(Trouble::Refused(status)),
            }
            self.say(&known).await?;
        }
        Ok(())
    }

    async fn say(&self, known: &Known) -> Result<(), Trouble> {
        let addresses = addresses(known.values(), self.scheme);
        let sent = self.sender.send(addresses).await;
        sent.map_err(|_| Trouble::NobodyListens)
    }
}

fn name(slice: &EndpointSlice) -> String {
    slice.name_any()
}

/// Where the workers are that a Service's slices say are ready.
///
/// A Service of two stacks has slices of either family with the same pods behind them. Only one
/// family is used, or every worker would be attached twice; which one depends on what slices
/// there are and not on who is ready, so that a pod that comes or goes moves no other.
fn addresses<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
    scheme: &str,
) -> Addresses {
    let has_v4 = slices.clone().any(|slice| slice.address_type == "IPv4");
    let family = if has_v4 { "IPv4" } else { "IPv6" };
    let mut addresses = Addresses::new();
    for slice in slices.filter(|slice| slice.address_type == family) {
        let Some(port) = port(slice) else {
            if !slice.endpoints.is_empty() {
                let slice = name(slice);
                warn!(%slice, "the service has several ports and none is named {PORT_NAME}");
            }
            continue;
        };
        let ready = slice.endpoints.iter().filter(|endpoint| is_ready(endpoint));
        addresses.extend(
            ready
                .filter_map(ip)
                .map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, port))),
        );
    }
    addresses
}

/// The one that is named so, or else the only one.
fn port(slice: &EndpointSlice) -> Option<u16> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let named = ports
        .iter()
        .find(|port| port.name.as_deref() == Some(PORT_NAME));
    let port = match (named, ports) {
        (Some(port), _) | (None, [port]) => port,
        (None, _) => return None,
    };
    u16::try_from(port.port?).ok()
}

/// A Service may be told to publish pods that are not ready, and those that end are then called
/// ready too; so both are looked at.
fn is_ready(endpoint: &Endpoint) -> bool {
    let Some(conditions) = &endpoint.conditions else {
        return true;
    };
    conditions.ready != Some(false) && conditions.terminating != Some(true)
}

/// Kubernetes gives a meaning to the first address only.
fn ip(endpoint: &Endpoint) -> Option<IpAddr> {
    endpoint.addresses.first()?.parse().ok()
}

#[cfg(test)]
mod tests;
