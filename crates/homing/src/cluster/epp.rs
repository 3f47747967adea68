//! `homing epp`: picks endpoints for a gateway that carries the requests itself.

use std::net::SocketAddr;

use anyhow::Context as _;
use contract::{Clock, FrontendId};
use epp::Service;
use frontend::{Frontend, Parts};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::models::{Place, RunningModels};
use super::peers::Peers;
use crate::plan::{EppPlan, ServingPlan, draw_id};
use crate::process::{self, Control, StopSignals};
use crate::{print, runtime, tracing_export};

pub(crate) fn run(plan: EppPlan) -> anyhow::Result<()> {
    let log = plan.log.clone();
    runtime::run(&log, serve(plan))
}

async fn serve(plan: EppPlan) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let grpc = plan.grpc.listen().await?;
    let health = plan.health.listen().await?;
    let inside = plan.inside.listen().await?;
    let peers = Peers::listen(plan.peers).await?;
    let addresses = [
        grpc.local_addr()?,
        health.local_addr()?,
        inside.local_addr()?,
    ];
    let greeting = Greeting::new(&plan.model, addresses, plan.identity.is_some(), &peers);
    let tasks = Tasks::new();
    let (clock, registry) = (Clock::start(), process::registry());
    let id = FrontendId(draw_id());
    let (tracer, recorder) = tracing_export::start(plan.tracing, clock, &registry, &tasks).await?;
    let parts = Parts {
        registry: registry.clone(),
        clock,
        id,
        fleet_commands: None,
        shares_engines: peers.may_be(),
        tracer,
        recorder,
    };
    let frontend = Frontend::new(plan.frontend, parts);
    let shared = peers.start(id, &frontend, (clock, &registry), &tasks);
    let place = Place {
        registry,
        clock,
        id,
        shared,
        grace: plan.grace,
    };
    let _models = RunningModels::start(frontend.clone(), place, vec![plan.model], &tasks).await?;
    let stop = CancellationToken::new();
    let service = Service {
        picker: frontend.picker(plan.pick),
        frontend: frontend.clone(),
        streams: tasks.tracker.clone(),
        stop: stop.clone(),
    };
    tasks.spawn(frontend::serve(
        inside,
        frontend.control_service(),
        plan.listening,
        tasks.stop.clone(),
    ));
    let checks = epp::server::serve_health(service.clone(), health);
    tasks.spawn(async move {
        if let Err(error) = checks.await {
            error!(%error, "health checks are no longer answered");
        }
    });
    let identity = plan.identity;
    let mut picks = tasks.spawn(async move { epp::serve(service, grpc, identity.as_ref()).await });
    greeting.print(&plan.control);
    tokio::select! {
        () = signals.next() => {}
        ended = &mut picks => return ended?.context("--grpc-port"),
    }
    let finished = async {
        stop.cancel();
        frontend.idle().await;
        tasks.finish().await;
    };
    process::drain(&mut signals, plan.grace, || frontend.in_flight(), finished).await;
    Ok(())
}

/// What is printed once it listens.
struct Greeting {
    model: String,
    mode: String,
    endpoints: String,
    /// Of picks, health checks and metrics.
    addresses: [SocketAddr; 3],
    encrypted: bool,
    /// Where other pickers reach it.
    peers: Option<SocketAddr>,
}

impl Greeting {
    fn new(
        model: &ServingPlan,
        addresses: [SocketAddr; 3],
        encrypted: bool,
        peers: &Peers,
    ) -> Self {
        Self {
            model: model.served.model.to_string(),
            mode: model.router.mode.name().to_string(),
            endpoints: model.workers.to_string(),
            addresses,
            encrypted,
            peers: peers.address(),
        }
    }

    fn print(&self, control: &Control) {
        let Self {
            model,
            mode,
            endpoints,
            addresses: [grpc, health, inside],
            encrypted,
            peers,
        } = self;
        let version = env!("CARGO_PKG_VERSION");
        let tls = match encrypted {
            true => "TLS",
            false => "in the clear",
        };
        print::line(format_args!(
            "Homing {version} picks endpoints for {model}, router {mode}\n"
        ));
        print::line(format_args!(
            "  ext_proc   {grpc} ({tls})\n  health     {health}\n  metrics    http://{inside}/metrics\n  \
             decisions  http://{inside}/decisions\n  endpoints  {endpoints}"
        ));
        if let Some(peers) = peers {
            print::line(format_args!("  peers      {peers}"));
        }
        if let Some(news) = control.news() {
            print::line(format_args!("  {news}"));
        }
        print::line(format_args!("\nCtrl-C stops it."));
    }
}
