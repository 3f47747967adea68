//! `homing demo`: the whole system in one process.
//!
//! Builds the parts in the order a request meets them, prints where they listen, and on
//! SIGTERM or Ctrl-C takes them down in the opposite order: stop load, refuse new requests,
//! finish the running streams, stop the engines.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::console::Load;
use contract::{Clock, FrontendId};
use frontend::{FleetCommand, Frontend, FrontendConfig, Listening, ModelParts, Parts, Tls};
use router::{Router, RouterConfig};
use tasks::Tasks;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transport::roster;
use worker::WorkerContext;

use crate::backend::Backend;
use crate::console::{
    ConsoleSetup, LoadTarget, PreparedLoad, Serving, Surroundings, load_generator,
};
use crate::fleet::Fleet;
use crate::https::{Https, HttpsFiles};
use crate::observability::{Observability, Watched};
use crate::plan::{BackendPlan, ConsolePlan, DemoPlan, LoadPlan, ObservabilityPlan, TracingPlan};
use crate::process::{self, Control, StopSignals, reachable};
use crate::{https, print, runtime, tracing_export};

/// Commands to the fleet that may wait: they are typed by people.
const COMMANDS: usize = 16;

pub(crate) fn run(plan: DemoPlan) -> anyhow::Result<()> {
    let log = plan.log.clone();
    runtime::run(&log, demo(plan))
}

async fn demo(plan: DemoPlan) -> anyhow::Result<()> {
    // From here on a signal reaches the code that waits for one, and stops nothing half-way.
    let signals = StopSignals::listen()?;
    // Bound first: a port that is taken is the first thing to report.
    let mut listeners = Listeners {
        api: plan.api.listen().await?,
        console: plan.console_at.listen().await?,
        inner: None,
    };
    let https = plan.https.map(HttpsFiles::open).transpose()?;
    if https.is_some() {
        listeners.inner = Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    }
    let beside = observability(plan.observability, &plan.console, &listeners).await?;
    let parts = SystemPlan {
        backend: plan.backend,
        max_workers: plan.max_workers as usize,
        router: plan.router,
        frontend: plan.frontend,
        control: plan.control,
        tracing: plan.tracing,
    };
    let outside = EdgePlan {
        listeners,
        listening: plan.listening,
        https,
        load: plan.load,
        console: plan.console,
        grace: plan.grace,
    };
    let outcome = serve(parts, outside, signals, beside.as_ref()).await;
    if let Some(beside) = beside {
        beside.stop().await;
    }
    outcome
}

async fn observability(
    plan: Option<ObservabilityPlan>,
    console: &ConsolePlan,
    listeners: &Listeners,
) -> anyhow::Result<Option<Observability>> {
    let Some(plan) = plan else {
        return Ok(None);
    };
    let watched = Watched {
        api: listeners.inside()?,
        lines: console.lines.clone(),
    };
    Ok(Some(Observability::start(&plan, &watched).await?))
}

/// Starts the system and serves until a signal.
async fn serve(
    plan: SystemPlan,
    outside: EdgePlan,
    signals: StopSignals,
    beside: Option<&Observability>,
) -> anyhow::Result<()> {
    let system = System::start(plan).await?;
    let EdgePlan {
        listeners,
        mut listening,
        https,
        load,
        mut console,
        grace,
    } = outside;
    if let Some(https) = https {
        listening.tls = Some(https.tls.clone());
        system.tasks.spawn(https.follow(system.tasks.stop.clone()));
    }
    let urls = listeners.urls(listening.tls.as_ref())?;
    system.greet(&urls, beside);
    let inside = listeners.inside()?;
    let load = match load {
        Some(plan) => Some(system.load_generator(plan, inside).await?),
        None => None,
    };
    let prometheus = beside.and_then(Observability::prometheus_url);
    if let Some(beside) = beside {
        console.parts.extend(beside.parts());
    }
    let console = system.console(console, urls.status_page, prometheus)?;
    let running = Running {
        listeners,
        listening,
        load,
        grace,
    };
    system.serve(running, console, signals).await
}

