//! Genuine vLLM servers on this machine's cards, our frontend before them, and live sweeps through it.
//!
//! What is measured, in which order and what comes of it is `homing sweep`'s; this starts what is
//! measured, watches it, and ends it on every way out. It needs neither cargo nor a checkout, so
//! that the program can be copied to a machine that has cards and nothing else.
//!
//! | module | what it does |
//! |---|---|
//! | `arguments` | the options, checked |
//! | `cards` | which cards there are, and which server runs on which |
//! | `vllm` | one server's command, and waiting until it serves |
//! | `rival` | other routers before the same servers |
//! | `sweeps` | the frontend, and the sweeps through it |
//! | `setup` | what was measured, written down and compared when a folder is resumed |
//! | `group` | processes that are ended with all that they started |

mod arguments;
mod cards;
mod group;
mod probe;
mod rival;
mod setup;
mod sweeps;
mod vllm;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use contract::Clock;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::arguments::Arguments;
use self::cards::Placement;
use self::group::Group;
use self::setup::Setup;
use super::build_homing;
use super::figures::say;
use crate::repository;

/// What runs, in the order in which it is ended.
#[derive(Debug, Default)]
struct Running {
    /// What measures: a calibration, or a sweep.
    sweep: Option<Group>,
    routers: Vec<Group>,
    servers: Vec<Group>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(bench(arguments)))
}

async fn bench(arguments: &Arguments) -> anyhow::Result<()> {
    let clock = Clock::start();
    arguments.check()?;
    let mut running = Running::default();
    let outcome = tokio::select! {
        outcome = Box::pin(measure(arguments, clock, &mut running)) => outcome,
        name = told_to_stop() => name.and_then(|name| bail!("stopped by {name}")),
    };
    running.end().await;
    outcome
}

/// The name of the signal that asks for an end. Once this has run, none of them ends the process
/// by itself, so that whoever is impatient cannot leave servers behind.
async fn told_to_stop() -> anyhow::Result<&'static str> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let hung_up = async {
        if ignores_hang_up() {
            return std::future::pending().await;
        }
        signal(SignalKind::hangup())?.recv().await;
        anyhow::Ok(())
    };
    Ok(tokio::select! {
        _ = interrupt.recv() => "Ctrl-C",
        _ = terminate.recv() => "SIGTERM",
        heard = hung_up => heard.map(|()| "SIGHUP")?,
    })
}

/// Whether it was started with `nohup`, which listening would undo.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

async fn measure(arguments: &Arguments, clock: Clock, running: &mut Running) -> anyhow::Result<()> {
    let began = clock.now();
    let homing = homing(arguments)?;
    let placements = cards::place(arguments)?;
    let engine = vllm::installed(arguments)?;
    let rivals = rival::find(arguments)?;
    probe::free_ports(&arguments.ports(placements.len()))?;
    let out = absolute(&arguments.out)?;
    let setup = Setup::new(arguments, &placements, &engine);
    setup.open(&out, arguments.resume)?;
    let logs = out.join("logs");
    fs::create_dir_all(&logs)?;
    say(&setup.summary());

    for batch in cards::batches(&placements, arguments.kv_memory.is_some()) {
        start_servers(arguments, &engine, &batch, (&logs, clock, running)).await?;
    }
    let frontend = sweeps::frontend(&homing, arguments, placements.len(), &logs)?;
    running.routers.push(frontend);
    sweeps::until_joined(arguments, placements.len(), running).await?;
    for rival in &rivals {
        let group = rival.start(arguments, placements.len(), &logs)?;
        running.routers.push(group);
        rival.until_ready(running).await?;
    }
    say(&format!(
        "everything serves after {} s",
        (clock.now() - began).as_secs()
    ));

    if let Some(rounds) = arguments.calibrate {
        let servers = placements.len();
        let calibration = sweeps::calibration(&homing, arguments, servers, &out, rounds)?;
        running.sweep = Some(calibration);
        let status = running.until_swept().await?;
        running.sweep = None;
        ensure!(status.success(), "the calibration failed ({status})");
    }
    for texts in arguments.texts() {
        let left = arguments
            .limit_of(texts)
            .map(|limit| limit.saturating_sub(clock.now() - began));
        let shortest = Duration::from_secs(arguments.warmup + arguments.seconds);
        if left.is_some_and(|left| left < shortest) {
            say(&format!("{texts}: no time is left; --resume runs it"));
            continue;
        }
        let sweep = sweeps::Sweep {
            homing: &homing,
            out: &out,
            texts,
            rivals: &rivals,
            time_left: left,
        };
        running.sweep = Some(sweep.start(arguments)?);
        let status = running.until_swept().await?;
        running.sweep = None;
        ensure!(status.success(), "the sweep of {texts} failed ({status})");
        let report = out.join(texts.folder()).join("report.html");
        say(&format!("{texts}: {}", report.display()));
    }
    Ok(())
}

