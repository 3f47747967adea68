//! Where a frontend's workers come from.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use adapters::{EngineKind, EngineSpec};
use anyhow::{Context as _, ensure};
use remote::discovery::KubernetesSettings;
use remote::tls::Tls;

use super::EtcdPlan;
use crate::args::{Discovery, FrontendArgs, UpstreamArgs};
use crate::endpoints_file::{AddressForm, EndpointsFile};
use crate::environment;
use crate::pool_endpoints::PoolPlan;

/// All workers of a frontend.
pub(crate) struct WorkerSources {
    pub(crate) upstreams: Upstreams,
    pub(crate) source: Source,
}

/// Servers of other engines, each one a worker.
pub(crate) struct Upstreams {
    pub(crate) specs: Vec<EngineSpec>,
    pub(crate) more: Option<MoreUpstreams>,
    /// What they are asked with.
    pub(crate) api_key: Option<String>,
    /// How long they may be silent.
    pub(crate) silent_after: Duration,
}

/// Where more servers are listed, which come and go.
pub(crate) enum MoreUpstreams {
    File(EndpointsFile),
    Pool(PoolPlan),
}

impl Upstreams {
    pub(crate) fn is_empty(&self) -> bool {
        self.specs.is_empty() && self.more.is_none()
    }

    /// Whether all that are known by now are of this kind.
    pub(crate) fn all_of(&self, kind: EngineKind) -> bool {
        let named = self.specs.iter().all(|spec| spec.kind == kind);
        let listed = match &self.more {
            None => true,
            Some(MoreUpstreams::File(file)) => file.specs().iter().all(|spec| spec.kind == kind),
            Some(MoreUpstreams::Pool(pool)) => pool.template.kind() == kind,
        };
        named && listed
    }
}

impl fmt::Display for MoreUpstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(f),
            Self::Pool(pool) => pool.fmt(f),
        }
    }
}

/// Where workers that are not named one by one are found.
pub(crate) enum Source {
    Own(OwnWorkers),
    Dynamo(DynamoPlan),
}

/// Workers of our own.
pub(crate) struct OwnWorkers {
    pub(crate) found: Found,
    pub(crate) cluster: String,
    /// For workers that publish their events there.
    pub(crate) nats: Option<String>,
    pub(crate) tls: Option<Tls>,
}

/// How their addresses are found.
pub(crate) enum Found {
    /// A list that never changes; empty where there are upstreams only.
    Listed(BTreeSet<String>),
    Etcd(EtcdPlan),
    Kubernetes(KubernetesSettings),
}

/// Workers of NVIDIA Dynamo.
pub(crate) struct DynamoPlan {
    pub(crate) registry: DynamoRegistry,
    /// Only workers of this namespace.
    pub(crate) namespace: Option<String>,
    /// Where they deliver their answers.
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: Option<String>,
    /// For workers that publish their events, or take requests, there.
    pub(crate) nats: Option<String>,
}

/// Where they register.
pub(crate) enum DynamoRegistry {
    Etcd(EtcdPlan),
    Files(PathBuf),
    Kubernetes { namespace: Option<String> },
}

impl UpstreamArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.upstreams.is_empty() && self.endpoints_file.is_none()
    }

    pub(super) fn read(&self, form: AddressForm) -> anyhow::Result<Upstreams> {
        let api_key = match &self.upstream_api_key_env {
            Some(name) => Some(environment::secret(name).context("--upstream-api-key-env")?),
            None => None,
        };
        for spec in &self.upstreams {
            form.check(spec).context("--upstream")?;
        }
        let file = self.endpoints_file.as_deref();
        Ok(Upstreams {
            specs: self.upstreams.clone(),
            more: file
                .map(|path| EndpointsFile::open(path, form).map(MoreUpstreams::File))
                .transpose()?,
            api_key,
            silent_after: self.upstream_silence_timeout,
        })
    }
}

