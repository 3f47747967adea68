//! `homing replay --target`: a recorded trace against a running server.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use ::loadgen::client::{Client, Patience, Target};
use ::sweep::live::deployment::Deployment;
use ::sweep::replay::{LiveReplay, ReplayProgress};
use anyhow::{Context as _, ensure};
use contract::{Clock, TokenId};
use http_client::{HttpClient, HttpOptions};
use lab::Trace;
use stats::figures::Pool;
use stats::{About, CellSummary, Summary};
use tokio_util::sync::CancellationToken;

use crate::args::ReplayArgs;
use crate::environment::secret;
use crate::load_parts::find_model;
use crate::print;
use crate::process::stop_signal;
use crate::sweep::live::root;

/// Prompts of recorded days are long, and so are queues behind them.
const PATIENCE: Patience = Patience {
    answer: Duration::from_secs(900),
    silence: Duration::from_secs(60),
};
/// Ids below stand for control tokens in some vocabularies.
const FIRST_WORD: TokenId = 1_000;
/// Where output is no terminal, progress is a line this often.
const LINE_EVERY: usize = 10;
/// What a run is called whose router nobody switches.
const AS_IT_IS: &str = "live";

/// A server that can be used.
struct Reached {
    client: Client,
    clock: Clock,
    /// What switches the router's mode, where several are compared.
    deployment: Option<Deployment>,
    simulated: bool,
}

pub(super) fn run(args: &ReplayArgs, address: &str, trace: Trace) -> anyhow::Result<Summary> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the runtime")?;
    runtime.block_on(replay(args, address, trace))
}

async fn replay(args: &ReplayArgs, address: &str, trace: Trace) -> anyhow::Result<Summary> {
    let mut reached = reach(args, address).await?;
    let replay = LiveReplay {
        trace: Arc::new(trace),
        client: reached.client.clone(),
        clock: reached.clock,
        speed: args.speed,
        seed: args.seed,
        words: FIRST_WORD..args.vocabulary,
        simulated: reached.simulated,
        stop: CancellationToken::new(),
    };
    let cells = until_stopped(args, &replay, &mut reached).await?;
    let answered = cells.iter().any(|cell| cell.requests > cell.errors);
    ensure!(answered, "no request was answered");
    let name = args.trace.file_stem().unwrap_or_default().to_string_lossy();
    let about = About {
        simulated: reached.simulated,
        testbed: address.to_owned(),
        workload: name.into_owned(),
        profile: reached.client.target().model.clone(),
        workers: reached.deployment.as_ref().and_then(Deployment::workers),
        seed: args.seed,
        repeats: 1,
        warmup_s: 0.0,
        window_s: 0.0,
        order: String::new(),
        command: String::new(),
    };
    Ok(Summary::of_cells(about, cells))
}

/// Reports what has been answered if somebody ends it early.
async fn until_stopped(
    args: &ReplayArgs,
    replay: &LiveReplay,
    reached: &mut Reached,
) -> anyhow::Result<Vec<CellSummary>> {
    let cells = cells(args, replay, reached);
    let mut cells = std::pin::pin!(cells);
    tokio::select! {
        cells = &mut cells => cells,
        // If signals cannot be heard, a replay runs to its end.
        Ok(()) = stop_signal() => {
            print::note(format_args!("\nstopped; what has been answered is reported"));
            replay.stop.cancel();
            cells.await
        }
    }
}

/// One run as the server is, or one in each mode.
async fn cells(
    args: &ReplayArgs,
    replay: &LiveReplay,
    reached: &mut Reached,
) -> anyhow::Result<Vec<CellSummary>> {
    let Some(deployment) = &mut reached.deployment else {
        return Ok(vec![cell(replay, AS_IT_IS).await]);
    };
    let mut cells = Vec::new();
    for mode in &args.modes {
        let mode = mode.name().as_str();
        let confirmed = deployment.switch(mode).await?;
        ensure!(confirmed, "target: it does not switch to {mode}");
        deployment.reset().await?;
        cells.push(cell(replay, mode).await);
        if replay.stop.is_cancelled() {
            break;
        }
    }
    Ok(cells)
}

async fn cell(replay: &LiveReplay, mode: &str) -> CellSummary {
    let terminal = std::io::stderr().is_terminal();
    let mut seconds = 0;
    let mut show = |progress: ReplayProgress| {
        let text = format!(
            "{mode}: {} of {} sent, {} in flight (at most {}), {} failed",
            progress.sent,
            progress.requests,
            progress.in_flight(),
            progress.most_at_once,
            progress.failed,
        );
        let is_last = progress.ended == progress.requests;
        match terminal {
            true => print::again(format_args!("{text}{}", if is_last { "\n" } else { "" })),
            false if is_last || seconds % LINE_EVERY == 0 => print::note(format_args!("{text}")),
            false => {}
        }
        seconds += 1;
    };
    let raw = replay.run(mode, &mut show).await;
    let mut records = raw.records.iter().rev();
    if let Some(failure) = records.find_map(|record| record.error.as_ref()) {
        print::note(format_args!("{mode}: last failure: {failure}"));
    }
    let pool = Pool {
        runs: std::slice::from_ref(&raw),
    };
    CellSummary::new(mode, None, pool, None)
}

/// The server, asked before anything is sent.
async fn reach(args: &ReplayArgs, address: &str) -> anyhow::Result<Reached> {
    ensure!(
        args.vocabulary > FIRST_WORD,
        "vocabulary: ids up to {FIRST_WORD} are not used, so it must be larger"
    );
    let clock = Clock::start();
    let mut target = Target::new(address, "").context("target")?;
    if let Some(name) = &args.api_key_env {
        target = target.with_key(&secret(name)?).context("api-key-env")?;
    }
    target.extensions = !args.plain;
    let transport = HttpClient::network(HttpOptions::default());
    let asking = Client::new(transport.clone(), target.clone(), PATIENCE, clock);
    let served = find_model(&asking, args.model.as_deref()).await;
    let served = served.context("target")?;
    target.model.clone_from(&served.name);
    let deployment = match args.modes.is_empty() {
        true => None,
        false => {
            let token = args.control_token_env.as_deref().map(secret).transpose()?;
            Some(Deployment::homing(transport.clone(), root(address), token).await?)
        }
    };
    Ok(Reached {
        client: Client::new(transport, target, PATIENCE, clock),
        clock,
        deployment,
        simulated: served.simulated,
    })
}
