//! `homing frontend`, resolved.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use adapters::EngineKind;
use anyhow::{Context as _, ensure};
use contract::{BlockFormat, Hashing, ModelName, Visitors};
use engine::sim::{PUBLISHED_PROFILE, Profile};
use frontend::{FaultLimits, ForwardPolicy, FrontendConfig, Listening};
use router::RouterConfig;

use super::frontend_console::{Audience, FrontendConsolePlan};
use super::{ModelPlan, PeersPlan, TracingPlan, Upstreams, WorkerSources, draw_id};
use crate::args::{
    BlockArgs, FrontendArgs, ModelArgs, RoutingArgs, UnknownFieldsChoice, UpstreamArgs,
};
use crate::config::{self, ModelSettings};
use crate::https::HttpsFiles;
use crate::process::{Control, Endpoint};

pub(crate) struct FrontendPlan {
    pub(crate) log: String,
    pub(crate) api: Endpoint,
    pub(crate) control: Control,
    pub(crate) listening: Listening,
    pub(crate) https: Option<HttpsFiles>,
    pub(crate) models: Vec<ServingPlan>,
    pub(crate) peers: Option<PeersPlan>,
    /// Without the keys, which are followed from `api_key_file`.
    pub(crate) frontend: FrontendConfig,
    pub(crate) api_key_file: Option<PathBuf>,
    pub(crate) console: Option<FrontendConsolePlan>,
    pub(crate) tracing: TracingPlan,
    /// How long running streams may take to finish.
    pub(crate) grace: Duration,
}

/// One model, and the workers that serve it.
pub(crate) struct ServingPlan {
    pub(crate) served: Served,
    pub(crate) model: ModelPlan,
    pub(crate) router: RouterConfig,
    pub(crate) workers: WorkerSources,
    /// Names of its adapters (LoRA).
    pub(crate) adapters: Vec<String>,
    /// What it was resolved from, if it is one of several: a change means another.
    pub(crate) words: Option<Vec<OsString>>,
}

/// The models that the configuration file lists now; empty if it lists none.
pub(crate) fn listed_models() -> anyhow::Result<Vec<ServingPlan>> {
    let mut plans: Vec<ServingPlan> = Vec::new();
    for settings in config::models()? {
        let ModelSettings { args, words } = settings;
        let name = args.model.model_name.clone().unwrap_or_default();
        let plan = args.serving().with_context(|| format!("model {name}"))?;
        plans.push(ServingPlan {
            words: Some(words),
            ..plan
        });
    }
    let mut names = BTreeSet::new();
    for plan in &plans {
        let own = plan.served.model.as_str();
        for name in std::iter::once(own).chain(plan.adapters.iter().map(String::as_str)) {
            ensure!(
                names.insert(name),
                "two models or adapters are named {name}"
            );
        }
    }
    Ok(plans)
}

/// What is served, as the options say or as the default profile has it.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) model: ModelName,
    pub(crate) blocks: BlockFormat,
    pub(crate) max_context_tokens: u32,
}