/// Servers that may start at the same time, until all serve.
async fn start_servers(
    arguments: &Arguments,
    engine: &vllm::Installed,
    batch: &[Placement],
    (logs, clock, running): (&Path, Clock, &mut Running),
) -> anyhow::Result<()> {
    let first = running.servers.len();
    for placement in batch {
        let group = vllm::start(arguments, engine, placement, logs)?;
        running.servers.push(group);
    }
    let began = clock.now();
    let mut waiting: Vec<usize> = (0..batch.len()).collect();
    let mut told = 0;
    while !waiting.is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.check_alive()?;
        let waited = (clock.now() - began).as_secs();
        let mut still = Vec::new();
        for index in waiting {
            match probe::get(arguments.server_port(batch[index].server), "/health").await {
                Ok(_) => say(&format!(
                    "{} serves after {waited} s",
                    running.servers[first + index].name()
                )),
                Err(_) => still.push(index),
            }
        }
        waiting = still;
        if let Some(&index) = waiting.first() {
            let server = &running.servers[first + index];
            if waited >= arguments.start_patience {
                bail!(
                    "{}",
                    server.said(&format!("did not serve within {waited} s"))
                );
            }
            if waited >= told + 15 {
                told = waited;
                let last = server.last_line();
                say(&format!("{} starts, {waited} s: {last}", server.name()));
            }
        }
    }
    Ok(())
}

impl Running {
    /// Waits for the sweep, unless something that it measures ends before it.
    async fn until_swept(&mut self) -> anyhow::Result<std::process::ExitStatus> {
        loop {
            let sweep = self.sweep.as_mut().context("no sweep runs")?;
            if let Some(status) = sweep.status()? {
                return Ok(status);
            }
            self.check_alive()?;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Fails with the last lines of what has ended.
    fn check_alive(&mut self) -> anyhow::Result<()> {
        for group in self.servers.iter_mut().chain(&mut self.routers) {
            if let Some(status) = group.status()? {
                bail!("{}", group.said(&format!("ended ({status})")));
            }
        }
        Ok(())
    }

    /// Ends everything, the sweep first: it writes a report of what is complete.
    async fn end(&mut self) {
        if let Some(sweep) = &mut self.sweep {
            say("waiting for the report of the runs that are complete");
            sweep.end("INT", Duration::from_secs(60)).await;
        }
        let groups = self.routers.iter_mut().chain(&mut self.servers);
        let mut groups: Vec<&mut Group> = groups.collect();
        if groups.is_empty() {
            return;
        }
        say(&format!("ending {} processes", groups.len()));
        for group in &mut groups {
            group.signal("TERM");
        }
        for group in groups {
            group.end("TERM", Duration::from_secs(30)).await;
        }
    }
}

/// The one that was named, or the shipped build of this checkout.
fn homing(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let homing = match &arguments.homing {
        Some(path) => path.clone(),
        None => {
            build_homing().context("--homing names a program that is already built")?;
            repository::target_directory()?.join("dist/homing")
        }
    };
    ensure!(homing.is_file(), "{} is not a file", homing.display());
    absolute(&homing)
}

/// Sweeps run in a folder of their own, from which relative paths would lead elsewhere.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
}
