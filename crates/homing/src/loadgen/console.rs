//! The web console of a load generator whose target is somewhere else.
//!
//! The target is known by its answers alone. Workers, queue and router are its own business:
//! the pages show what users feel, and say that the rest is not known here.

use std::time::Duration;

use ::console::{
    BaselineBoard, Console, ConsoleConfig, GpuSource, Refusal, RequestCounts, RouterState, Slos,
    System, SystemView,
};
use ::loadgen::LoadGenerator;
use anyhow::Context as _;
use contract::Visitors;
use frontend::Listening;
use router::RouterChange;
use stats::Objectives;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::LoadgenArgs;
use crate::https::HttpsFiles;
use crate::process::{Control, unix_ms};
use crate::{https, pages, print};

/// A page that takes nothing for so long is cut off, and will connect again.
const PATIENCE: Duration = Duration::from_secs(30);

const TITLE: &str = "Homing load generator";

/// A block is the unit of a router that is not here; this is the specification's size.
const BLOCK_SIZE: u32 = 32;

/// A server of which only the answers are seen.
#[derive(Clone, Debug)]
pub(super) struct RemoteTarget {
    pub(super) model: String,
    pub(super) simulated: bool,
}

impl System for RemoteTarget {
    fn view(&self) -> SystemView {
        SystemView {
            model: self.model.clone(),
            simulated: self.simulated,
            block_size: BLOCK_SIZE,
            router: RouterState {
                mode: "unknown".to_owned(),
                modes: Vec::new(),
                overlap_score_weight: None,
                router_temperature: None,
            },
            requests: RequestCounts {
                in_flight: None,
                queued: None,
            },
            workers: Vec::new(),
            last_decision: None,
            gpu: GpuSource::Process,
        }
    }

    fn change_router(&self, _change: RouterChange) -> Result<RouterState, Refusal> {
        Err(Refusal {
            message: "The router belongs to the target and cannot be changed from here.".to_owned(),
            field: None,
        })
    }
}

/// Serves the console, if one is wanted, until the token that is returned is cancelled.
pub(super) async fn serve(
    args: &LoadgenArgs,
    target: RemoteTarget,
    generator: &LoadGenerator,
    tasks: &TaskTracker,
) -> anyhow::Result<CancellationToken> {
    let closing = CancellationToken::new();
    let Some(port) = args.console_port else {
        return Ok(closing);
    };
    let listener = TcpListener::bind((args.console_host, port))
        .await
        .with_context(|| format!("cannot listen on port {port} (--console-port)"))?;
    let https = args.https.files().map(HttpsFiles::open).transpose()?;
    let tls = https.as_ref().map(|https| https.tls.clone());
    let url = https::url(tls.as_ref(), listener.local_addr()?);
    print::note(format_args!("console  {url}"));
    if let Some(https) = https {
        tasks.spawn(https.follow(closing.clone()));
    }
    let control = Control::new(None, args.console_host.is_loopback());
    if let Some(news) = control.news() {
        print::note(format_args!("{news}"));
    }
    let config = ConsoleConfig {
        title: TITLE.to_owned(),
        subtitle: format!("{} at {}", target.model, generator.snapshot().target.url),
        slos: objectives(args),
        access: control.access,
        assets: pages::built(),
        status_page: "/api/state".to_owned(),
        baseline: BaselineBoard::default(),
        dashboards: pages::dashboards(None)?,
        prometheus: None,
        unix_ms: unix_ms(),
    };
    let console = Console::new(
        config,
        Box::new(target),
        Some(generator.clone()),
        closing.clone(),
    );
    tasks.spawn(console.clone().keep_history());
    tasks.spawn(frontend::serve(
        listener,
        console.service(),
        Listening {
            patience: PATIENCE,
            visitors: Visitors::new(args.console_host.is_loopback(), false, &[]),
            tls,
            ..Listening::default()
        },
        closing.clone(),
    ));
    Ok(closing)
}

/// Those of the run that the pages know; the others are judged at its end.
fn objectives(args: &LoadgenArgs) -> Slos {
    let mut slos = Slos::default();
    for (name, at_most_ms) in args.slo.iter().flat_map(Objectives::limits_ms) {
        match name.as_str() {
            "ttft_p95" => slos.ttft_p95_ms = at_most_ms,
            "tpot_p95" => slos.tpot_p95_ms = at_most_ms,
            _ => {}
        }
    }
    slos
}
