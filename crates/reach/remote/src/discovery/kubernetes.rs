//! Kubernetes as a registry: the pods behind a headless Service are the workers.
//!
//! Nobody registers. Kubernetes keeps EndpointSlices (`discovery.k8s.io/v1`) of every Service:
//! which pods it selects, at which addresses, and which of them are ready. An account must be
//! allowed to list and watch `endpointslices` in one namespace, and nothing else.

use std::net::{IpAddr, SocketAddr};

pub use kubernetes::KubernetesError;
use kubernetes::{
    Api, Client, Endpoint, EndpointSlice, Objects, ResourceExt as _, Selection, is_ready,
};
use tasks::Tasks;
use tokio::sync::mpsc;
use tracing::warn;

use super::Addresses;

/// Kubernetes names the Service of a slice by this label.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The port of the request plane, among several.
const PORT_NAME: &str = "grpc";

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

/// Addresses of the workers that are ready, as they come and go.
pub async fn kubernetes(
    settings: KubernetesSettings,
    tasks: &Tasks,
) -> Result<mpsc::Receiver<Addresses>, KubernetesError> {
    Ok(open(kubernetes::connect().await?, settings, tasks))
}

fn open(client: Client, settings: KubernetesSettings, tasks: &Tasks) -> mpsc::Receiver<Addresses> {
    let namespace = match settings.namespace {
        Some(namespace) => namespace,
        None => client.default_namespace().to_owned(),
    };
    let service = settings.service;
    let selection = Selection {
        api: Api::namespaced(client, &namespace),
        labels: format!("{SERVICE_LABEL}={service}"),
        what: format!("pods of the service {service} in the namespace {namespace}"),
    };
    let scheme = if settings.tls { "https" } else { "http" };
    let view = move |slices: &Objects<EndpointSlice>| addresses(slices.values(), scheme);
    kubernetes::follow(selection, view, tasks)
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
                let slice = slice.name_any();
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

/// Kubernetes gives a meaning to the first address only.
fn ip(endpoint: &Endpoint) -> Option<IpAddr> {
    endpoint.addresses.first()?.parse().ok()
}

#[cfg(test)]
mod tests;
