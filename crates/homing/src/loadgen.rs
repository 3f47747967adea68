//! `homing loadgen`: load on a server that is already running.
//!
//! Reads arguments, checks that the target can be used before anything is sent, shows what
//! happens, and judges it. What is sent and how it is measured is the `loadgen` crate's.

mod console;
mod outputs;
mod report;
mod view;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use ::loadgen::client::{Client, Patience, ServedModel, Target};
use ::loadgen::{
    LiveConfig, LiveParts, LoadGenerator, Readiness, Settings, StarterMode, exposition,
};
use anyhow::{Context as _, bail};
use contract::Clock;
use http_client::{HttpClient, HttpOptions, HttpVersion};
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;
use tracing::info;

use self::outputs::Recorder;
use self::report::Report;
use self::view::View;
use crate::args::LoadgenArgs;
use crate::environment::secret;
use crate::load_parts::{find_model, read_texts, user_model};
use crate::print;
use crate::process::{stop_signal, unix_ms};

/// The target cannot be used, or the results cannot be written.
const UNUSABLE: u8 = 2;

pub(crate) fn run(args: &LoadgenArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .context("cannot start the runtime")
        .and_then(|runtime| runtime.block_on(Box::pin(load(args))));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            print::error(format_args!("{error:#}"));
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Whether all objectives hold.
async fn load(args: &LoadgenArgs) -> anyhow::Result<bool> {
    let clock = Clock::start();
    let starters = read_texts(&args.texts.resolve(usize::MAX)).await?;
    let (client, served) = client(args, clock).await?;
    let user_model = user_model(args.texts.user_model().as_ref(), clock).await?;
    let recorder = Recorder::create(args.record.as_deref())?;
    let registry = Registry::new();
    let tasks = TaskTracker::new();
    serve_metrics(args, &registry, clock, &tasks).await?;
    let config = LiveConfig {
        settings: settings(args),
        seed: args.seed,
        sampling_seeds: args.sampling_seeds,
        warmup: args.warmup,
        unix_ms: unix_ms(),
    };
    // Whoever starts it by hand sees that it waits.
    let patience = (!args.paused).then_some(args.timeout);
    let mut ready = Readiness::follow(client.clone(), patience, &tasks);
    if !ready.first_answer().await {
        info!(target = %args.target, "the target has no worker yet: load waits for the first");
    }
    let parts = LiveParts {
        client,
        ready,
        starters,
        user_model,
        registry,
        clock,
        records: recorder.sink(),
    };
    let generator = LoadGenerator::spawn(config, parts, &tasks)?;
    let console = console::serve(args, &served, &generator, &tasks).await?;
    watch(args, &generator).await?;
    console.cancel();

    recorder.finish()?;
    if let Some(path) = &args.export_aiperf {
        outputs::export_aiperf(path, &generator.transcripts(), args.max_tokens)?;
    }
    let report = Report::new(&generator.snapshot(), &generator.totals(), &args.slo);
    print::line(format_args!("{report}"));
    if report.nothing_answered() {
        bail!("no request was answered");
    }
    Ok(report.objectives_hold())
}

/// Runs for the time that was asked for, or until Ctrl-C; then lets answers end, unless
/// there is a second one.
async fn watch(args: &LoadgenArgs, generator: &LoadGenerator) -> anyhow::Result<()> {
    let mut view = View::new(std::io::stderr().is_terminal(), args.sending());
    if !args.paused {
        generator.start().await;
    }
    let sending = async {
        generator.begun().await;
        match args.sending() {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sending => {}
        outcome = stop_signal() => outcome?,
        () = view.follow(generator.snapshots()) => {}
    }
    generator.drain().await;
    tokio::select! {
        () = generator.stopped() => {}
        outcome = stop_signal() => {
            outcome?;
            generator.stop().await;
            generator.stopped().await;
        }
        () = view.follow(generator.snapshots()) => {}
    }
    view.finish();
    Ok(())
}

fn settings(args: &LoadgenArgs) -> Settings {
    Settings {
        concurrency: args.concurrency,
        turns: args.turns.clone(),
        think_time_s: args.think_time.clone(),
        max_tokens: args.max_tokens,
        starts_per_second: args.ramp,
        max_requests_per_second: args.max_rps,
        arrivals_per_second: args.arrivals,
        starters: match args.unique {
            true => StarterMode::Unique,
            false => StarterMode::Shared,
        },
        zipf: args.zipf,
    }
}

/// The target, and what it serves.
async fn client(args: &LoadgenArgs, clock: Clock) -> anyhow::Result<(Client, ServedModel)> {
    let mut target = Target::new(&args.target, "").context("--target")?;
    if let Some(name) = &args.api_key_env {
        target = target.with_key(&secret(name)?).context("--api-key-env")?;
    }
    target.extensions = !args.plain;
    let options = HttpOptions {
        version: match args.http2 {
            true => HttpVersion::Http2,
            false => HttpVersion::Negotiated,
        },
        ..HttpOptions::default()
    };
    let patience = Patience {
        answer: args.timeout,
        silence: args.stall,
    };
    let transport = transport(args, options)?;
    let asking = Client::new(transport.clone(), target.clone(), patience, clock);
    let served = find_model(&asking, args.model.as_deref()).await?;
    target.model = served.name.clone();
    let client = Client::new(transport, target, patience, clock);
    Ok((client, served))
}

fn transport(args: &LoadgenArgs, options: HttpOptions) -> anyhow::Result<HttpClient> {
    let Some(path) = &args.ca_cert else {
        return Ok(HttpClient::network(options));
    };
    let problem = || format!("--ca-cert {}", path.display());
    let authorities = std::fs::read(path).with_context(problem)?;
    HttpClient::trusting(&authorities, options).with_context(problem)
}

async fn serve_metrics(
    args: &LoadgenArgs,
    registry: &Registry,
    clock: Clock,
    tasks: &TaskTracker,
) -> anyhow::Result<()> {
    let Some(port) = args.metrics_port else {
        return Ok(());
    };
    let address = (args.metrics_host, port);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on port {port} (--metrics-port)"))?;
    let address = listener.local_addr()?;
    print::note(format_args!("metrics  http://{address}/metrics"));
    let serving = exposition::serve(listener, registry.clone(), clock, tasks.clone());
    tasks.spawn(serving);
    Ok(())
}
