//! `homing demo`: the whole system in one process.
//!
//! Builds the parts in the order a request meets them, prints where they listen, and on
//! SIGTERM or Ctrl-C takes them down in the opposite order: stop load, refuse new requests,
//! finish the running streams, stop the engines.

pub(crate) mod baseline;
mod console;
mod signals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::console::Console;
use anyhow::Context as _;
use contract::{Clock, FrontendId, Hashing, Visitors};
use frontend::{Access, FaultLimits, FleetCommand, Frontend, FrontendConfig, Listening, Parts};
use loadgen::LoadGenerator;
use loadgen::client::{Transport, TransportOptions};
use router::Router;
use tasks::Tasks;
use telemetry::{Registry, catalog};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transport::roster;
use worker::WorkerContext;

use crate::args::DemoArgs;
use crate::backend::{Asked, Backend};
use crate::fleet::Fleet;
use crate::observability::{Observability, Watched};
use crate::print;
use crate::runtime;

pub(crate) use self::signals::StopSignals;
pub(crate) use self::signals::stop_signal;

/// Commands to the fleet that may wait: they are typed by people.
const COMMANDS: usize = 16;

pub(crate) fn run(args: Box<DemoArgs>) -> anyhow::Result<()> {
    let log = args.general.log.clone();
    runtime::run(&log, demo(*args))
}

async fn demo(args: DemoArgs) -> anyhow::Result<()> {
    // From here on a signal is heard by whoever waits for one, and stops nothing half-way.
    let signals = StopSignals::listen()?;
    // Bound first: a port that is taken should be the first thing to hear about.
    let api = listen(&args, args.http_port, "--http-port").await?;
    let console = listen(&args, args.console_port, "--console-port").await?;
    let given = console::Given::read(&args)?;
    let beside = match args.beside.observability {
        false => None,
        true => {
            let watched = Watched {
                api: console::reachable(api.local_addr()?),
                lines: console::reference_lines(&args, &given),
            };
            Some(Observability::start(&args.beside, &watched).await?)
        }
    };
    let doors = Doors {
        api,
        console,
        signals,
    };
    let outcome = system(&args, doors, given, beside.as_ref()).await;
    if let Some(beside) = beside {
        beside.stop().await;
    }
    outcome
}

/// Starts the system and serves until a signal.
async fn system(
    args: &DemoArgs,
    doors: Doors,
    mut given: console::Given,
    beside: Option<&Observability>,
) -> anyhow::Result<()> {
    let addresses = [doors.api.local_addr()?, doors.console.local_addr()?];
    if let Some(url) = beside.and_then(Observability::prometheus_url) {
        given.ask(url)?;
    }
    let system = System::start(args).await?;
    let facade = console::facade(args, &system, addresses[0], given)?;
    let load = match args.no_load {
        true => None,
        false => Some(console::load_generator(args, &system, addresses[0])?),
    };
    system.greet(args, addresses, beside);
    let outside = Outside {
        doors,
        load,
        autostart: args.autostart,
        grace: args.limits.shutdown_grace,
        listening: args.limits.listening(Visitors::new(
            args.host.is_loopback(),
            false,
            &args.allowed_hosts,
        )),
    };
    system.serve(outside, facade).await
}

/// Where others come in, and what makes it close.
struct Doors {
    api: TcpListener,
    console: TcpListener,
    signals: StopSignals,
}

/// What stands before the system.
struct Outside {
    doors: Doors,
    load: Option<LoadGenerator>,
    autostart: bool,
    /// How long running streams may take to finish.
    grace: Duration,
    listening: Listening,
}

/// Everything that runs behind the listeners.
struct System {
    backend: Arc<Backend>,
    workers: u32,
    access: Access,
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
    async fn start(args: &DemoArgs) -> anyhow::Result<Self> {
        let (backend, preprocessor) = Backend::read(Asked {
            profile: &args.profile,
            seed: args.seed,
            block_size: args.kv_cache_block_size,
            model: &args.model,
            llama: &args.llama,
            workers: args.workers,
        })?;
        let backend = Arc::new(backend);
        let access = access(args);
        let clock = Clock::start();
        let registry = Registry::new();
        registry
            .gauge(&catalog::BUILD_INFO, &[env!("CARGO_PKG_VERSION")])
            .set(1.0);
        let router = args.routing.config(args.seed, backend.block_size())?;
        let (roster, changes) = roster();
        let (sender, commands) = mpsc::channel(COMMANDS);
        let tasks = Tasks::new();
        let router = Router::new(router, &registry, clock);
        let parts = Parts {
            model: backend.model().clone(),
            preprocessor,
            router: router.clone(),
            registry: registry.clone(),
            clock,
            id: FrontendId(0),
            fleet_commands: Some(sender),
        };
        let config = FrontendConfig {
            max_requests: args.limits.max_requests,
            max_body_bytes: args.limits.max_body_bytes,
            max_buffered_bytes: args.limits.max_buffered_bytes,
            max_queue_wait: Some(args.routing.max_queue_wait),
            trust_priority: args.routing.trust_priority_header,
            access: access.clone(),
            api_keys: None,
            block_size: backend.block_size() as usize,
            hashing: Hashing::default(),
            faults: FaultLimits::default(),
            slow_reader_timeout: args.limits.slow_reader_timeout,
        };
        let frontend = Frontend::start(config, parts, changes, &tasks);
        let workers = args.workers.unwrap_or(backend.workers());
        let context = WorkerContext {
            clock,
            registry: registry.clone(),
            epoch: epoch(),
        };
        let most = workers.max(args.max_workers) as usize;
        let mut fleet = Fleet::new(Arc::clone(&backend), context, roster, most);
        for _ in 0..workers {
            fleet.add().await?;
        }
        Ok(Self {
            backend,
            workers,
            access,
            frontend,
            router,
            registry,
            clock,
            fleet,
            commands,
            tasks,
        })
    }

