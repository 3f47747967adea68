//! `rivals`: our modes and other systems' rules on the same load, in the same run.
//!
//! Everything is simulated, on the laboratory of the `sweep` crate; what it writes is what
//! `homing sweep --virtual` writes. Here is only reading arguments and printing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use engine::sim::{PUBLISHED_PROFILE, Profile};
use lab::notation::{Levels, duration, levels, speed};
use lab::{Contestant, ReplayPlan, Setting, SweepPlan, Trace, TraceFormat, replay, timed};
use rivals::table::markdown;
use stats::headline::Headline;
use stats::{Objectives, SloSummary, Summary};

/// Workers of a replay, as in `homing replay`.
const REPLAY_WORKERS: u32 = 8;

/// Compares routing rules of other systems with ours, in virtual time.
#[derive(Debug, Parser)]
#[command(name = "rivals")]
struct Arguments {
    /// What load: names of built-in workloads or paths of TOML files
    #[arg(long, value_delimiter = ',', default_value = "specification")]
    workload: Vec<String>,
    /// A recorded trace in Mooncake's format instead of a workload
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,
    /// Conversations at once: single levels and ranges, such as 60,80 or 60..180:20
    #[arg(long, default_value = "60..180:20", value_parser = levels)]
    levels: Levels,
    /// Runs for each rule and level, with different conversations; figures are their medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Simulated time before anything is measured
    #[arg(long, default_value = "60s", value_parser = duration)]
    warmup: Duration,
    /// Simulated time that is measured
    #[arg(long, default_value = "300s", value_parser = duration)]
    window: Duration,
    /// How many workers; by default as many as the workload says, and 8 for a trace
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// How much faster than recorded a trace is replayed
    #[arg(long, default_value = "1.0", value_parser = speed)]
    speed: f64,
    /// Who takes part: modes of the router and rivals; by default round-robin, kv-blocks, kv
    /// and every rival
    #[arg(long, value_delimiter = ',', value_parser = rivals::contestant)]
    modes: Vec<Contestant>,
    /// Latency objectives, such as ttft_p95=600ms,tpot_p95=60ms: the highest level that holds
    /// them is searched upward, and a rule is dropped after three levels in a row that miss
    #[arg(long, value_name = "OBJECTIVES", conflicts_with = "trace")]
    slo: Option<Objectives>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long)]
    profile: Option<String>,
    /// Seed of everything random
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Threads; by default as many as there are cores
    #[arg(long)]
    threads: Option<usize>,
    /// Folder for results: summary.json and cells.csv in a folder for each workload
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rivals: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Arguments) -> anyhow::Result<()> {
    if let Some(trace) = &args.trace {
        return finish(&recorded(args, trace)?, &args.output);
    }
    ensure!(!args.window.is_zero(), "--window must not be 0");
    // All names are looked up before anything runs.
    let settings = args.workload.iter();
    let settings: Vec<Setting> = settings
        .map(|name| Setting::find(name, args.profile.as_deref(), args.workers))
        .collect::<Result<_, _>>()?;
    for setting in settings {
        finish(&conversations(args, setting), &args.output)?;
    }
    Ok(())
}

fn conversations(args: &Arguments, setting: Setting) -> Summary {
    let plan = SweepPlan {
        workload: setting.workload,
        profile: setting.profile,
        workers: setting.workers,
        modes: contestants(args),
        levels: args.levels.0.clone(),
        repeats: args.repeats,
        seed: args.seed,
        warmup: args.warmup,
        window: args.window,
    };
    let cells = timed(args.threads, |pace| match &args.slo {
        Some(objectives) => lab::search(&plan, objectives, pace),
        None => lab::sweep(&plan, pace),
    });
    let slo = args.slo.clone();
    let headline = slo.map(|objectives| Headline {
        slo: SloSummary::new(objectives, &cells),
        crossovers: Vec::new(),
    });
    Summary {
        headline,
        ..Summary::of_cells(plan.about(), cells)
    }
}

fn recorded(args: &Arguments, trace: &Path) -> anyhow::Result<Summary> {
    let plan = ReplayPlan {
        trace: Arc::new(Trace::load(trace, TraceFormat::Mooncake)?),
        profile: Profile::find(args.profile.as_deref().unwrap_or(PUBLISHED_PROFILE))?,
        workers: args.workers.unwrap_or(REPLAY_WORKERS),
        modes: contestants(args),
        speed: args.speed,
        seed: args.seed,
    };
    let cells = timed(args.threads, |pace| replay(&plan, pace));
    let name = trace.file_stem().unwrap_or_default().to_string_lossy();
    Ok(plan.summary(&name, cells))
}

fn contestants(args: &Arguments) -> Vec<Contestant> {
    if args.modes.is_empty() {
        return rivals::everyone();
    }
    args.modes.clone()
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn finish(summary: &Summary, output: &Path) -> anyhow::Result<()> {
    let folder = output.join(&summary.about.workload);
    summary
        .write(&folder)
        .with_context(|| format!("cannot write results to {}", folder.display()))?;
    println!("{}", markdown(summary));
    if let Some(headline) = &summary.headline {
        println!("{}", headline.slo.lines());
    }
    Ok(())
}
