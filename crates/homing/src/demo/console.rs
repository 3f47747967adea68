//! What the demo puts behind its console: a load generator against its own API, and a view
//! of the router and its workers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ::console::{
    ConsoleConfig, GpuFeed, GpuSource, Prometheus, Refusal, RequestCounts, RouterState, SystemView,
    WorkerState,
};
use frontend::{Frontend, RouterChange, offending_field};
use loadgen::baseline::Baseline;
use loadgen::client::{Client, Patience, Target, Transport, TransportOptions};
use loadgen::{LiveConfig, LiveParts, LoadGenerator, Settings, Starter};
use preprocess::corpus;
use router::{Mode, ModeName, Router};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use super::{System, baseline};
use crate::args::{DemoArgs, EngineChoice, StarterChoice};
use crate::dashboards::lines::{Choice, Lines};
use crate::loadgen::unix_ms;
use crate::pages;
use crate::print;

/// What the console shows, and what it shows it of.
pub(super) struct Facade {
    pub(super) config: ConsoleConfig,
    pub(super) system: Box<dyn ::console::System>,
    /// To be polled, if there is one.
    pub(super) gpus: Option<GpuFeed>,
}

/// What options name outside this process. Read before anything runs, so that a wrong name is
/// all that is heard of.
pub(super) struct Given {
    baseline: Option<Baseline>,
    gpus: Option<GpuFeed>,
    /// Answers the dashboards' queries.
    prometheus: Option<Prometheus>,
}

impl Given {
    pub(super) fn read(args: &DemoArgs) -> anyhow::Result<Self> {
        let baseline = match args.baseline.as_deref() {
            Some(path) => Some(baseline::read(path)?),
            None => baseline::shipped(args),
        };
        let url = args.prometheus_url.as_deref();
        let gpus = url.map(GpuFeed::new).transpose();
        let prometheus = url.map(|url| {
            let transport = Transport::network(TransportOptions::default());
            Prometheus::new(url, transport)
        });
        let wrong = |error: String| anyhow::Error::msg(error).context("--prometheus-url");
        Ok(Self {
            baseline,
            gpus: gpus.map_err(wrong)?,
            prometheus: prometheus.transpose().map_err(wrong)?,
        })
    }
}

impl Given {
    /// Lets a Prometheus that was started beside the demo answer the dashboards' queries, unless
    /// another was named. GPU cards keep their source: it would tell them what they know.
    pub(super) fn ask(&mut self, url: &str) -> anyhow::Result<()> {
        let transport = Transport::network(TransportOptions::default());
        let beside = Prometheus::new(url, transport).map_err(anyhow::Error::msg)?;
        self.prometheus.get_or_insert(beside);
        Ok(())
    }
}

