//! The web console of this process: what it shows, and of what.
//!
//! `demo`, `frontend` and `loadgen` can serve one. They differ in the system that they show and in
//! where their load comes from; the rest is here.

mod baseline;
mod load;
mod serving;
mod target;

use ::console::{Console, ConsoleConfig, GpuFeed, Load, Prometheus, System};
use frontend::Access;
use http_client::{HttpClient, HttpOptions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::load::{LoadTarget, PreparedLoad, load_generator};
pub(crate) use self::serving::Serving;
pub(crate) use self::target::{TargetAddress, TargetSystem};
use crate::pages;
use crate::plan::ConsolePlan;
use crate::process::unix_ms;

/// A console that is ready to start.
pub(crate) struct ConsoleSetup {
    config: ConsoleConfig,
    system: Box<dyn System>,
    /// To be polled, if there is one.
    gpus: Option<GpuFeed>,
}

/// Where a console stands.
pub(crate) struct Surroundings<'a> {
    /// Line under the heading, unless the plan has one.
    pub(crate) subtitle: String,
    pub(crate) access: Access,
    /// Clients of the API have keys, so that not everybody may see decisions.
    pub(crate) private_decisions: bool,
    /// Where to look if there are no pages.
    pub(crate) status_page: String,
    /// A Prometheus that was started beside this process. It answers the dashboards' queries unless
    /// another was named. GPU cards keep their source: it would only say what workers say themselves.
    pub(crate) prometheus: Option<&'a str>,
}

impl ConsoleSetup {
    pub(crate) fn new(
        plan: ConsolePlan,
        surroundings: Surroundings<'_>,
        system: Box<dyn System>,
    ) -> anyhow::Result<Self> {
        let prometheus = match (plan.prometheus, surroundings.prometheus) {
            (None, Some(url)) => {
                let transport = HttpClient::network(HttpOptions::default());
                Some(Prometheus::new(url, transport)?)
            }
            (named, _) => named,
        };
        Ok(Self {
            config: ConsoleConfig {
                title: plan.title,
                subtitle: plan.subtitle.unwrap_or(surroundings.subtitle),
                slos: plan.slos,
                access: surroundings.access,
                private_decisions: surroundings.private_decisions,
                assets: pages::built(),
                status_page: surroundings.status_page,
                baseline: baseline::prepare(plan.baseline)?,
                dashboards: pages::dashboards(plan.lines.as_ref())?,
                prometheus,
                grafana_url: plan.grafana_url,
                parts: plan.parts,
                unix_ms: unix_ms(),
            },
            system,
            gpus: plan.gpus,
        })
    }

    /// Begins to watch what it shows, until `closing` fires. What it serves is returned.
    pub(crate) fn start(
        self,
        load: Load,
        tasks: &TaskTracker,
        closing: &CancellationToken,
    ) -> axum::Router {
        if let Load::Elsewhere(load) = &load {
            tasks.spawn(load.clone().poll(closing.clone()));
        }
        if let Some(gpus) = self.gpus {
            let transport = HttpClient::network(HttpOptions::default());
            tasks.spawn(gpus.poll(transport, closing.clone()));
        }
        let console = Console::new(self.config, self.system, load, closing.clone());
        tasks.spawn(console.clone().keep_history());
        console.service()
    }
}
