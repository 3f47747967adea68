//! What Kubernetes' API server knows, kept up to date: all that discovery asks of it.
//!
//! [`follow`] keeps the objects that a selector selects in one namespace. One list and one
//! watch is all that is asked of the server, so that is all that an account must be allowed.
//!
//! However a watch ends, the answer is the same: list again, then watch from there. The server
//! ends each after a minute anyway, so a watch need not be resumed, and what was missed for
//! whatever reason is repaired within that time. While the server is away, what was known last
//! stays.
//!
//! No cluster was at hand where this was written: it is tested against a server of our own
//! (`test_servers::kubernetes`) that speaks the public format.

mod pool;
mod slices;
mod watch;

use kube::config::InferConfigError;

pub use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
pub use kube::api::{ApiResource, DynamicObject};
pub use kube::config::{KubeConfigOptions, Kubeconfig};
pub use kube::core::GroupVersionKind;
pub use kube::{Api, Client, Config, ResourceExt};
pub use pool::{PoolMembers, PoolSettings, PoolWatch};
pub use slices::is_ready;
pub use watch::{Objects, Selection, follow};

/// Why the API server cannot even be asked.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    #[error(
        "found no configuration for the Kubernetes API server: looked for a kubeconfig (KUBECONFIG, then ~/.kube/config) \
         and for a pod's account (KUBERNETES_SERVICE_HOST and /var/run/secrets/kubernetes.io/serviceaccount)"
    )]
    NotConfigured(#[source] Box<InferConfigError>),
    #[error("the configuration for the Kubernetes API server is invalid")]
    Unusable(#[source] Box<kube::Error>),
}

/// A client of the server that the environment names.
pub async fn connect() -> Result<Client, KubernetesError> {
    let config = Config::infer()
        .await
        .map_err(|error| KubernetesError::NotConfigured(Box::new(error)))?;
    client(config)
}

/// A client of the server that `config` names.
pub fn client(config: Config) -> Result<Client, KubernetesError> {
    Client::try_from(config).map_err(|error| KubernetesError::Unusable(Box::new(error)))
}