/// Where clients come in.
struct Listeners {
    api: TcpListener,
    console: TcpListener,
    /// HTTP on loopback where the others speak HTTPS: the load generator and Prometheus need not
    /// know whom the certificate names.
    inner: Option<TcpListener>,
}

/// Where clients find them.
struct Urls {
    api: String,
    console: String,
    /// What the console's pages refer to.
    status_page: String,
}

impl Listeners {
    /// Where this machine reaches the API over HTTP.
    fn inside(&self) -> io::Result<SocketAddr> {
        let listener = self.inner.as_ref().unwrap_or(&self.api);
        Ok(reachable(listener.local_addr()?))
    }

    fn urls(&self, tls: Option<&Tls>) -> io::Result<Urls> {
        Ok(Urls {
            api: https::url(tls, self.api.local_addr()?),
            console: https::url(tls, self.console.local_addr()?),
            status_page: {
                let api = reachable(self.api.local_addr()?);
                format!("{}/", https::url(tls, api))
            },
        })
    }
}

/// What stands before the system, as planned.
struct EdgePlan {
    listeners: Listeners,
    listening: Listening,
    https: Option<Https>,
    load: Option<LoadPlan>,
    console: ConsolePlan,
    grace: Duration,
}

/// The same, started.
struct Running {
    listeners: Listeners,
    listening: Listening,
    load: Option<PreparedLoad>,
    /// How long running streams may take to finish.
    grace: Duration,
}

/// What the system is built from.
struct SystemPlan {
    backend: BackendPlan,
    max_workers: usize,
    router: RouterConfig,
    frontend: FrontendConfig,
    control: Control,
    tracing: TracingPlan,
}

/// Everything that runs behind the listeners.
struct System {
    backend: Arc<Backend>,
    workers: u32,
    control: Control,
    frontend: Frontend,
    router: Router,
    registry: Registry,
    clock: Clock,
    fleet: Fleet,
    commands: mpsc::Receiver<FleetCommand>,
    /// The frontend's own tasks.
    tasks: Tasks,
}

impl System {
    async fn start(plan: SystemPlan) -> anyhow::Result<Self> {
        let SystemPlan {
            backend,
            max_workers,
            router,
            frontend,
            control,
            tracing,
        } = plan;
        let workers = backend.workers;
        let (backend, preprocessor) = Backend::read(backend)?;
        let backend = Arc::new(backend);
        let clock = Clock::start();
        let registry = process::registry();
        let (roster, changes) = roster();
        let (sender, commands) = mpsc::channel(COMMANDS);
        let tasks = Tasks::new();
        let router = Router::new(router, &registry, clock);
        let (tracer, recorder) = tracing_export::start(tracing, clock, &registry, &tasks).await?;
        let parts = Parts {
            registry: registry.clone(),
            clock,
            id: FrontendId(0),
            fleet_commands: Some(sender),
            shares_engines: false,
            tracer,
            recorder,
        };
        let frontend = Frontend::new(frontend, parts);
        let model = ModelParts {
            name: backend.model().clone(),
            preprocessor,
            router: router.clone(),
            adapters: Vec::new(),
            changes,
        };
        frontend.serve_model(model, &tasks);
        let context = WorkerContext {
            clock,
            registry: registry.clone(),
            epoch: process::unix_ms(),
        };
        let mut fleet = Fleet::new(Arc::clone(&backend), context, roster, max_workers);
        for _ in 0..workers {
            fleet.add().await?;
        }
        Ok(Self {
            backend,
            workers,
            control,
            frontend,
            router,
            registry,
            clock,
            fleet,
            commands,
            tasks,
        })
    }

    /// What serves, in words.
    fn describe(&self) -> String {
        self.backend.describe(self.workers)
    }

    /// One that talks to this process's API as any client would.
    async fn load_generator(
        &self,
        plan: LoadPlan,
        api: SocketAddr,
    ) -> anyhow::Result<PreparedLoad> {
        let target = LoadTarget {
            url: format!("http://{api}"),
            model: self.backend.model().as_str(),
            api_key: None,
            clock: self.clock,
            registry: &self.registry,
        };
        load_generator(plan, target).await
    }

