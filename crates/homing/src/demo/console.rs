//! What the demo puts behind its console: a load generator against its own API, and a view
//! of the router and its workers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ::console::{
    ConsoleConfig, GpuFeed, GpuSource, Prometheus, Refusal, RequestCounts, RouterState, SystemView,
    WorkerState,
};
use frontend::Frontend;
use http_client::{HttpClient, HttpOptions};
use loadgen::client::{Client, Patience, Target};
use loadgen::{LiveConfig, LiveParts, LoadGenerator};
use router::{Router, RouterChange};
use tokio_util::task::TaskTracker;

use super::{System, baseline};
use crate::pages;
use crate::plan::{ConsolePlan, LoadPlan};
use crate::process::unix_ms;

/// What the console shows, and what it shows it of.
pub(super) struct ConsoleSetup {
    pub(super) config: ConsoleConfig,
    pub(super) system: Box<dyn ::console::System>,
    /// To be polled, if there is one.
    pub(super) gpus: Option<GpuFeed>,
}

/// `beside` is the address of a Prometheus that was started with the demo. It answers the
/// dashboards' queries unless another was named. GPU cards keep their source: it would only say
/// what workers say themselves.
pub(super) fn facade(
    plan: ConsolePlan,
    system: &System,
    status_page: String,
    beside: Option<&str>,
) -> anyhow::Result<ConsoleSetup> {
    let ConsolePlan {
        title,
        subtitle,
        slos,
        baseline,
        lines,
        gpus,
        prometheus,
    } = plan;
    let subtitle = subtitle.unwrap_or_else(|| {
        let workers = system.describe().replace("SIMULATED", "simulated");
        format!("Powered by Homing, on {workers}")
    });
    let prometheus = match (prometheus, beside) {
        (None, Some(url)) => {
            let transport = HttpClient::network(HttpOptions::default());
            Some(Prometheus::new(url, transport)?)
        }
        (named, _) => named,
    };
    Ok(ConsoleSetup {
        config: ConsoleConfig {
            title,
            subtitle,
            slos,
            access: system.control.access.clone(),
            assets: pages::built(),
            status_page,
            baseline: baseline::prepare(baseline)?,
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
    plan: LoadPlan,
    system: &System,
    api: SocketAddr,
) -> anyhow::Result<LoadGenerator> {
    let target = format!("http://{}", reachable(api));
    let target = Target::new(&target, system.backend.model().as_str())?;
    let transport = HttpClient::network(HttpOptions::default());
    let config = LiveConfig {
        settings: plan.settings,
        seed: plan.seed,
        unique: plan.unique,
        sampling_seeds: true,
        warmup: Duration::ZERO,
        unix_ms: unix_ms(),
    };
    let parts = LiveParts {
        client: Client::new(transport, target, Patience::default(), system.clock),
        starters: plan.starters,
        user_model: None,
        registry: system.registry.clone(),
        clock: system.clock,
        records: None,
    };
    // Its tasks end with its last handle, which the console holds: nobody can wait for them.
    Ok(LoadGenerator::spawn(config, parts, &TaskTracker::new())?)
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
            router: self.router.mode().state().into(),
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

    fn change_router(&self, change: RouterChange) -> Result<RouterState, Refusal> {
        let state = change.apply(&self.router).map_err(|error| Refusal {
            message: error.to_string(),
            field: Some(error.field().to_owned()),
        })?;
        Ok(state.into())
    }
}

fn worker_state(worker: &router::WorkerView) -> WorkerState {
    WorkerState {
        draining: worker.draining,
        in_flight: worker.in_flight,
        ..WorkerState::new(&worker.card, &worker.status)
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