    fn greet(
        &self,
        args: &DemoArgs,
        [api, console]: [SocketAddr; 2],
        beside: Option<&Observability>,
    ) {
        let model = self.backend.model();
        print::line(format_args!(
            "Homing {} serves {model} on {}, router {}\n",
            env!("CARGO_PKG_VERSION"),
            self.backend.describe(self.workers),
            args.routing.router_mode,
        ));
        let mut addresses = vec![
            ("api", format!("http://{api}/v1")),
            ("console", format!("http://{console}")),
            ("metrics", format!("http://{api}/metrics")),
        ];
        addresses.extend(beside.into_iter().flat_map(Observability::lines));
        let width = addresses.iter().map(|(name, _)| name.len()).max();
        let width = width.unwrap_or_default();
        for (name, address) in addresses {
            print::line(format_args!("  {name:<width$}  {address}"));
        }
        if let (Access::Token(token), None) = (&self.access, &args.control_token) {
            print::line(format_args!(
                "  control token (made up for this run): {token}"
            ));
        }
        print::line(format_args!(
            "\nTry:  curl http://{api}/v1/chat/completions -H 'content-type: application/json' \\\n        \
             -d '{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"user\",\"content\":\"What is a TLB?\"}}]}}'\n\n\
             Ctrl-C stops it."
        ));
    }

    /// Serves until a signal, then takes the system down: no load, no new requests, running
    /// streams to their end, engines, the rest. A second signal, or the end of the grace, cuts
    /// it short.
    async fn serve(self, outside: Outside, facade: console::Facade) -> anyhow::Result<()> {
        let Self {
            frontend,
            fleet,
            commands,
            tasks,
            ..
        } = self;
        let Outside {
            doors,
            load,
            autostart,
            grace,
            listening,
        } = outside;
        let mut signals = doors.signals;
        let drain = CancellationToken::new();
        let console = Console::new(facade.config, facade.system, load.clone(), drain.clone());
        tasks.spawn(console.clone().keep_history());
        if let Some(gpus) = facade.gpus {
            let transport = Transport::network(TransportOptions::default());
            tasks.spawn(gpus.poll(transport, drain.clone()));
        }
        // What is not the console's is answered as on the API's port.
        let console = console.service().fallback_service(frontend.service());
        for (listener, routes) in [(doors.api, frontend.service()), (doors.console, console)] {
            let listening = listening.clone();
            tasks.spawn(frontend::serve(listener, routes, listening, drain.clone()));
        }
        let stop_workers = CancellationToken::new();
        let workers = tasks.spawn(fleet.run(commands, stop_workers.clone()));
        if let (Some(load), true) = (&load, autostart) {
            load.start().await;
        }
        signals.next().await;
        if let Some(load) = load {
            // Nobody reads those answers, so nobody waits for them.
            load.stop().await;
        }
        print::line(format_args!(
            "finishing {} running request(s) ...",
            frontend.in_flight()
        ));
        frontend.close();
        drain.cancel();
        let finished = async {
            frontend.idle().await;
            tasks.stop.cancel();
            stop_workers.cancel();
            // Fails only if the task panicked, which has been reported by then.
            let _ = workers.await;
            tasks.finish().await;
        };
        tokio::select! {
            () = finished => {}
            () = tokio::time::sleep(grace) => {
                print::line(format_args!("gave up on {} request(s)", frontend.in_flight()));
            }
            () = signals.next() => {}
        }
        Ok(())
    }
}

async fn listen(args: &DemoArgs, port: u16, option: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(args.host, port);
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} ({option}; 0 picks a free port)"))
}

/// Whoever can reach a loopback listener may change things; beyond it a token is needed, and
/// one is made up if none was given.
fn access(args: &DemoArgs) -> Access {
    match &args.control_token {
        Some(token) => Access::Token(token.clone()),
        None if args.host.is_loopback() => Access::Open,
        None => Access::Token(frontend::random_token()),
    }
}

/// Distinguishes this run of a worker from earlier ones: the time it started.
fn epoch() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    since.as_secs()
}
