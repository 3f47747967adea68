//! `homing demo`, resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use contract::{BlockFormat, Visitors};
use engine::sim::Profile;
use frontend::{FaultLimits, FrontendConfig, Listening};
use lab::{SweepPlan, Workload};
use loadgen::baseline::Baseline;
use loadgen::{Popularity, Starters};
use router::{Mode, RouterConfig};

use super::backend::BackendOptions;
use super::console::published_baseline;
use super::load::{CPU_LOAD, GPU_LOAD};
use super::{BackendPlan, BaselinePlan, ConsolePlan, EnginePlan, LoadPlan, TracingPlan, draw_id};
use crate::args::{DemoArgs, ObservabilityArgs, StarterChoice};
use crate::https::HttpsFiles;
use crate::process::{Control, Endpoint};

pub(crate) struct DemoPlan {
    pub(crate) log: String,
    pub(crate) api: Endpoint,
    pub(crate) console_at: Endpoint,
    pub(crate) control: Control,
    pub(crate) listening: Listening,
    pub(crate) https: Option<HttpsFiles>,
    pub(crate) backend: BackendPlan,
    /// Workers that may be added while it runs, those at the start included.
    pub(crate) max_workers: u32,
    pub(crate) router: RouterConfig,
    pub(crate) frontend: FrontendConfig,
    pub(crate) load: Option<LoadPlan>,
    pub(crate) console: ConsolePlan,
    pub(crate) observability: Option<ObservabilityPlan>,
    pub(crate) tracing: TracingPlan,
    /// How long running streams may take to finish.
    pub(crate) grace: Duration,
}

/// Prometheus and Grafana beside the demo.
#[derive(Clone, Debug)]
pub(crate) struct ObservabilityPlan {
    /// Where their files stay; by default in a temporary folder.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) prometheus_port: u16,
    pub(crate) grafana_port: u16,
}

/// What a computed baseline covers.
const LEVELS: [u32; 7] = [60, 80, 100, 120, 140, 160, 180];
const MODES: [Mode; 2] = [Mode::RoundRobin, Mode::Kv];
const WARMUP: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(300);

impl DemoArgs {
    pub(crate) fn resolve(self) -> anyhow::Result<DemoPlan> {
        let backend = BackendOptions {
            engine: &self.engine,
            model: &self.model,
            profile: &self.profile,
            seed: self.seed,
            block_size: self.kv_cache_block_size,
            workers: self.workers,
        };
        let backend = backend.resolve()?;
        let usual = match backend.engine {
            EnginePlan::Simulated(_) | EnginePlan::Cuda(_) => GPU_LOAD,
            EnginePlan::Llama(_) => CPU_LOAD,
        };
        let baseline = self.baseline(&backend)?;
        let console = self.console.clone();
        let console = console.resolve(self.slo.slo, baseline)?;
        let load = self.load.resolve(usual, self.seed);
        let loopback = self.host.is_loopback();
        let visitors = Visitors::new(loopback, false, &self.allowed_hosts);
        let control = Control::new(self.control_token, loopback);
        let endpoint = |port, option| Endpoint {
            address: SocketAddr::new(self.host, port),
            option,
        };
        Ok(DemoPlan {
            log: self.general.log,
            api: endpoint(self.http_port, "--http-port"),
            console_at: endpoint(self.console_port, "--console-port"),
            listening: self.limits.listening(visitors),
            https: self.https.files(),
            router: self
                .routing
                .config(self.seed, BlockFormat::new(backend.block_size))?,
            frontend: FrontendConfig {
                max_requests: self.limits.max_requests,
                max_body_bytes: self.limits.max_body_bytes,
                max_buffered_bytes: self.limits.max_buffered_bytes,
                max_queue_wait: Some(self.routing.max_queue_wait),
                trust_priority: self.routing.trust_priority_header,
                unknown_fields: self.limits.unknown_fields.into(),
                normalize_agents: !self.limits.keep_agent_headers,
                stored_responses: self.limits.stored(),
                access: control.access.clone(),
                api_keys: None,
                faults: FaultLimits::default(),
                slow_reader_timeout: self.limits.slow_reader_timeout,
                forward: frontend::ForwardPolicy::default(),
            },
            control,
            max_workers: self.max_workers.max(backend.workers),
            backend,
            load,
            console,
            observability: self.beside.resolve(),
            tracing: self.tracing.resolve(draw_id())?,
            grace: self.limits.shutdown_grace,
        })
    }

    /// The one that is built in if this demo is what it is about, or else computed. One that is
    /// named replaces it.
    fn baseline(&self, backend: &BackendPlan) -> anyhow::Result<BaselinePlan> {
        let EnginePlan::Simulated(simulation) = &backend.engine else {
            return Ok(BaselinePlan::None);
        };
        if self.no_baseline || self.load.no_load || self.console.baseline.is_some() {
            return Ok(BaselinePlan::None);
        }
        // Other texts have other lengths, which nobody knows before they are read.
        if self.load.texts.corpus.is_some() || self.load.texts.text_limit.is_some() {
            return Ok(BaselinePlan::None);
        }
        Ok(match self.shipped_baseline(backend.workers)? {
            Some(baseline) => BaselinePlan::Known(baseline),
            None => {
                BaselinePlan::Computed(Box::new(self.sweep(&simulation.profile, backend.workers)?))
            }
        })
    }

    fn shipped_baseline(&self, workers: u32) -> anyhow::Result<Option<Baseline>> {
        let baseline = published_baseline()?;
        let same = self.load.starters == StarterChoice::Ten
            && self.load.max_tokens.is_none()
            && self.kv_cache_block_size.is_none()
            && self.profile == baseline.profile
            && workers == baseline.workers;
        Ok(same.then_some(baseline))
    }

    /// With this demo's profile, workers, seed and number of starters. Texts are as long as in
    /// the workload `specification`, whose conversations are those of the load generator.
    fn sweep(&self, profile: &Profile, workers: u32) -> anyhow::Result<SweepPlan> {
        let mut workload = Workload::named("specification")?;
        let pool = match self.load.starters {
            StarterChoice::Ten => Some(10),
            all @ StarterChoice::All => Some(all.articles() as u32),
            StarterChoice::Unique => None,
        };
        if let Some(max_tokens) = self.load.max_tokens {
            workload.script.max_tokens = max_tokens;
        }
        workload.script.starters = match pool {
            Some(pool) => Starters::Shared {
                pool,
                popularity: Popularity::Uniform,
            },
            None => Starters::Unique,
        };
        workload.name = match pool {
            Some(pool) => format!("specification, {pool} starters"),
            None => "specification, unique starters".to_owned(),
        };
        Ok(SweepPlan {
            workload,
            workers,
            profile: profile.clone(),
            modes: MODES.map(Into::into).to_vec(),
            levels: LEVELS.to_vec(),
            repeats: 1,
            seed: self.seed,
            warmup: WARMUP,
            window: WINDOW,
        })
    }
}

impl ObservabilityArgs {
    fn resolve(self) -> Option<ObservabilityPlan> {
        self.observability.then_some(ObservabilityPlan {
            folder: self.observability_dir,
            prometheus_port: self.prometheus_port,
            grafana_port: self.grafana_port,
        })
    }
}
