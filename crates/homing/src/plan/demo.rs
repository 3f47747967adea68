//! `homing demo`, resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::console::{GpuFeed, Prometheus, Slos};
use anyhow::Context as _;
use contract::{BlockFormat, Visitors};
use engine::sim::Profile;
use frontend::{FaultLimits, FrontendConfig, Listening};
use http_client::{HttpClient, HttpOptions};
use lab::{SweepPlan, Workload};
use loadgen::baseline::Baseline;
use loadgen::{Popularity, Settings, Starter, Starters};
use preprocess::corpus;
use router::{Mode, RouterConfig};

use super::backend::BackendOptions;
use super::{BackendPlan, EnginePlan, TracingPlan, draw_id};
use crate::args::{DemoArgs, ObservabilityArgs, StarterChoice};
use crate::baseline_file;
use crate::dashboards::lines::{Choice, Lines};
use crate::https::HttpsFiles;
use crate::print;
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

/// Conversations against the demo's own API.
pub(crate) struct LoadPlan {
    pub(crate) settings: Settings,
    pub(crate) starters: Vec<Starter>,
    /// Every conversation begins with a line of its own.
    pub(crate) unique: bool,
    pub(crate) seed: u64,
    /// Begins at once.
    pub(crate) autostart: bool,
}

/// What the console shows beside live figures.
pub(crate) struct ConsolePlan {
    pub(crate) title: String,
    /// By default what serves.
    pub(crate) subtitle: Option<String>,
    pub(crate) slos: Slos,
    pub(crate) baseline: BaselinePlan,
    /// Reference lines of the dashboards.
    pub(crate) lines: Option<Lines>,
    /// To be polled for the GPUs of workers.
    pub(crate) gpus: Option<GpuFeed>,
    /// Answers the dashboards' queries.
    pub(crate) prometheus: Option<Prometheus>,
}

/// What live load is compared with.
pub(crate) enum BaselinePlan {
    None,
    Known(Baseline),
    /// Computed after the start.
    Computed(Box<SweepPlan>),
}

/// Prometheus and Grafana beside the demo.
#[derive(Clone, Debug)]
pub(crate) struct ObservabilityPlan {
    /// Where their files stay; by default in a temporary folder.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) prometheus_port: u16,
    pub(crate) grafana_port: u16,
}

/// The published plan, six runs of each cell.
const SHIPPED: &str = include_str!("../../../../docs/results/published/baseline.json");

/// What a computed baseline covers.
const LEVELS: [u32; 7] = [60, 80, 100, 120, 140, 160, 180];
const MODES: [Mode; 2] = [Mode::RoundRobin, Mode::Kv];
const WARMUP: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(300);

/// Conversations at once unless the options say otherwise: a model on a CPU is slower than a
/// simulated one, and reads some hundred tokens per second.
const SIMULATED_CONCURRENCY: u32 = 60;
const LLAMA_CONCURRENCY: u32 = 4;
const LLAMA_TEXT: usize = 2000;
const LLAMA_ANSWER: u32 = 96;

