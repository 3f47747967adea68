//! The demo's baseline: what load levels would do to its own workers, in virtual time.
//!
//! Read from a file that a sweep wrote. A demo as it is shipped is what `docs/results/published`
//! is about, so that one is built in. Any other demo computes its own at start, on one thread of
//! low priority, so that live load does not feel it: with its profile and workers, its seed, as
//! many starters; texts are as long as in the workload `specification`, whose conversations are
//! those of the load generator's defaults.

use std::path::Path;
use std::time::Duration;

use ::console::BaselineBoard;
use anyhow::Context as _;
use engine::sim::Profile;
use lab::{NEVER, Pace, Progress, SweepPlan, Workload};
use loadgen::baseline::Baseline;
use loadgen::{Popularity, Starters};
use preprocess::corpus;
use router::Mode;

use super::System;
use crate::args::{DemoArgs, EngineChoice, StarterChoice};
use crate::loadgen::unix_ms;

const LEVELS: [u32; 7] = [60, 80, 100, 120, 140, 160, 180];
const MODES: [Mode; 2] = [Mode::RoundRobin, Mode::Kv];
const WARMUP: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(300);
/// A tenth of what others get on a busy machine. At the lowest of all, 19, it would never end
/// beside a compiler.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// The published plan, six runs of each cell.
const SHIPPED: &str = include_str!("../../../../docs/results/published/baseline.json");

/// A board with the baseline that is there, or one that will be written on.
pub(super) fn prepare(
    args: &DemoArgs,
    system: &System,
    given: Option<Baseline>,
) -> anyhow::Result<BaselineBoard> {
    let board = BaselineBoard::default();
    if let Some(baseline) = given {
        board.ready(baseline);
    } else if let Some(profile) = system.backend.profile()
        && !args.no_baseline
        && !args.no_load
    {
        compute(plan(args, system, profile)?, board.clone())?;
    }
    Ok(board)
}

/// The one that is built in, if this demo is what it is about.
pub(super) fn shipped(args: &DemoArgs) -> Option<Baseline> {
    let baseline = Baseline::parse(SHIPPED).ok()?;
    let same = args.starters == StarterChoice::Ten
        && args.kv_cache_block_size.is_none()
        && args.llama.engine == EngineChoice::Simulated
        && args.profile == baseline.profile
        && args
            .workers
            .is_none_or(|workers| workers == baseline.workers);
    let wanted = !args.no_baseline && !args.no_load;
    (same && wanted).then(|| Baseline {
        source: "docs/results/published (homing sweep --preset published --virtual)".to_owned(),
        ..baseline
    })
}

/// From a file that a sweep wrote.
pub(crate) fn read(path: &Path) -> anyhow::Result<Baseline> {
    let name = path.display();
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("--baseline: cannot read {name}"))?;
    let baseline = Baseline::parse(&text).with_context(|| format!("--baseline: {name}"))?;
    Ok(Baseline {
        source: format!("{} ({})", name, baseline.source),
        ..baseline
    })
}

fn plan(args: &DemoArgs, system: &System, profile: &Profile) -> anyhow::Result<SweepPlan> {
    let mut workload = Workload::named("specification")?;
    let pool = match args.starters {
        StarterChoice::Ten => Some(10),
        StarterChoice::All => Some(corpus::articles().len() as u32),
        StarterChoice::Unique => None,
    };
    workload.script.starters = match pool {
        Some(pool) => Starters::Shared {
            pool,
            popularity: Popularity::Uniform,
        },
        None => Starters::Unique,
    };
    workload.name = match pool {
        Some(pool) => format!("specification, {pool} starters"),
        None => "specification, unique starters".to_owned(),
    };
    Ok(SweepPlan {
        workload,
        profile: profile.clone(),
        workers: system.workers,
        modes: MODES.map(Into::into).to_vec(),
        levels: LEVELS.to_vec(),
        repeats: 1,
        seed: args.seed,
        warmup: WARMUP,
        window: WINDOW,
    })
}

/// Starts computing. The thread ends with the process if not before.
fn compute(plan: SweepPlan, board: BaselineBoard) -> anyhow::Result<()> {
    if let Err(problem) = plan.workload.check(&plan.profile, plan.workers) {
        // A page can do without; conversations that do not fit fail visibly anyway.
        board.failed(problem);
        return Ok(());
    }
    let runs = plan.levels.len() * plan.modes.len();
    board.computing(0, runs as u32);
    let work = move || {
        step_back();
        let pace = Pace {
            threads: 1,
            progress: &|progress: Progress<'_>| {
                board.computing(progress.done as u32, progress.total as u32);
            },
            stop: &NEVER,
        };
        let cells = lab::sweep(&plan, &pace).into_iter();
        let cells: Vec<_> = cells.map(|cell| cell.summary).collect();
        let source = "virtual-time sweep, computed at start";
        board.ready(stats::baseline(&plan.about(), &cells, source, unix_ms()));
    };
    let thread = std::thread::Builder::new().name("baseline".to_owned());
    thread.spawn(work).context("no thread for the baseline")?;
    Ok(())
}

/// Lets everything else go first. Threads that this one starts inherit it.
fn step_back() {
    // Only Linux gives a thread a priority of its own; elsewhere it would be the process's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the baseline keeps its priority");
    }
}
