//! Attaches a frontend's workers: our own, servers of other engines, Dynamo's.

use std::sync::Arc;

use adapters::{EngineSettings, Engines, SharedEstimates, Timing, Tokenize};
use anyhow::Context as _;
use contract::{Clock, FrontendId, TokenId};
use kubernetes::PoolWatch;
use nats::Nats;
use preprocess::{Specials, Tokenizer};
use remote::connect::{ConnectConfig, Connector};
use remote::discovery;
use remote::registration::Expected;
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::watch;
use transport::Roster;

use crate::plan::{
    DynamoPlan, DynamoRegistry, Found, MoreUpstreams, OwnWorkers, Served, Source, Upstreams,
    WorkerSources,
};
use crate::pool_endpoints;

/// The frontend that workers join.
pub(super) struct JoinTarget {
    pub(super) roster: Roster,
    pub(super) registry: Registry,
    pub(super) clock: Clock,
    pub(super) frontend: FrontendId,
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Of the conversation by which engines are checked.
    pub(super) sample_prompt: Option<Vec<TokenId>>,
    pub(super) served: Served,
    /// Told among frontends that use the same engines.
    pub(super) shared: Option<SharedEstimates>,
}

/// Announces workers from all sources until `tasks` stop.
pub(super) async fn follow(
    workers: WorkerSources,
    place: JoinTarget,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    start_upstreams(workers.upstreams, &place, tasks).await?;
    match workers.source {
        Source::Own(own) => follow_own(own, place, tasks).await,
        Source::Dynamo(plan) => follow_dynamo(plan, place, tasks).await,
    }
}

async fn follow_own(own: OwnWorkers, place: JoinTarget, tasks: &Tasks) -> anyhow::Result<()> {
    let connect = ConnectConfig {
        frontend: place.frontend,
        expected: Expected {
            cluster: own.cluster.clone(),
            model: place.served.model.to_string(),
            blocks: place.served.blocks,
        },
        clock: place.clock,
        nats: own.nats,
        tls: own.tls,
    };
    let connector = Connector::new(connect, place.roster, &place.registry, tasks).await?;
    let addresses = match own.found {
        Found::Listed(addresses) => discovery::list(addresses),
        Found::Etcd(etcd) => discovery::etcd(&etcd.connect()?, &own.cluster, tasks),
        Found::Kubernetes(settings) => {
            let found = discovery::kubernetes(settings, tasks).await;
            found.context("--discovery kubernetes")?
        }
    };
    discovery::follow(connector, addresses);
    Ok(())
}

async fn follow_dynamo(plan: DynamoPlan, place: JoinTarget, tasks: &Tasks) -> anyhow::Result<()> {
    let registry = match plan.registry {
        DynamoRegistry::Etcd(etcd) => dynamo::Registry::Etcd(etcd.connect()?),
        DynamoRegistry::Files(folder) => dynamo::Registry::Files(folder),
        DynamoRegistry::Kubernetes { namespace } => {
            let client = kubernetes::connect().await;
            dynamo::Registry::Kubernetes {
                client: client.context("--discovery dynamo-kubernetes")?,
                namespace,
            }
        }
    };
    let nats = match &plan.nats {
        Some(url) => Some(Nats::connect(url).await.context("--nats")?),
        None => None,
    };
    let config = dynamo::Config {
        namespace: plan.namespace,
        listen: plan.listen,
        advertise: plan.advertise,
        nats,
        clock: place.clock,
    };
    dynamo::start(config, registry, place.roster, &place.registry, tasks)
        .await
        .with_context(|| format!("--dynamo-listen {}", plan.listen))?;
    Ok(())
}

async fn start_upstreams(
    upstreams: Upstreams,
    place: &JoinTarget,
    tasks: &Tasks,
) -> anyhow::Result<()> {
    let tokenizer = Arc::clone(&place.tokenizer);
    let settings = EngineSettings {
        model: place.served.model.clone(),
        blocks: place.served.blocks,
        max_context_tokens: place.served.max_context_tokens,
        clock: place.clock,
        // A text that cannot be encoded counts as no tokens, and the engine's own count holds.
        tokenize: Tokenize::new(move |text| {
            tokenizer.encode(text, Specials::Plain).unwrap_or_default()
        }),
        sample_prompt: place.sample_prompt.clone(),
        api_key: upstreams.api_key,
        timing: Timing {
            silent_after: upstreams.silent_after,
            ..Timing::default()
        },
        shared: place.shared.clone(),
    };
    let JoinTarget {
        roster, registry, ..
    } = place;
    let named = upstreams.specs;
    match upstreams.more {
        None => {
            let started = Engines::start(named, &settings, roster, registry, tasks);
            started.context("--upstream")?;
        }
        Some(MoreUpstreams::File(file)) => {
            let (lists, receiver) = watch::channel([&named[..], file.specs()].concat());
            let following = Engines::follow(receiver, &settings, roster, registry, tasks);
            following.context("--endpoints-file")?;
            tasks.spawn(file.follow(named, lists, tasks.stop.clone()));
        }
        Some(MoreUpstreams::Pool(plan)) => {
            let pool = PoolWatch::start(plan.settings.clone(), tasks).await;
            let pool = pool.context("--pool")?;
            let (lists, receiver) = watch::channel(named.clone());
            let following = Engines::follow(receiver, &settings, roster, registry, tasks);
            following.context("--pool")?;
            tasks.spawn_until_stop(pool_endpoints::follow(plan, pool, named, lists));
        }
    }
    Ok(())
}
