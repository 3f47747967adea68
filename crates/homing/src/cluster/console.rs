//! The web console of `homing frontend`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use ::console::Load;
use contract::{Clock, Visitors};
use frontend::{Access, Frontend, Listening};
use loadgen::LoadGenerator;
use tasks::Tasks;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::console::{
    ConsoleSetup, LoadTarget, PreparedLoad, Serving, Surroundings, load_generator,
};
use crate::plan::{ConsoleLoad, ConsolePlan, FrontendConsolePlan, LoadPlan};

/// A console that listens and does not serve yet.
pub(super) struct ConsoleListener {
    listener: TcpListener,
    visitors: Visitors,
    page: ConsolePlan,
    load: ConsoleLoad,
}

/// The frontend that a console shows.
pub(super) struct ConsoleSite<'a> {
    pub(super) frontend: &'a Frontend,
    pub(super) access: Access,
    /// Clients of the API have keys.
    pub(super) private_decisions: bool,
    /// Where this machine reaches the API.
    pub(super) api: SocketAddr,
    /// Where to look if there are no pages.
    pub(super) status_page: String,
    pub(super) subtitle: String,
    pub(super) clock: Clock,
    pub(super) registry: &'a Registry,
}

impl ConsoleListener {
    pub(super) async fn listen(plan: FrontendConsolePlan) -> anyhow::Result<Self> {
        Ok(Self {
            listener: plan.place.at.listen().await?,
            visitors: plan.place.visitors,
            page: plan.page,
            load: plan.load,
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `drain` fires. The load generator of this process is returned, if there is one.
    pub(super) async fn start(
        self,
        site: ConsoleSite<'_>,
        listening: &Listening,
        tasks: &Tasks,
        drain: &CancellationToken,
    ) -> anyhow::Result<Option<LoadGenerator>> {
        let serving = Serving {
            frontend: site.frontend.clone(),
            gpus: self.page.gpus.clone(),
            profiles: Vec::new(),
        };
        let mut opening = None;
        let load = match self.load {
            ConsoleLoad::None => Load::None,
            ConsoleLoad::Elsewhere(load) => Load::Elsewhere(load),
            ConsoleLoad::Here { plan, api_key } => {
                let api = site.inside(listening, tasks, drain).await?;
                let load = site.load_generator(*plan, api_key.as_deref(), api).await?;
                opening = Some(load.opening);
                Load::Here(load.generator)
            }
        };
        let surroundings = Surroundings {
            subtitle: site.subtitle,
            access: site.access,
            private_decisions: site.private_decisions,
            status_page: site.status_page,
            prometheus: None,
        };
        let console = ConsoleSetup::new(self.page, surroundings, Box::new(serving))?;
        let routes = console.start(load.clone(), &tasks.tracker, drain);
        // What is not the console's is answered as on the API's port.
        let routes = routes.fallback_service(site.frontend.service());
        let listening = Listening {
            visitors: self.visitors,
            ..listening.clone()
        };
        let serving = frontend::serve(self.listener, routes, listening, drain.clone());
        tasks.spawn(serving);
        if let Some(opening) = opening {
            tasks.spawn_until_stop(opening.run());
        }
        match load {
            Load::Here(load) => Ok(Some(load)),
            Load::Elsewhere(_) | Load::None => Ok(None),
        }
    }
}

impl ConsoleSite<'_> {
    /// HTTP on this machine. Where the API speaks HTTPS, a listener of its own on loopback: the load
    /// generator need not know whom the certificate names.
    async fn inside(
        &self,
        listening: &Listening,
        tasks: &Tasks,
        drain: &CancellationToken,
    ) -> io::Result<SocketAddr> {
        if listening.tls.is_none() {
            return Ok(self.api);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let plain = Listening {
            tls: None,
            ..listening.clone()
        };
        let routes = self.frontend.service();
        tasks.spawn(frontend::serve(listener, routes, plain, drain.clone()));
        Ok(address)
    }

    async fn load_generator(
        &self,
        plan: LoadPlan,
        api_key: Option<&str>,
        api: SocketAddr,
    ) -> anyhow::Result<PreparedLoad> {
        let models = self.frontend.routers();
        let target = LoadTarget {
            url: format!("http://{api}"),
            model: models.first().map_or("", |model| model.model.as_str()),
            api_key,
            clock: self.clock,
            registry: self.registry,
        };
        load_generator(plan, target).await
    }
}
