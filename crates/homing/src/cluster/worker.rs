//! `homing worker`: one engine, served to frontends on other machines.
//!
//! On SIGTERM it takes its registration back, tells its frontends to send nothing more, and
//! finishes what it runs. What has not finished when the grace is over is broken off, and
//! frontends move it to another worker.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Json;
use axum::routing::get;
use contract::{Clock, WorkerCard, WorkerId};
use frontend::Listening;
use http::{StatusCode, header};
use remote::discovery::Registered;
use remote::events::{Plane, Publisher, topic};
use remote::registration::{EventAddress, Registration};
use remote::serve::{ServeConfig, Service};
use remote::wire::Sender;
use serde_json::json;
use tasks::Tasks;
use telemetry::Registry;
use worker::{Worker, WorkerContext};

use crate::backend::Backend;
use crate::plan::{EventsPlan, RegistrationPlan, WorkerPlan};
use crate::process::{self, StopSignals};
use crate::{print, runtime};

pub(crate) fn run(plan: WorkerPlan) -> anyhow::Result<()> {
    let log = plan.log.clone();
    runtime::run(&log, serve(plan))
}

/// A client of the metrics that reads nothing for so long is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

async fn serve(mut plan: WorkerPlan) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let listener = plan.requests.listen().await?;
    let metrics = match plan.metrics {
        Some(endpoint) => Some(endpoint.listen().await?),
        None => None,
    };
    let (registration_plan, grace) = (plan.registration.take(), plan.grace);
    let parts = Parts {
        clock: Clock::start(),
        registry: process::registry(),
        tasks: Tasks::new(),
        listening: listener.local_addr()?,
    };
    let Started {
        worker,
        service,
        registration,
    } = start(plan, &parts).await?;
    let Parts {
        clock,
        registry,
        tasks,
        ..
    } = parts;
    let server = tasks.spawn(service.clone().listen(listener));
    if let Some(listener) = metrics {
        print::line(format_args!(
            "  metrics  http://{}/metrics",
            listener.local_addr()?
        ));
        let routes = routes(registry, clock, service.clone());
        let listening = Listening {
            patience: PATIENCE,
            ..Listening::default()
        };
        tasks.spawn(frontend::serve(
            listener,
            routes,
            listening,
            tasks.stop.clone(),
        ));
    }
    let registered = registration_plan.map(|plan| register(plan, &registration, &tasks));
    let registered = registered.transpose()?;
    tokio::select! {
        () = signals.next() => {}
        () = worker.failed() => {
            // Nobody should find this worker any more, and its operator must know.
            if let Some(registered) = registered {
                registered.withdraw().await;
            }
            tasks.stop.cancel();
            bail!("the engine failed; see its log");
        }
    }
    let finished = async {
        if let Some(registered) = registered {
            registered.withdraw().await;
        }
        service.drain();
        worker.drain().await;
        // Ends with the engine; an error was its listener's and is too late to act on.
        let _ = server.await;
    };
    process::drain(&mut signals, grace, || service.requests(), finished).await;
    tasks.stop.cancel();
    Ok(())
}

/// What the parts of a worker share.
struct Parts {
    clock: Clock,
    registry: Registry,
    tasks: Tasks,
    listening: SocketAddr,
}

struct Started {
    worker: Worker,
    service: Service,
    registration: Registration,
}

/// Starts the engine, its event plane and its service, and prints so.
async fn start(plan: WorkerPlan, parts: &Parts) -> anyhow::Result<Started> {
    let (backend, _) = Backend::read(plan.backend)?;
    let card = backend.card(WorkerId(plan.id), &plan.name);
    let host = match plan.advertise {
        Some(host) => host,
        None if parts.listening.is_ipv6() => format!("[{}]", parts.listening.ip()),
        None => parts.listening.ip().to_string(),
    };
    let sender = Sender {
        worker: card.id,
        epoch: process::unix_ms(),
    };
    let bind = plan.requests.address.ip().to_string();
    let plane = plane(plan.events, bind, &host);
    let publisher = open(&plane, &topic(&plan.cluster, sender), &parts.tasks).await?;
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    let registration = Registration {
        cluster: plan.cluster,
        card: card.clone(),
        epoch: sender.epoch,
        address: format!("{scheme}://{host}:{}", parts.listening.port()),
        events: publisher.address().clone(),
    };
    let context = WorkerContext {
        clock: parts.clock,
        registry: parts.registry.clone(),
        epoch: sender.epoch,
    };
    let (worker, member) = backend.start(card.clone(), &context)?;
    let config = ServeConfig {
        registration: registration.clone(),
        clock: parts.clock,
        max_requests: plan.max_requests,
        tls: plan.tls,
    };
    let service = Service::start(config, member, publisher, &parts.tasks.tracker);
    greet(&card, &registration, &plane);
    Ok(Started {
        worker,
        service,
        registration,
    })
}

fn greet(card: &WorkerCard, registration: &Registration, plane: &Plane) {
    let events = match (&registration.events, plane) {
        (EventAddress::Nats { subject }, Plane::Nats { url }) => {
            format!("NATS at {url}, subject {subject}")
        }
        (EventAddress::Zmq { publish, replay }, _) => {
            format!("ZeroMQ, {publish}, replay {replay}")
        }
        (EventAddress::Grpc | EventAddress::Nats { .. }, _) => {
            "to each frontend directly".to_owned()
        }
    };
    print::line(format_args!(
        "Homing {} worker {} {} {} ({}), {} slots\n\n  address  {}\n  events   {events}",
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
    ));
}

async fn open(plane: &Plane, topic: &str, tasks: &Tasks) -> anyhow::Result<Publisher> {
    let publisher = Publisher::open(plane, topic, tasks).await;
    publisher.with_context(|| match plane {
        Plane::Grpc => "--events grpc",
        Plane::Nats { .. } => "--nats",
        Plane::Zmq { .. } => "--zmq-port (0 picks free ports)",
    })
}

fn register(
    plan: RegistrationPlan,
    registration: &Registration,
    tasks: &Tasks,
) -> anyhow::Result<Registered> {
    let key = remote::discovery::key(&registration.cluster, registration.card.id);
    Ok(Registered::open(
        plan.etcd.connect()?,
        key,
        registration.to_json(),
        plan.ttl,
        &tasks.tracker,
    ))
}

fn plane(plan: EventsPlan, bind: String, advertise: &str) -> Plane {
    match plan {
        EventsPlan::Grpc => Plane::Grpc,
        EventsPlan::Nats { url } => Plane::Nats { url },
        EventsPlan::Zmq { port } => Plane::Zmq {
            bind,
            advertise: advertise.to_owned(),
            port,
        },
    }
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