/// Lines for the dashboards from the demo's baseline, if there is one from the start: at the
/// demo's own load if it has that, or else at its highest.
pub(super) fn reference_lines(args: &DemoArgs, given: &Given) -> Option<Lines> {
    let baseline = given.baseline.as_ref()?;
    let mut levels = baseline.levels.iter();
    let concurrency = args.concurrency();
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

pub(super) fn facade(
    args: &DemoArgs,
    system: &System,
    api: SocketAddr,
    given: Given,
) -> anyhow::Result<Facade> {
    let lines = reference_lines(args, &given);
    let Given {
        baseline,
        gpus,
        prometheus,
    } = given;
    let subtitle = args.subtitle.clone().unwrap_or_else(|| {
        let workers = system.backend.describe(system.workers);
        format!(
            "Powered by Homing, on {}",
            workers.replace("SIMULATED", "simulated")
        )
    });
    Ok(Facade {
        config: ConsoleConfig {
            title: args.title.clone(),
            subtitle,
            slos: args.slo,
            access: system.access.clone(),
            assets: pages::built(),
            status_page: format!("http://{}/", reachable(api)),
            baseline: baseline::prepare(args, system, baseline)?,
            dashboards: pages::dashboards(lines.as_ref())?,
            prometheus,
            unix_ms: unix_ms(),
        },
        system: Box::new(Serving {
            model: system.backend.model().as_str().to_owned(),
            block_size: system.backend.block_size(),
            gpus: gpus.clone(),
            frontend: system.frontend.clone(),
            router: system.router.clone(),
        }),
        gpus,
    })
}

/// A load generator that is stopped. It talks to the API as any client would, over a socket.
pub(super) fn load_generator(
    args: &DemoArgs,
    system: &System,
    api: SocketAddr,
) -> anyhow::Result<LoadGenerator> {
    let target = format!("http://{}", reachable(api));
    let target = Target::new(&target, system.backend.model().as_str())?;
    let transport = Transport::network(TransportOptions::default());
    let config = LiveConfig {
        settings: settings(args),
        seed: args.seed,
        unique: args.starters == StarterChoice::Unique,
        sampling_seeds: true,
        warmup: Duration::ZERO,
        unix_ms: unix_ms(),
    };
    let parts = LiveParts {
        client: Client::new(transport, target, Patience::default(), system.clock),
        starters: starters(args),
        user_model: None,
        registry: system.registry.clone(),
        clock: system.clock,
        records: None,
    };
    // Its tasks end with its last handle, which the console holds: nobody can wait for them.
    Ok(LoadGenerator::spawn(config, parts, &TaskTracker::new())?)
}

/// A model on a processor reads some hundred tokens a second: its conversations are short.
const SHORT_TEXT: usize = 2000;
const SHORT_ANSWER: u32 = 96;

fn settings(args: &DemoArgs) -> Settings {
    let usual = Settings {
        concurrency: args.concurrency(),
        ..Settings::default()
    };
    match args.llama.engine {
        EngineChoice::Simulated => usual,
        EngineChoice::Llama => Settings {
            max_tokens: SHORT_ANSWER,
            ..usual
        },
    }
}

fn starters(args: &DemoArgs) -> Vec<Starter> {
    let articles = corpus::articles();
    let count = match args.starters {
        StarterChoice::Ten | StarterChoice::Unique => articles.len().min(10),
        StarterChoice::All => articles.len(),
    };
    let chosen = articles[..count].iter();
    let starters = chosen.map(|article| Starter::new(article.title, article.text));
    match args.llama.engine {
        EngineChoice::Simulated => starters.collect(),
        EngineChoice::Llama => starters.map(|starter| starter.cut(SHORT_TEXT)).collect(),
    }
}

/// Where this machine reaches its own listener, which may listen everywhere.
pub(super) fn reachable(listener: SocketAddr) -> SocketAddr {
    let host = match listener.ip() {
        address if !address.is_unspecified() => address,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(host, listener.port())
}

/// The serving half of this process, as the console knows it.
#[derive(Debug)]
struct Serving {
    model: String,
    block_size: u32,
    /// If Prometheus is asked about GPUs.
    gpus: Option<GpuFeed>,
    frontend: Frontend,
    router: Router,
}

impl ::console::System for Serving {
    fn view(&self) -> SystemView {
        let workers = self.router.workers();
        let mut shown: Vec<WorkerState> = workers.iter().map(worker_state).collect();
        let gpu = match &self.gpus {
            Some(feed) => feed.show(&mut shown),
            None => GpuSource::Process,
        };
        SystemView {
            model: self.model.clone(),
            simulated: workers.iter().any(|worker| worker.card.simulated),
            router: describe(self.router.mode()),
            requests: RequestCounts {
                in_flight: Some(self.frontend.in_flight() as u64),
                queued: Some(self.router.total_queued()),
            },
            block_size: self.block_size,
            last_decision: self.router.decisions(1).pop(),
            gpu,
            workers: shown,
        }
    }

    fn change_router(&self, change: Value) -> Result<RouterState, Refusal> {
        let change: RouterChange = serde_json::from_value(change).map_err(|error| Refusal {
            message: error.to_string(),
            field: None,
        })?;
        let mode = change.switch(&self.router).map_err(|error| Refusal {
            message: error.to_string(),
            field: Some(offending_field(&error).to_owned()),
        })?;
        Ok(describe(mode))
    }
}

fn worker_state(worker: &router::WorkerView) -> WorkerState {
    WorkerState {
        draining: worker.draining,
        in_flight: worker.in_flight,
        ..WorkerState::new(&worker.card, &worker.status)
    }
}

fn describe(mode: Mode) -> RouterState {
    let weights = match mode {
        Mode::KvBlocks(weights) => Some(weights),
        Mode::RoundRobin | Mode::Random | Mode::LeastLoaded | Mode::PowerOfTwo | Mode::Kv => None,
    };
    RouterState {
        mode: mode.name().to_string(),
        modes: ModeName::ALL.map(|name| name.to_string()).to_vec(),
        overlap_score_weight: weights.map(|weights| weights.overlap_score_weight()),
        router_temperature: weights.map(|weights| weights.router_temperature()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_reached_where_it_listens() {
        for (listener, address) in [
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("0.0.0.0:8000", "127.0.0.1:8000"),
            ("[::]:8000", "[::1]:8000"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            let reached = reachable(listener.parse().unwrap());
            assert_eq!(reached.to_string(), address);
        }
    }
}
