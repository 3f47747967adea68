//! `homing frontend`: the OpenAI-compatible server over workers on other machines.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use contract::{Clock, FrontendId};
use frontend::{Frontend, FrontendConfig, KeyRing, Parts};
use router::{Router, RouterConfig};
use tasks::Tasks;
use tokio_util::sync::CancellationToken;
use transport::roster;

use super::keys::KeyFile;
use super::membership::{self, JoinTarget};
use crate::plan::{FrontendPlan, ModelPlan, Served, WorkerSources, draw_id};
use crate::process::{self, Control, StopSignals};
use crate::{print, runtime};

pub(crate) fn run(plan: FrontendPlan) -> anyhow::Result<()> {
    let log = plan.log.clone();
    runtime::run(&log, serve(plan))
}

async fn serve(plan: FrontendPlan) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let listener = plan.api.listen().await?;
    let tasks = Tasks::new();
    let greeting = Greeting {
        mode: plan.router.mode.name().to_string(),
        workers: plan.workers.to_string(),
        model: plan.served.model.to_string(),
    };
    let parts = Wiring {
        served: plan.served,
        model: plan.model,
        router: plan.router,
        config: FrontendConfig {
            api_keys: api_keys(plan.api_key_file.as_deref(), &tasks)?,
            ..plan.frontend
        },
        workers: plan.workers,
    };
    let frontend = start(parts, &tasks).await?;
    greeting.print(&plan.control, listener.local_addr()?);
    let drain = CancellationToken::new();
    tasks.spawn(frontend::serve(
        listener,
        frontend.service(),
        plan.listening,
        drain.clone(),
    ));
    signals.next().await;
    let finished = async {
        frontend.close();
        drain.cancel();
        frontend.idle().await;
        tasks.finish().await;
    };
    process::drain(&mut signals, plan.grace, || frontend.in_flight(), finished).await;
    Ok(())
}

/// What a frontend is put together from.
struct Wiring {
    served: Served,
    model: ModelPlan,
    router: RouterConfig,
    config: FrontendConfig,
    workers: WorkerSources,
}

async fn start(wiring: Wiring, tasks: &Tasks) -> anyhow::Result<Frontend> {
    let Wiring {
        served,
        model,
        router,
        config,
        workers,
    } = wiring;
    let clock = Clock::start();
    let registry = process::registry();
    let id = FrontendId(draw_id());
    let preprocessor = model.preprocessor(served.max_context_tokens)?;
    let tokenizer = Arc::clone(preprocessor.tokenizer());
    let parts = Parts {
        model: served.model.clone(),
        preprocessor,
        router: Router::new(router, &registry, clock),
        registry: registry.clone(),
        clock,
        id,
        fleet_commands: None,
    };
    let (roster, changes) = roster();
    let frontend = Frontend::start(config, parts, changes, tasks);
    let place = JoinTarget {
        roster,
        registry,
        clock,
        frontend: id,
        tokenizer,
        served,
    };
    membership::follow(workers, place, tasks).await?;
    Ok(frontend)
}

/// The keys of the file, which is followed from now on.
fn api_keys(path: Option<&Path>, tasks: &Tasks) -> anyhow::Result<Option<KeyRing>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let file = KeyFile::open(path)?;
    let ring = file.ring.clone();
    tasks.spawn(file.follow(tasks.stop.clone()));
    Ok(Some(ring))
}

/// What is printed once it listens.
struct Greeting {
    model: String,
    mode: String,
    workers: String,
}

impl Greeting {
    fn print(&self, control: &Control, api: SocketAddr) {
        let Self {
            model,
            mode,
            workers,
        } = self;
        print::line(format_args!(
            "Homing {} serves {model}, router {mode}\n\n  api      http://{api}/v1\n  metrics  http://{api}/metrics\n  workers  {workers}",
            env!("CARGO_PKG_VERSION"),
        ));
        if let Some(news) = control.news() {
            print::line(format_args!("  {news}"));
        }
        print::line(format_args!("\nCtrl-C stops it."));
    }
}
