//! `homing loadgen`: load on a server that is already running.
//!
//! Reads arguments, checks that the target can be used before anything is sent, shows what
//! happens, and judges it. What is sent and how it is measured is the `loadgen` crate's.

mod console;
mod corpus;
mod outputs;
mod report;
mod view;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use ::loadgen::client::{Client, Patience, ServedModel, Target};
use ::loadgen::user_model::{self, UserModel};
use ::loadgen::{Failure, LiveConfig, LiveParts, LoadGenerator, Settings, Starter, exposition};
use anyhow::{Context as _, bail};
use contract::Clock;
use http_client::{HttpClient, HttpOptions, HttpVersion};
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use self::console::RemoteTarget;
use self::outputs::Recorder;
use self::report::Report;
use self::view::View;
use crate::args::LoadgenArgs;
use crate::environment::secret;
use crate::print;
use crate::process::{stop_signal, unix_ms};

/// Where the user model's key is.
const USER_MODEL_KEY: &str = "HOMING_USER_MODEL_API_KEY";

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
    let starters = starters(args).await?;
    let (client, simulated) = client(args, clock).await?;
    let model = client.target().model.clone();
    let user_model = user_model(args, clock).await?;
    let recorder = Recorder::create(args.record.as_deref())?;
    let registry = Registry::new();
    let tasks = TaskTracker::new();
    serve_metrics(args, &registry, clock, &tasks).await?;
    let config = LiveConfig {
        settings: settings(args),
        seed: args.seed,
        unique: args.unique,
        sampling_seeds: args.sampling_seeds,
        warmup: args.warmup,
        unix_ms: unix_ms(),
    };
    let parts = LiveParts {
        client,
        starters,
        user_model,
        registry,
        clock,
        records: recorder.sink(),
    };
    let generator = LoadGenerator::spawn(config, parts, &tasks)?;
    let elsewhere = RemoteTarget { model, simulated };
    let console = console::serve(args, elsewhere, &generator, &tasks).await?;
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
    generator.start().await;
    let sending = async {
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
    }
}

async fn starters(args: &LoadgenArgs) -> anyhow::Result<Vec<Starter>> {
    let starters = match &args.corpus {
        Some(place) => corpus::read(place).await.context("--corpus")?,
        None => {
            let articles = preprocess::corpus::articles().iter();
            let starters = articles.map(|article| Starter::new(article.title, article.text));
            starters.collect()
        }
    };
    Ok(match args.text_limit {
        Some(limit) => {
            let cut = |starter: Starter| starter.cut(limit as usize);
            starters.into_iter().map(cut).collect()
        }
        None => starters,
    })
}

/// The target, and whether it is a simulation.
async fn client(args: &LoadgenArgs, clock: Clock) -> anyhow::Result<(Client, bool)> {
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
    target.model = served.name;
    let client = Client::new(transport, target, patience, clock);
    Ok((client, served.simulated))
}

fn transport(args: &LoadgenArgs, options: HttpOptions) -> anyhow::Result<HttpClient> {
    let Some(path) = &args.ca_cert else {
        return Ok(HttpClient::network(options));
    };
    let problem = || format!("--ca-cert {}", path.display());
    let authorities = std::fs::read(path).with_context(problem)?;
    HttpClient::trusting(&authorities, options).with_context(problem)
}

async fn user_model(args: &LoadgenArgs, clock: Clock) -> anyhow::Result<Option<UserModel>> {
    let Some(url) = &args.user_model else {
        return Ok(None);
    };
    let mut target = Target::new(url, "").context("--user-model")?;
    // The user model may be any server: it gets only the standard's fields.
    target.extensions = false;
    if let Ok(key) = secret(USER_MODEL_KEY) {
        target = target.with_key(&key).context(USER_MODEL_KEY)?;
    }
    let transport = HttpClient::network(HttpOptions::default());
    let patience = user_model::PATIENCE;
    let asking = Client::new(transport.clone(), target.clone(), patience, clock);
    let served = find_model(&asking, args.user_model_name.as_deref()).await?;
    target.model = served.name;
    let client = Client::new(transport, target, patience, clock);
    Ok(Some(UserModel::new(client)))
}

/// Asks what is served, which also tells whether the address and the key are right.
pub(crate) async fn find_model(
    client: &Client,
    wanted: Option<&str>,
) -> anyhow::Result<ServedModel> {
    let base = client.target().base();
    let unlisted = |name: &str| ServedModel {
        name: name.to_owned(),
        simulated: false,
    };
    match (client.models().await, wanted) {
        (Ok(models), Some(wanted)) => match models.iter().find(|model| model.name == wanted) {
            Some(model) => Ok(model.clone()),
            None => {
                let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
                bail!(
                    "{base} does not serve `{wanted}`; it serves {}",
                    names.join(", ")
                )
            }
        },
        (Ok(models), None) => models
            .into_iter()
            .next()
            .with_context(|| format!("{base} lists no model; name one with --model")),
        // Some servers have no list.
        (
            Err(Failure {
                status: Some(404 | 405),
                ..
            }),
            Some(wanted),
        ) => Ok(unlisted(wanted)),
        (Err(failure), _) => {
            let hint = hint(&failure);
            bail!("cannot use {base}: {failure}{hint}")
        }
    }
}

/// What the user may have forgotten.
fn hint(failure: &Failure) -> &'static str {
    match failure.status {
        Some(401 | 403) => " (--api-key-env names the variable that holds the key)",
        _ if failure.message.contains("certificate") => {
            " (--ca-cert names a file of certificates to trust)"
        }
        _ => "",
    }
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