impl DemoArgs {
    pub(crate) fn resolve(self) -> anyhow::Result<DemoPlan> {
        let backend = BackendOptions {
            engine: &self.llama,
            model: &self.model,
            profile: &self.profile,
            seed: self.seed,
            block_size: self.kv_cache_block_size,
            workers: self.workers,
        };
        let backend = backend.resolve()?;
        let concurrency = self.concurrency.unwrap_or(match backend.engine {
            EnginePlan::Simulated(_) => SIMULATED_CONCURRENCY,
            EnginePlan::Llama(_) => LLAMA_CONCURRENCY,
        });
        let console = self.console(&backend, concurrency)?;
        let load = (!self.no_load).then(|| self.load(&backend.engine, concurrency));
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

    fn console(&self, backend: &BackendPlan, concurrency: u32) -> anyhow::Result<ConsolePlan> {
        let url = self.prometheus_url.as_deref();
        let flag = "--prometheus-url";
        let gpus = url.map(GpuFeed::new).transpose().context(flag)?;
        let prometheus = url.map(|url| {
            let transport = HttpClient::network(HttpOptions::default());
            Prometheus::new(url, transport)
        });
        let baseline = self.baseline(backend)?;
        Ok(ConsolePlan {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            slos: self.slo,
            lines: match &baseline {
                BaselinePlan::Known(baseline) => reference_lines(baseline, concurrency),
                BaselinePlan::Computed(_) | BaselinePlan::None => None,
            },
            baseline,
            gpus,
            prometheus: prometheus.transpose().context(flag)?,
        })
    }

    /// From a file, or the one that is built in if this demo is what it is about, or computed.
    fn baseline(&self, backend: &BackendPlan) -> anyhow::Result<BaselinePlan> {
        if let Some(path) = &self.baseline {
            return Ok(BaselinePlan::Known(baseline_file::read(path)?));
        }
        let EnginePlan::Simulated(simulation) = &backend.engine else {
            return Ok(BaselinePlan::None);
        };
        if self.no_baseline || self.no_load {
            return Ok(BaselinePlan::None);
        }
        Ok(match self.shipped_baseline(backend.workers) {
            Some(baseline) => BaselinePlan::Known(baseline),
            None => {
                BaselinePlan::Computed(Box::new(self.sweep(&simulation.profile, backend.workers)?))
            }
        })
    }

    fn shipped_baseline(&self, workers: u32) -> Option<Baseline> {
        let baseline = Baseline::parse(SHIPPED).ok()?;
        let same = self.starters == StarterChoice::Ten
            && self.kv_cache_block_size.is_none()
            && self.profile == baseline.profile
            && workers == baseline.workers;
        same.then(|| Baseline {
            source: "docs/results/published (homing sweep --preset published --virtual)".to_owned(),
            ..baseline
        })
    }

    /// With this demo's profile, workers, seed and number of starters. Texts are as long as in
    /// the workload `specification`, whose conversations are those of the load generator.
    fn sweep(&self, profile: &Profile, workers: u32) -> anyhow::Result<SweepPlan> {
        let mut workload = Workload::named("specification")?;
        let pool = match self.starters {
            StarterChoice::Ten => Some(10),
            StarterChoice::All => Some(corpus::articles().len() as u32),
            StarterChoice::Unique => None,
        };
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

    fn load(&self, engine: &EnginePlan, concurrency: u32) -> LoadPlan {
        let articles = corpus::articles();
        let count = match self.starters {
            StarterChoice::Ten | StarterChoice::Unique => articles.len().min(10),
            StarterChoice::All => articles.len(),
        };
        let starters = articles[..count].iter();
        let starters = starters.map(|article| Starter::new(article.title, article.text));
        let settings = Settings {
            concurrency,
            ..Settings::default()
        };
        let (settings, starters) = match engine {
            EnginePlan::Simulated(_) => (settings, starters.collect()),
            EnginePlan::Llama(_) => {
                let max_tokens = LLAMA_ANSWER;
                let settings = Settings {
                    max_tokens,
                    ..settings
                };
                let starters = starters.map(|starter| starter.cut(LLAMA_TEXT));
                (settings, starters.collect())
            }
        };
        LoadPlan {
            settings,
            starters,
            unique: self.starters == StarterChoice::Unique,
            seed: self.seed,
            autostart: self.autostart,
        }
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

/// At the demo's own concurrency if the baseline has that, or else at its highest.
fn reference_lines(baseline: &Baseline, concurrency: u32) -> Option<Lines> {
    let mut levels = baseline.levels.iter();
    let own = levels.any(|level| level.concurrency == concurrency);
    let choice = Choice {
        level: own.then_some(concurrency),
        ..Choice::default()
    };
    match Lines::choose(baseline, &choice) {
        Ok(lines) => Some(lines),
        Err(error) => {
            print::note(format_args!("no reference lines in Grafana: {error}"));
            None
        }
    }
}
