//! `homing worker`: one engine, served to frontends on other machines.
//!
//! On SIGTERM it takes its registration back, tells its frontends to send nothing more, and
//! finishes what it runs. What has not finished when the grace is over is broken off, and
//! frontends move it to another worker.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use axum::Json;
use axum::routing::get;
use contract::{Clock, WorkerId};
use etcd::Etcd;
use frontend::Listening;
use http::{StatusCode, header};
use remote::discovery::Registered;
use remote::events::{Plane, Publisher, topic};
use remote::registration::{EventAddress, Registration};
use remote::serve::{ServeConfig, Service};
use remote::wire::Sender;
use serde_json::json;
use tasks::Tasks;
use telemetry::{Registry, catalog};
use tokio::net::TcpListener;
use worker::{Worker, WorkerContext};

use super::draw_id;
use crate::args::{Discovery, EventPlane, WorkerArgs};
use crate::backend::{Asked, Backend};
use crate::demo::StopSignals;
use crate::{print, runtime};

pub(crate) fn run(args: WorkerArgs) -> anyhow::Result<()> {
    runtime::run(&args.general.log.clone(), serve(args))
}

/// Whoever asks for metrics reads them.
const PATIENCE: Duration = Duration::from_secs(10);

async fn serve(args: WorkerArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let listener = listen(&args, args.port, "--port").await?;
    let metrics = match args.metrics_port {
        Some(port) => Some(listen(&args, port, "--metrics-port").await?),
        None => None,
    };
    let clock = Clock::start();
    let registry = Registry::new();
    registry
        .gauge(&catalog::BUILD_INFO, &[env!("CARGO_PKG_VERSION")])
        .set(1.0);
    let tasks = Tasks::new();
    let (worker, service, registration) =
        start(&args, &listener, (clock, &registry), &tasks).await?;
    let server = tasks.tracker.spawn(service.clone().listen(listener));
    if let Some(listener) = metrics {
        print::line(format_args!(
            "  metrics  http://{}/metrics",
            listener.local_addr()?
        ));
        let routes = routes(registry, clock, service.clone());
        tasks.tracker.spawn(frontend::serve(
            listener,
            routes,
            Listening {
                patience: PATIENCE,
                ..Listening::default()
            },
            tasks.stop.clone(),
        ));
    }
    let registered = register(&args, &registration, &tasks)?;
    tokio::select! {
        () = signals.next() => {}
        () = worker.failed() => {
            // Whoever looks for workers need not find this one, and whoever runs it must know.
            if let Some(registered) = registered {
                registered.withdraw().await;
            }
            tasks.stop.cancel();
            bail!("the engine cannot go on; its last words are in the log");
        }
    }
    print::line(format_args!(
        "finishing {} running request(s) ...",
        service.requests()
    ));
    let finished = async {
        if let Some(registered) = registered {
            registered.withdraw().await;
        }
        service.drain();
        worker.drain().await;
        // Ends with the engine; an error was its listener's and is too late to act on.
        let _ = server.await;
    };
    tokio::select! {
        () = finished => {}
        () = tokio::time::sleep(args.shutdown_grace) => {
            print::line(format_args!("gave up on {} request(s)", service.requests()));
        }
        () = signals.next() => {}
    }
    tasks.stop.cancel();
    Ok(())
}

