//! `homing epp`, resolved.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use contract::Visitors;
use epp::Identity;
use frontend::{
    Connections, FaultLimits, ForwardPolicy, FrontendConfig, Listening, Objectives, PickConfig,
    StoreLimits, UnknownFields,
};
use kubernetes::PoolSettings;

use super::frontend::ServingOptions;
use super::{
    Found, MoreUpstreams, OwnWorkers, PeersPlan, ServingPlan, Source, TracingPlan, WorkerSources,
    draw_id,
};
use crate::args::{BlockArgs, EppArgs};
use crate::endpoints_file::AddressForm;
use crate::open_files;
use crate::pool_endpoints::PoolPlan;
use crate::process::{Control, Endpoint};

/// Of whoever reads metrics and decisions.
const PATIENCE: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Tokens of the longest prompt with its answer that is routed by its cache.
const LONGEST_CONTEXT: u32 = 1 << 20;

pub(crate) struct EppPlan {
    pub(crate) log: String,
    pub(crate) grpc: Endpoint,
    pub(crate) health: Endpoint,
    pub(crate) inside: Endpoint,
    pub(crate) control: Control,
    pub(crate) listening: Listening,
    /// Without one, gRPC is in the clear.
    pub(crate) identity: Option<Identity>,
    pub(crate) model: ServingPlan,
    pub(crate) peers: Option<PeersPlan>,
    pub(crate) frontend: FrontendConfig,
    pub(crate) pick: PickConfig,
    pub(crate) tracing: TracingPlan,
    /// How long running requests may take to finish.
    pub(crate) grace: Duration,
}

impl EppArgs {
    pub(crate) fn resolve(self) -> anyhow::Result<EppPlan> {
        let fixed = self.objectives.iter();
        let fixed = fixed.map(|one| (one.name.clone(), one.priority)).collect();
        let objectives = Objectives::new(fixed);
        let model = self.serving(&objectives)?;
        let identity = self.identity()?;
        let loopback = self.host.is_loopback();
        let control = Control::new(self.control_token.clone(), loopback);
        let visitors = Visitors::new(loopback, false, &self.allowed_hosts);
        let endpoint = |port, option| Endpoint {
            address: SocketAddr::new(self.host, port),
            option,
        };
        Ok(EppPlan {
            grpc: endpoint(self.grpc_port, "--grpc-port"),
            health: endpoint(self.health_port, "--health-port"),
            inside: endpoint(self.metrics_port, "--metrics-port"),
            listening: Listening {
                patience: PATIENCE,
                read_timeout: self.read_timeout,
                idle_timeout: IDLE_TIMEOUT,
                visitors,
                tls: None,
                connections: Connections::new(open_files::connections()),
            },
            identity,
            model,
            peers: self.peers.resolve()?,
            frontend: self.frontend(&control),
            pick: PickConfig {
                fallbacks: self.fallbacks,
                objectives,
                read_timeout: self.read_timeout,
            },
            control,
            tracing: self.tracing.resolve(draw_id())?,
            grace: self.shutdown_grace,
            log: self.general.log,
        })
    }

    fn identity(&self) -> anyhow::Result<Option<Identity>> {
        Ok(match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(Identity::read(certificate, key)?),
            _ if self.plaintext => None,
            _ => Some(Identity::self_signed()?),
        })
    }

    fn serving(&self, objectives: &Objectives) -> anyhow::Result<ServingPlan> {
        ensure!(
            !self.upstream.is_empty() || self.pool.is_some(),
            "no endpoints: name them with --pool, --endpoints-file or --upstream"
        );
        let mut upstreams = self.upstream.read(AddressForm::Ip)?;
        if let Some(name) = &self.pool {
            upstreams.more = Some(MoreUpstreams::Pool(PoolPlan {
                settings: PoolSettings {
                    name: name.clone(),
                    namespace: self.pool_namespace.clone(),
                },
                template: self.pool_engine.clone(),
                objectives: objectives.clone(),
            }));
        }
        let blocks = BlockArgs {
            // How long a prompt may be is for the servers to say.
            max_context_tokens: self.blocks.max_context_tokens.or(Some(LONGEST_CONTEXT)),
            ..self.blocks.clone()
        };
        let options = ServingOptions {
            upstream: &self.upstream,
            model: &self.model,
            blocks: &blocks,
            routing: &self.routing,
            seed: self.seed,
            any_vocabulary: true,
        };
        options.plan(WorkerSources {
            upstreams,
            source: Source::Own(OwnWorkers {
                found: Found::Listed(BTreeSet::new()),
                cluster: String::new(),
                nats: None,
                tls: None,
            }),
        })
    }

    /// What of a frontend a picker has. Requests go on as they came, so nothing is asked of their
    /// fields, and nothing is removed from them.
    fn frontend(&self, control: &Control) -> FrontendConfig {
        FrontendConfig {
            max_requests: self.max_requests,
            max_body_bytes: self.max_body_bytes,
            max_buffered_bytes: self.max_buffered_bytes,
            max_queue_wait: Some(self.routing.max_queue_wait),
            trust_priority: self.routing.trust_priority_header,
            unknown_fields: UnknownFields::Ignore,
            forward: ForwardPolicy::default(),
            normalize_agents: false,
            stored_responses: StoreLimits {
                entries: 0,
                bytes: 0,
            },
            access: control.access.clone(),
            api_keys: None,
            faults: FaultLimits::default(),
            slow_reader_timeout: PATIENCE,
        }
    }
}
