//! `homing demo`: the whole system in one process.
//!
//! Builds the parts in the order a request meets them, prints where they listen, and on
//! SIGTERM or Ctrl-C takes them down in the opposite order: refuse new requests, finish the
//! running streams, stop the engines.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use contract::{Clock, ModelName};
use engine::sim::Profile;
use frontend::{Access, Frontend, FrontendConfig, Parts};
use preprocess::{PreprocessConfig, Preprocessor};
use router::{Router, RouterConfig};
use telemetry::{Registry, catalog};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_subscriber::EnvFilter;
use transport::roster;
use worker::WorkerContext;

use crate::args::DemoArgs;
use crate::fleet::{Blueprint, Fleet};
use crate::print;
use crate::simulation;

/// Commands to the fleet that may wait: they are typed by people.
const COMMANDS: usize = 16;

pub(crate) fn run(args: Box<DemoArgs>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&args.log).context("--log")?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(Box::pin(demo(*args)))
}

async fn demo(args: DemoArgs) -> anyhow::Result<()> {
    let mode = args.mode()?;
    let mut profile = simulation::profile(&args.profile)?;
    if let Some(block_size) = args.kv_cache_block_size {
        profile = profile.with_block_size(block_size);
    }
    if let Some(name) = &args.model_name {
        profile.model = ModelName::new(name);
    }
    // Bound first: a port that is taken should be the first thing to hear about.
    let api = listen(&args, args.http_port, "--http-port").await?;
    let console = listen(&args, args.console_port, "--console-port").await?;
    let access = access(&args);
    let preprocessor = preprocessor(&args, &profile)?;
    let answers = simulation::answers(&preprocessor)?;

    let clock = Clock::start();
    let registry = Registry::new();
    registry.gauge(&catalog::BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1.0);
    let router = Router::new(
        RouterConfig {
            mode,
            seed: args.seed,
            block_size: profile.block_size,
            queue_limit: args.queue_limit,
            decisions_kept: args.decision_log,
        },
        &registry,
        clock,
    );
    let (roster, changes) = roster();
    let (commands, inbox) = mpsc::channel(COMMANDS);
    let tasks = TaskTracker::new();
    let stop_tasks = CancellationToken::new();
    let parts = Parts {
        model: profile.model.clone(),
        preprocessor,
        router,
        registry: registry.clone(),
        clock,
        fleet_commands: Some(commands),
    };
    let config = FrontendConfig {
        max_requests: args.max_requests,
        max_body_bytes: args.max_body_bytes,
        access: access.clone(),
        block_size: profile.block_size as usize,
    };
    let frontend = Frontend::start(config, parts, changes, (&tasks, &stop_tasks));

    let count = args.workers.unwrap_or(profile.workers);
    let context = WorkerContext { clock, registry, epoch: epoch() };
    let mut fleet = Fleet::new(
        Blueprint { profile: profile.clone(), answers, seed: args.seed, context },
        roster,
    );
    for _ in 0..count {
        fleet.add().await;
    }
    greet(&args, &profile, count, [api.local_addr()?, console.local_addr()?], &access);
    let stop_workers = CancellationToken::new();
    let workers = tokio_util::task::AbortOnDropHandle::new(
        tasks.spawn(fleet.run(inbox, stop_workers.clone())),
    );

    let drain = CancellationToken::new();
    for listener in [api, console] {
        tasks.spawn(frontend::serve(listener, frontend.service(), drain.clone()));
    }
    stop_signal().await?;
    print::line(format_args!("finishing {} running request(s) …", frontend.in_flight()));
    frontend.close();
    drain.cancel();
    let finished = async {
        frontend.idle().await;
        stop_workers.cancel();
        let _ = workers.await;
        stop_tasks.cancel();
        tasks.close();
        tasks.wait().await;
    };
    tokio::select! {
        () = finished => {}
        () = tokio::time::sleep(args.shutdown_grace) => {
            print::line(format_args!("gave up on {} request(s)", frontend.in_flight()));
        }
        outcome = stop_signal() => outcome?,
    }
    Ok(())
}

fn preprocessor(args: &DemoArgs, profile: &Profile) -> anyhow::Result<Preprocessor> {
    let config = PreprocessConfig {
        max_context_tokens: profile.max_context_tokens,
        cache_bytes: args.tokenizer_cache_bytes,
        ..PreprocessConfig::default()
    };
    Ok(match &args.model_path {
        Some(folder) => Preprocessor::from_dir(folder, config)?,
        None => Preprocessor::embedded(config),
    })
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

fn greet(
    args: &DemoArgs,
    profile: &Profile,
    workers: u32,
    [api, console]: [SocketAddr; 2],
    access: &Access,
) {
    let mode = &args.router_mode;
    print::line(format_args!(
        "Homing {} serves {} on {workers} SIMULATED workers ({}), router {mode}\n",
        env!("CARGO_PKG_VERSION"),
        profile.model,
        profile.name,
    ));
    print::line(format_args!("  api      http://{api}/v1"));
    print::line(format_args!("  page     http://{console}"));
    print::line(format_args!("  metrics  http://{api}/metrics"));
    if let (Access::Token(token), None) = (access, &args.control_token) {
        print::line(format_args!("  control token (made up for this run): {token}"));
    }
    print::line(format_args!(
        "\nTry:  curl http://{api}/v1/chat/completions -H 'content-type: application/json' \\\n        \
         -d '{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"What is a TLB?\"}}]}}'\n\nCtrl-C stops it.",
        profile.model,
    ));
}

async fn stop_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        outcome = tokio::signal::ctrl_c() => outcome?,
    }
    Ok(())
}

/// Distinguishes this run of a worker from earlier ones: the time it started.
fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_secs()
}