impl FrontendArgs {
    /// Fails if there is nowhere to look for workers.
    pub(super) fn worker_sources(&self) -> anyhow::Result<WorkerSources> {
        Ok(WorkerSources {
            upstreams: self.upstream.read(AddressForm::Any)?,
            source: self.source()?,
        })
    }

    fn source(&self) -> anyhow::Result<Source> {
        Ok(match self.discovery {
            Discovery::Static => self.own(Found::Listed(self.listed()?))?,
            Discovery::Etcd => self.own(Found::Etcd(self.etcd.read()?))?,
            Discovery::Kubernetes => {
                let service = self.kubernetes_service.clone();
                self.own(Found::Kubernetes(KubernetesSettings {
                    service: service
                        .context("--discovery kubernetes needs --kubernetes-service")?,
                    namespace: self.kubernetes_namespace.clone(),
                    tls: self.worker_tls.worker_tls_ca.is_some(),
                }))?
            }
            Discovery::DynamoEtcd => self.dynamo(DynamoRegistry::Etcd(self.etcd.read()?)),
            Discovery::DynamoFile => {
                let folder = self.dynamo_file_kv.clone();
                self.dynamo(DynamoRegistry::Files(
                    folder.context("--discovery dynamo-file needs --dynamo-file-kv")?,
                ))
            }
            Discovery::DynamoKubernetes => self.dynamo(DynamoRegistry::Kubernetes {
                namespace: self.kubernetes_namespace.clone(),
            }),
        })
    }

    fn own(&self, found: Found) -> anyhow::Result<Source> {
        Ok(Source::Own(OwnWorkers {
            found,
            cluster: self.cluster.clone(),
            nats: self.nats.clone(),
            tls: self.worker_tls.clone().read()?,
        }))
    }

    fn dynamo(&self, registry: DynamoRegistry) -> Source {
        Source::Dynamo(DynamoPlan {
            registry,
            namespace: self.dynamo_namespace.clone(),
            listen: self.dynamo_listen,
            advertise: self.dynamo_advertise.clone(),
            nats: self.nats.clone(),
        })
    }

    fn listed(&self) -> anyhow::Result<BTreeSet<String>> {
        ensure!(
            !self.workers.is_empty() || !self.upstream.is_empty(),
            "no workers: name them with --workers, --upstream or --endpoints-file, or set --discovery"
        );
        for worker in &self.workers {
            let known = worker.starts_with("http://") || worker.starts_with("https://");
            ensure!(
                known,
                "--workers: `{worker}` is not an http:// or https:// address"
            );
        }
        Ok(self.workers.iter().cloned().collect())
    }
}

impl fmt::Display for WorkerSources {
    /// A one-line description for the greeting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.source.to_string();
        let found = (!found.is_empty()).then_some(found);
        let named = self.upstreams.specs.iter().map(EngineSpec::display_name);
        let more = self.upstreams.more.iter().map(ToString::to_string);
        let all: Vec<String> = found.into_iter().chain(named).chain(more).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(OwnWorkers { found, cluster, .. }) => match found {
                Found::Listed(addresses) => {
                    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
                    f.write_str(&addresses.join(", "))
                }
                Found::Etcd(etcd) => {
                    write!(f, "registered at {etcd} in cluster {cluster}")
                }
                Found::Kubernetes(KubernetesSettings { service, .. }) => {
                    write!(f, "pods behind the Service {service}")
                }
            },
            Self::Dynamo(plan) => match &plan.registry {
                DynamoRegistry::Etcd(etcd) => write!(f, "Dynamo's, registered at {etcd}"),
                DynamoRegistry::Files(folder) => {
                    write!(f, "Dynamo's, registered in {}", folder.display())
                }
                DynamoRegistry::Kubernetes { .. } => {
                    f.write_str("Dynamo's, registered at Kubernetes")
                }
            },
        }
    }
}
