//! `homing frontend`: the OpenAI-compatible server over workers on other machines.

use std::net::SocketAddr;

use contract::{Clock, FrontendId};
use frontend::{Frontend, FrontendConfig, Listening, Parts};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;

use super::console::ConsoleSite;
use super::doors::{Doors, Urls};
use super::keys;
use super::models::{Place, RunningModels};
use super::peers::Peers;
use crate::https::HttpsFiles;
use crate::plan::{FrontendPlan, ServingPlan, draw_id};
use crate::process::{self, Control, ReloadSignal, StopSignals};
use crate::{print, runtime, tracing_export};

pub(crate) fn run(plan: FrontendPlan) -> anyhow::Result<()> {
    let log = plan.log.clone();
    runtime::run(&log, serve(plan))
}

async fn serve(plan: FrontendPlan) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let reload = reload_signal(&plan.models)?;
    let tasks = Tasks::new();
    // Bound first: a port that is taken is the first thing to report.
    let doors = Doors::open(plan.api, plan.console).await?;
    let peers = Peers::listen(plan.peers).await?;
    let listening = secured(plan.listening, plan.https, &tasks)?;
    let greeting = Greeting::new(&plan.models, peers.address());
    let (clock, registry) = (Clock::start(), process::registry());
    let id = FrontendId(draw_id());
    let private_decisions = plan.api_key_file.is_some();
    let keys = plan.api_key_file.map(|path| keys::follow(&path, &tasks));
    let config = FrontendConfig {
        api_keys: keys.transpose()?,
        ..plan.frontend
    };
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
    let frontend = Frontend::new(config, parts);
    let shared = peers.start(id, &frontend, (clock, &registry), &tasks);
    let place = Place {
        registry: registry.clone(),
        clock,
        id,
        shared,
        grace: plan.grace,
    };
    let mut models = RunningModels::start(frontend.clone(), place, plan.models, &tasks).await?;
    let drain = CancellationToken::new();
    let urls = doors.urls(listening.tls.as_ref())?;
    let site = ConsoleSite {
        frontend: &frontend,
        access: plan.control.access.clone(),
        private_decisions,
        api: doors.inside()?,
        status_page: format!("{}/", urls.api),
        subtitle: greeting.subtitle(),
        clock,
        registry: &registry,
    };
    let opening = doors.serve(site, listening, &tasks, &drain);
    let load = tokio::select! {
        load = opening => {
            let load = load?;
            greeting.print(&plan.control, &urls);
            until_stopped(&mut signals, reload, &mut models).await;
            load
        }
        // The load generator's texts may be far away.
        () = signals.next() => None,
    };
    if let Some(load) = load {
        // Nobody reads those answers, so nobody waits for them.
        load.stop().await;
    }
    let finished = async {
        frontend.close();
        drain.cancel();
        frontend.idle().await;
        tasks.finish().await;
    };
    process::drain(&mut signals, plan.grace, || frontend.in_flight(), finished).await;
    Ok(())
}

/// With the certificate, if there is one, which is followed from now on.
fn secured(
    listening: Listening,
    files: Option<HttpsFiles>,
    tasks: &Tasks,
) -> anyhow::Result<Listening> {
    let Some(files) = files else {
        return Ok(listening);
    };
    let https = files.open()?;
    let tls = Some(https.tls.clone());
    tasks.spawn(https.follow(tasks.stop.clone()));
    Ok(Listening { tls, ..listening })
}

/// Without a list of models there is nothing to read again, and the signal ends the process.
fn reload_signal(models: &[ServingPlan]) -> anyhow::Result<Option<ReloadSignal>> {
    let lists_models = models.iter().any(|model| model.words.is_some());
    lists_models.then(ReloadSignal::listen).transpose()
}

/// Reads the models again whenever it is asked to.
async fn until_stopped(
    signals: &mut StopSignals,
    mut reload: Option<ReloadSignal>,
    models: &mut RunningModels,
) {
    loop {
        tokio::select! {
            () = signals.next() => break,
            () = asked_to_reload(reload.as_mut()) => models.reload().await,
        }
    }
}

async fn asked_to_reload(signal: Option<&mut ReloadSignal>) {
    match signal {
        Some(signal) => signal.next().await,
        None => std::future::pending().await,
    }
}

/// What is printed once it listens.
struct Greeting {
    /// Name, router mode and workers of each.
    models: Vec<[String; 3]>,
    /// Where other frontends reach it.
    peers: Option<SocketAddr>,
}

impl Greeting {
    fn new(models: &[ServingPlan], peers: Option<SocketAddr>) -> Self {
        let about = |plan: &ServingPlan| {
            let mode = plan.router.mode.name().to_string();
            [
                plan.served.model.to_string(),
                mode,
                plan.workers.to_string(),
            ]
        };
        Self {
            models: models.iter().map(about).collect(),
            peers,
        }
    }

    /// What serves, for the console's heading.
    fn subtitle(&self) -> String {
        let workers = self.models.iter().map(|[_, _, workers]| workers.as_str());
        let workers: Vec<&str> = workers.collect();
        format!("Powered by Homing; workers: {}", workers.join("; "))
    }

    fn print(&self, control: &Control, urls: &Urls) {
        let api = &urls.api;
        let version = env!("CARGO_PKG_VERSION");
        match &self.models[..] {
            [[model, mode, _]] => print::line(format_args!(
                "Homing {version} serves {model}, router {mode}\n"
            )),
            models => print::line(format_args!(
                "Homing {version} serves {} models\n",
                models.len()
            )),
        }
        print::line(format_args!(
            "  api      {api}/v1\n  metrics  {api}/metrics"
        ));
        match &self.models[..] {
            [[_, _, workers]] => print::line(format_args!("  workers  {workers}")),
            models => {
                for [model, mode, workers] in models {
                    print::line(format_args!("  model    {model}, router {mode}: {workers}"));
                }
            }
        }
        if let Some(console) = &urls.console {
            print::line(format_args!("  console  {console}"));
        }
        if let Some(peers) = self.peers {
            print::line(format_args!("  peers    {peers}"));
        }
        if let Some(news) = control.news() {
            print::line(format_args!("  {news}"));
        }
        print::line(format_args!("\nCtrl-C stops it."));
    }
}