impl FrontendArgs {
    pub(crate) fn resolve(self) -> anyhow::Result<FrontendPlan> {
        let listed = listed_models()?;
        let models = match listed.is_empty() {
            true => vec![self.serving()?],
            false => {
                ensure!(
                    self.upstream.is_empty()
                        && self.workers.is_empty()
                        && self.upstream.adapters.is_empty(),
                    "--upstream, --endpoints-file, --workers and --adapter belong to single models: \
                     write them under [[models]] in the configuration file"
                );
                listed
            }
        };
        let peers = self.peers.resolve()?;
        let has_keys = self.api_key_file.is_some();
        let loopback = self.host.is_loopback();
        let console_host = self.console.console_host.unwrap_or(self.host);
        // A reverse proxy may stand before a loopback listener whose clients have keys.
        let open = loopback && console_host.is_loopback() && !has_keys;
        let control = Control::new(self.control_token, open);
        let frontend = FrontendConfig {
            max_requests: self.limits.max_requests,
            max_body_bytes: self.limits.max_body_bytes,
            max_buffered_bytes: self.limits.max_buffered_bytes,
            max_queue_wait: Some(self.routing.max_queue_wait),
            trust_priority: self.routing.trust_priority_header,
            unknown_fields: self.limits.unknown_fields.into(),
            forward: ForwardPolicy {
                mode: self.forward.into(),
                unknown_fields: self.limits.unknown_fields == UnknownFieldsChoice::Forward,
            },
            normalize_agents: !self.limits.keep_agent_headers,
            stored_responses: self.limits.stored(),
            access: control.access.clone(),
            api_keys: None,
            faults: FaultLimits {
                migrations: self.migration_limit,
                first_token_timeout: self.first_token_timeout,
                stall_timeout: self.stall_timeout,
            },
            slow_reader_timeout: self.limits.slow_reader_timeout,
        };
        let visitors = Visitors::new(loopback, has_keys, &self.allowed_hosts);
        let audience = Audience {
            host: console_host,
            has_keys,
            allowed_hosts: &self.allowed_hosts,
        };
        let console = self.console.resolve(audience, self.seed, &models)?;
        Ok(FrontendPlan {
            log: self.general.log,
            api: Endpoint {
                address: SocketAddr::new(self.host, self.http_port),
                option: "--http-port",
            },
            control,
            listening: self.limits.listening(visitors),
            https: self.https.files(),
            models,
            peers,
            console,
            frontend,
            api_key_file: self.api_key_file,
            tracing: self.tracing.resolve(draw_id())?,
            grace: self.limits.shutdown_grace,
        })
    }

    /// The model of these options.
    fn serving(&self) -> anyhow::Result<ServingPlan> {
        let options = ServingOptions {
            upstream: &self.upstream,
            model: &self.model,
            blocks: &self.blocks,
            routing: &self.routing,
            seed: self.seed,
            // Requests are sent as token ids.
            any_vocabulary: false,
        };
        options.plan(self.worker_sources()?)
    }
}

/// The options of a model, of whichever command.
pub(super) struct ServingOptions<'a> {
    pub(super) upstream: &'a UpstreamArgs,
    pub(super) model: &'a ModelArgs,
    pub(super) blocks: &'a BlockArgs,
    pub(super) routing: &'a RoutingArgs,
    pub(super) seed: u64,
    /// Whether tokens serve only to tell prompts apart, where servers publish no cache.
    pub(super) any_vocabulary: bool,
}

impl ServingOptions<'_> {
    pub(super) fn plan(&self, workers: WorkerSources) -> anyhow::Result<ServingPlan> {
        let model = self.model.resolve()?;
        let any_vocabulary = self.any_vocabulary && workers.upstreams.all_of(EngineKind::Openai);
        ensure!(
            workers.upstreams.is_empty() || model.is_named() || any_vocabulary,
            "servers of other engines need --model-path: a folder with the tokenizer and the chat \
             template of the model that they serve"
        );
        let served = self.served(&model, &workers.upstreams)?;
        Ok(ServingPlan {
            router: self.routing.config(self.seed, served.blocks)?,
            served,
            model,
            workers,
            adapters: self.upstream.adapters.clone(),
            words: None,
        })
    }

    fn served(&self, model: &ModelPlan, upstreams: &Upstreams) -> anyhow::Result<Served> {
        let profile = Profile::named(PUBLISHED_PROFILE)?;
        let BlockArgs {
            kv_cache_block_size,
            kv_hash_lookahead,
            max_context_tokens,
        } = *self.blocks;
        Ok(Served {
            model: match model.served_name()? {
                Some(name) => name,
                // Nobody else would say that the name is wrong.
                None if !upstreams.is_empty() && model.is_named() => model.folder_name()?,
                None => profile.model,
            },
            blocks: BlockFormat {
                size: kv_cache_block_size.unwrap_or(profile.block_size),
                hashing: Hashing {
                    lookahead: kv_hash_lookahead,
                    ..Hashing::default()
                },
            },
            max_context_tokens: max_context_tokens.unwrap_or(profile.max_context_tokens),
        })
    }
}
