//! The web console of a load generator whose target is somewhere else.

use std::time::Duration;

use ::console::{Load, Slos};
use ::loadgen::LoadGenerator;
use ::loadgen::client::ServedModel;
use anyhow::Context as _;
use contract::Visitors;
use frontend::Listening;
use stats::Objectives;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::transport;
use crate::args::LoadgenArgs;
use crate::console::{ConsoleSetup, Surroundings, TargetAddress, TargetSystem};
use crate::environment::secret;
use crate::https::HttpsFiles;
use crate::plan::BaselinePlan;
use crate::process::Control;
use crate::{https, print};

/// A page that takes nothing for so long is cut off, and will connect again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the token is that changes require.
const CONTROL_TOKEN: &str = "HOMING_CONTROL_TOKEN";

/// Serves the console, if one is wanted, until the token that is returned is cancelled. `served` is
/// the target's model.
pub(super) async fn serve(
    args: &LoadgenArgs,
    served: &ServedModel,
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
    let loopback = args.console_host.is_loopback();
    let control = Control::new(secret(CONTROL_TOKEN).ok(), loopback);
    if let Some(news) = control.news() {
        print::note(format_args!("{news}"));
    }
    let (slos, no_baseline) = (objectives(args), BaselinePlan::None);
    let page = args.console.clone();
    let page = page.resolve(slos, no_baseline)?;
    let transport = transport(args, http_client::HttpOptions::default())?;
    let target = TargetSystem::new(address(args)?, transport, page.gpus.clone(), served);
    tasks.spawn(target.clone().poll(closing.clone()));
    let surroundings = Surroundings {
        subtitle: format!("{} at {}", served.name, generator.snapshot().target.url),
        access: control.access,
        private_decisions: false,
        status_page: "/api/state".to_owned(),
        prometheus: None,
    };
    let console = ConsoleSetup::new(page, surroundings, Box::new(target))?;
    let routes = console.start(Load::Here(generator.clone()), tasks, &closing);
    tasks.spawn(frontend::serve(
        listener,
        routes,
        Listening {
            patience: PATIENCE,
            visitors: Visitors::new(loopback, false, &[]),
            tls,
            ..Listening::default()
        },
        closing.clone(),
    ));
    Ok(closing)
}

fn address(args: &LoadgenArgs) -> anyhow::Result<TargetAddress> {
    let read = |name: &Option<String>, option: &'static str| {
        let value = name.as_ref().map(|name| secret(name).context(option));
        value.transpose()
    };
    let uri: http::Uri = args.target.parse().context("--target")?;
    let scheme = uri.scheme_str().unwrap_or("http");
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let prometheus = args.console.prometheus_url.as_deref();
    Ok(TargetAddress {
        root: format!("{scheme}://{host}"),
        api_key: read(&args.api_key_env, "--api-key-env")?,
        control_token: read(&args.target_token_env, "--target-token-env")?,
        prometheus: prometheus.map(|url| url.trim_end_matches('/').to_owned()),
    })
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