    fn console(
        &self,
        plan: ConsolePlan,
        status_page: String,
        prometheus: Option<&str>,
    ) -> anyhow::Result<ConsoleSetup> {
        let surroundings = Surroundings {
            // Workers may be replaced by others: which they are, each says itself.
            subtitle: match &*self.backend {
                Backend::Simulated(_) => {
                    format!("Powered by Homing, on {} simulated workers", self.workers)
                }
                Backend::Llama(_) | Backend::Cuda(_) => {
                    format!("Powered by Homing, on {}", self.describe())
                }
            },
            access: self.control.access.clone(),
            private_decisions: false,
            status_page,
            prometheus,
        };
        let serving = Serving {
            frontend: self.frontend.clone(),
            gpus: plan.gpus.clone(),
            profiles: self.backend.profiles(),
        };
        ConsoleSetup::new(plan, surroundings, Box::new(serving))
    }

    fn greet(&self, urls: &Urls, beside: Option<&Observability>) {
        let model = self.backend.model();
        print::line(format_args!(
            "Homing {} serves {model} on {}, router {}\n",
            env!("CARGO_PKG_VERSION"),
            self.describe(),
            self.router.mode().name(),
        ));
        print_addresses(urls, beside);
        if let Some(news) = self.control.news() {
            print::line(format_args!("  {news}"));
        }
        print::line(format_args!(
            "\nTry:  curl {api}/v1/chat/completions -H 'content-type: application/json' \\\n        \
             -d '{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\"What is a TLB?\"}}]}}'\n\n\
             Ctrl-C stops it.",
            api = urls.api,
        ));
    }

    /// Serves until a signal, then takes the system down: no load, no new requests, running
    /// streams to their end, engines, the rest. A second signal, or the end of the grace, cuts
    /// it short.
    async fn serve(
        self,
        running: Running,
        console: ConsoleSetup,
        mut signals: StopSignals,
    ) -> anyhow::Result<()> {
        let Self {
            frontend,
            fleet,
            commands,
            tasks,
            ..
        } = self;
        let Running {
            listeners,
            listening,
            load,
            grace,
        } = running;
        let (load, opening) = match load {
            Some(load) => (Some(load.generator), Some(load.opening)),
            None => (None, None),
        };
        let drain = CancellationToken::new();
        let shown = load.clone().map_or(Load::None, Load::Here);
        let console = console.start(shown, &tasks.tracker, &drain);
        // What is not the console's is answered as on the API's port.
        let console = console.fallback_service(frontend.service());
        let plain = Listening {
            tls: None,
            ..listening.clone()
        };
        let inner = listeners
            .inner
            .map(|inner| (inner, frontend.service(), plain));
        let outer = [
            (listeners.api, frontend.service(), listening.clone()),
            (listeners.console, console, listening),
        ];
        for (listener, routes, listening) in outer.into_iter().chain(inner) {
            tasks.spawn(frontend::serve(listener, routes, listening, drain.clone()));
        }
        let stop_workers = CancellationToken::new();
        let mut workers = tasks.spawn(fleet.run(commands, stop_workers.clone()));
        if let Some(opening) = opening {
            tasks.spawn_until_stop(opening.run());
        }
        // The fleet ends before it is asked to only when its last worker failed.
        let lost = tokio::select! {
            () = signals.next() => None,
            ended = &mut workers => Some(ended),
        };
        if let Some(load) = load {
            // Nobody reads those answers, so nobody waits for them.
            load.stop().await;
        }
        let finished = async {
            frontend.close();
            drain.cancel();
            frontend.idle().await;
            tasks.stop.cancel();
            stop_workers.cancel();
            // For the fleet too.
            tasks.finish().await;
        };
        process::drain(&mut signals, grace, || frontend.in_flight(), finished).await;
        lost.map_or(Ok(()), |ended| ended?)
    }
}

fn print_addresses(urls: &Urls, beside: Option<&Observability>) {
    let mut addresses = vec![
        ("api", format!("{}/v1", urls.api)),
        ("console", urls.console.clone()),
        ("metrics", format!("{}/metrics", urls.api)),
    ];
    addresses.extend(beside.into_iter().flat_map(Observability::lines));
    let width = addresses.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or_default();
    for (name, address) in addresses {
        print::line(format_args!("  {name:<width$}  {address}"));
    }
}
