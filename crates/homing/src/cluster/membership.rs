//! Where a frontend's workers come from: its own kind, engines of others, Dynamo's.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use adapters::{EngineSettings, EngineSpec, Engines, Timing, Tokenize};
use anyhow::{Context as _, ensure};
use contract::{Clock, FrontendId};
use etcd::Etcd;
use preprocess::{Specials, Tokenizer};
use remote::connect::{ConnectConfig, Connector};
use remote::discovery::{self, Addresses, KubernetesSettings};
use remote::registration::Expected;
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::mpsc;
use transport::Roster;

use super::frontend::Served;
use crate::args::{Discovery, FrontendArgs};
use crate::loadgen::key;

/// The frontend that workers are to join.
pub(super) struct Place {
    pub(super) roster: Roster,
    pub(super) registry: Registry,
    pub(super) clock: Clock,
    pub(super) frontend: FrontendId,
    pub(super) tokenizer: Arc<Tokenizer>,
}

/// Whether there is anywhere to look for workers.
pub(super) fn check(args: &FrontendArgs) -> anyhow::Result<()> {
    if args.discovery == Discovery::Static {
        ensure!(
            !args.workers.is_empty() || !args.upstreams.is_empty(),
            "no workers: name them with --workers or --upstream, or say with --discovery where to find them"
        );
    }
    for worker in &args.workers {
        let known = worker.starts_with("http://") || worker.starts_with("https://");
        ensure!(
            known,
            "--workers: `{worker}` is not an http:// or https:// address"
        );
    }
    Ok(())
}

/// For people.
pub(super) fn described(args: &FrontendArgs) -> String {
    let found = match args.discovery {
        Discovery::Static => args.workers.join(", "),
        Discovery::DynamoEtcd => format!("Dynamo's, as registered at {}", args.etcd.join(", ")),
        Discovery::DynamoFile => {
            let folder = args.dynamo_file_kv.as_deref().unwrap_or(Path::new(""));
            format!("Dynamo's, as registered in {}", folder.display())
        }
        Discovery::DynamoKubernetes => "Dynamo's, as registered at Kubernetes".to_owned(),
        Discovery::Etcd => format!(
            "as registered at {} in cluster {}",
            args.etcd.join(", "),
            args.cluster
        ),
        Discovery::Kubernetes => format!(
            "pods behind the Service {}",
            args.kubernetes_service.as_deref().unwrap_or_default()
        ),
    };
    let named = args.upstreams.iter().map(EngineSpec::display_name);
    let all: Vec<String> = std::iter::once(found).chain(named).collect();
    all.join(", ").trim_start_matches(", ").to_owned()
}

/// Announces workers from everywhere that the options name, until `tasks` stop.
pub(super) async fn follow(
    args: &FrontendArgs,
    served: &Served,
    place: Place,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    start_engines(args, served, &place, tasks)?;
    if let Some(registry) = dynamo_registry(args).await? {
        let config = dynamo::Config {
            namespace: args.dynamo_namespace.clone(),
            listen: args.dynamo_listen,
            advertise: args.dynamo_advertise.clone(),
            clock: place.clock,
        };
        dynamo::start(config, registry, place.roster, &place.registry, tasks)
            .await
            .with_context(|| format!("--dynamo-listen {}", args.dynamo_listen))?;
        return Ok(());
    }
    let connect = ConnectConfig {
        frontend: place.frontend,
        expected: Expected {
            cluster: args.cluster.clone(),
            model: served.model.to_string(),
            block_size: served.block_size,
            hashing: served.hashing,
        },
        clock: place.clock,
        nats: args.nats.clone(),
        tls: args.tls.read()?,
    };
    let connector = Connector::new(connect, place.roster, &place.registry, tasks).await?;
    let addresses = discover(args, tasks).await?;
    discovery::follow(connector, addresses);
    Ok(())
}

fn start_engines(
    args: &FrontendArgs,
    served: &Served,
    place: &Place,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    let api_key = match &args.upstream_api_key_env {
        Some(name) => Some(key(name).context("--upstream-api-key-env")?),
        None => None,
    };
    let tokenizer = Arc::clone(&place.tokenizer);
    let settings = EngineSettings {
        model: served.model.clone(),
        block_size: served.block_size,
        hashing: served.hashing,
        max_context_tokens: served.max_context_tokens,
        clock: place.clock,
        // A text that cannot be encoded counts as no tokens, and the engine's own count holds.
        tokenize: Tokenize::new(move |text| {
            tokenizer.encode(text, Specials::Plain).unwrap_or_default()
        }),
        api_key,
        timing: Timing::default(),
    };
    let specs = args.upstreams.clone();
    Engines::start(specs, &settings, &place.roster, &place.registry, tasks)
        .context("--upstream")?;
    Ok(())
}

/// Where genuine Dynamo workers register, if those are meant.
async fn dynamo_registry(args: &FrontendArgs) -> anyhow::Result<Option<dynamo::Registry>> {
    match args.discovery {
        Discovery::Static | Discovery::Etcd | Discovery::Kubernetes => Ok(None),
        Discovery::DynamoEtcd => {
            let etcd = Etcd::connect(&args.etcd).context("--etcd")?;
            Ok(Some(dynamo::Registry::Etcd(etcd)))
        }
        Discovery::DynamoFile => {
            let folder = args.dynamo_file_kv.clone();
            let folder = folder.context("--discovery dynamo-file needs --dynamo-file-kv")?;
            Ok(Some(dynamo::Registry::Files(folder)))
        }
        Discovery::DynamoKubernetes => {
            let client = kubernetes::connect().await;
            Ok(Some(dynamo::Registry::Kubernetes {
                client: client.context("--discovery dynamo-kubernetes")?,
                namespace: args.kubernetes_namespace.clone(),
            }))
        }
    }
}

/// Where the workers are, now and later.
async fn discover(args: &FrontendArgs, tasks: &Tasks) -> anyhow::Result<mpsc::Receiver<Addresses>> {
    match args.discovery {
        Discovery::DynamoEtcd | Discovery::DynamoFile | Discovery::DynamoKubernetes => {
            Ok(discovery::list(BTreeSet::new()))
        }
        Discovery::Static => Ok(discovery::list(BTreeSet::from_iter(args.workers.clone()))),
        Discovery::Etcd => {
            let etcd = Etcd::connect(&args.etcd).context("--etcd")?;
            Ok(discovery::etcd(&etcd, &args.cluster, tasks))
        }
        Discovery::Kubernetes => {
            let service = args.kubernetes_service.clone();
            let settings = KubernetesSettings {
                service: service.context("no workers: say --kubernetes-service")?,
                namespace: args.kubernetes_namespace.clone(),
                tls: args.tls.tls_ca.is_some(),
            };
            let found = discovery::kubernetes(settings, tasks).await;
            found.context("--discovery kubernetes")
        }
    }
}