/// Starts the engine, its event plane and its service, and says so.
async fn start(
    args: &WorkerArgs,
    listener: &TcpListener,
    (clock, registry): (Clock, &Registry),
    tasks: &Tasks,
) -> anyhow::Result<(Worker, Service, Registration)> {
    let (backend, _) = Backend::read(Asked {
        profile: &args.profile,
        seed: args.seed,
        block_size: args.kv_cache_block_size,
        model: &args.model,
        llama: &args.llama,
        workers: Some(1),
    })?;
    let id = args.worker_id.unwrap_or_else(draw_id);
    let name = args.name.clone().unwrap_or_else(|| format!("worker-{id}"));
    let card = backend.card(WorkerId(id), &name);
    let tls = args.tls.read()?;
    let host = advertised_host(args, listener.local_addr()?);
    let sender = Sender {
        worker: card.id,
        epoch: epoch(),
    };
    let plane = plane(args, &host);
    let topic = topic(&args.cluster, sender);
    let publisher = Publisher::open(&plane, &topic, tasks).await;
    let publisher = publisher.with_context(|| match args.events {
        EventPlane::Grpc => "--events grpc",
        EventPlane::Nats => "--nats",
        EventPlane::Zmq => "--zmq-port (0 picks free ports)",
    })?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let registration = Registration {
        cluster: args.cluster.clone(),
        card: card.clone(),
        epoch: sender.epoch,
        address: format!("{scheme}://{host}:{}", listener.local_addr()?.port()),
        events: publisher.address().clone(),
    };
    let context = WorkerContext {
        clock,
        registry: registry.clone(),
        epoch: sender.epoch,
    };
    let (worker, member) = backend.start(card.clone(), &context)?;
    let config = ServeConfig {
        registration: registration.clone(),
        clock,
        max_requests: args.max_requests,
        tls,
    };
    let service = Service::start(config, member, publisher, &tasks.tracker);
    print::line(format_args!(
        "Homing {} worker {} {} {} ({}), {} slots\n\n  address  {}\n  events   {}",
        env!("CARGO_PKG_VERSION"),
        card.name,
        if card.simulated {
            "SIMULATES"
        } else {
            "computes"
        },
        card.model,
        card.engine,
        card.slots,
        registration.address,
        match &registration.events {
            EventAddress::Grpc => "to each frontend directly".to_owned(),
            EventAddress::Nats { subject } => format!("NATS at {}, subject {subject}", args.nats),
            EventAddress::Zmq { publish, replay } => format!("ZeroMQ, {publish}, replay {replay}"),
        },
    ));
    Ok((worker, service, registration))
}

fn register(
    args: &WorkerArgs,
    registration: &Registration,
    tasks: &Tasks,
) -> anyhow::Result<Option<Registered>> {
    match args.discovery {
        // Nobody needs to be told: a list names it, or Kubernetes knows its pods.
        Discovery::Static | Discovery::Kubernetes => Ok(None),
        Discovery::DynamoEtcd | Discovery::DynamoFile | Discovery::DynamoKubernetes => {
            bail!("--discovery: a worker of ours does not register as one of Dynamo's")
        }
        Discovery::Etcd => {
            let key = remote::discovery::key(&args.cluster, registration.card.id);
            let registered = Registered::open(
                Etcd::connect(&args.etcd).context("--etcd")?,
                (key, registration.to_json()),
                args.registration_ttl,
                &tasks.tracker,
            );
            Ok(Some(registered))
        }
    }
}

fn plane(args: &WorkerArgs, host: &str) -> Plane {
    match args.events {
        EventPlane::Grpc => Plane::Grpc,
        EventPlane::Nats => Plane::Nats {
            url: args.nats.clone(),
        },
        EventPlane::Zmq => Plane::Zmq {
            bind: args.host.to_string(),
            advertise: host.to_owned(),
            port: args.zmq_port,
        },
    }
}

fn advertised_host(args: &WorkerArgs, listening: SocketAddr) -> String {
    match &args.advertise {
        Some(host) => host.clone(),
        None if listening.is_ipv6() => format!("[{}]", listening.ip()),
        None => listening.ip().to_string(),
    }
}

async fn listen(args: &WorkerArgs, port: u16, option: &str) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(args.host, port);
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} ({option}; 0 picks a free port)"))
}

fn routes(registry: Registry, clock: Clock, service: Service) -> axum::Router {
    let render = move || {
        let text = registry.render(clock.now() - contract::Moment::ZERO);
        async move { ([(header::CONTENT_TYPE, telemetry::CONTENT_TYPE)], text) }
    };
    let health = move || {
        let (requests, frontends) = (service.requests(), service.frontends());
        let body = json!({ "status": "healthy", "requests": requests, "frontends": frontends });
        async move { (StatusCode::OK, Json(body)) }
    };
    axum::Router::new()
        .route("/metrics", get(render))
        .route("/health", get(health))
        .route("/live", get(async || Json(json!({ "status": "live" }))))
}

/// Distinguishes this run of a worker from earlier ones: the time it started.
fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
