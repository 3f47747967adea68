//! `homing sweep` and `homing replay`: experiments in virtual time.
//!
//! Here is only reading arguments, telling how far things are, and writing results; what is
//! run is the `sweep` crate's.

pub(crate) mod learning;
mod progress;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::sweep::{
    CellSummary, Measured, Objectives, Pace, Progress, ReplayPlan, SloSummary, Summary, SweepPlan,
    Trace, Workload,
};
use anyhow::{Context as _, anyhow, ensure};
use contract::Clock;
use engine::sim::{DEFAULT_PROFILE, Profile};

use self::progress::Meter;
use crate::args::{ReplayArgs, SweepArgs, TraceFormat};
use crate::{print, simulation};

/// The version of `summary.json`.
const SCHEMA: u32 = 1;

pub(crate) fn sweep(args: &SweepArgs) -> anyhow::Result<()> {
    check_virtual(args.in_virtual_time, "sweep")?;
    let workload = workload(&args.workload)?;
    let profile = profile(
        args.common
            .profile
            .as_deref()
            .or(workload.profile.as_deref()),
    )?;
    let workers = args.workers.or(workload.workers);
    let workers = workers.unwrap_or(profile.workers);
    workload
        .check(&profile, workers)
        .map_err(|problem| anyhow!("workload `{}`: {problem}", workload.name))?;
    ensure!(!args.window.is_zero(), "--window must not be 0");
    let plan = SweepPlan {
        workload,
        profile,
        workers,
        modes: args.common.modes.clone(),
        levels: args.levels.0.clone(),
        repeats: args.repeats,
        seed: args.common.seed,
        warmup: args.warmup,
        window: args.window,
    };
    let cells = timed(args.common.threads, |pace| match &args.slo {
        Some(objectives) if args.search => search(&plan, objectives, pace),
        _ => ::sweep::sweep(&plan, pace),
    });
    let slo = args.slo.clone();
    finish(
        Summary {
            schema: SCHEMA,
            seed: plan.seed,
            profile: plan.profile.name,
            simulated: true,
            workload: plan.workload.name,
            workers,
            slo: slo.map(|objectives| SloSummary::new(objectives, &cells)),
            cells,
        },
        &args.common.output,
    )
}

/// Level by level, with the modes that are still in.
fn search(
    plan: &SweepPlan,
    objectives: &Objectives,
    pace: &Pace<'_>,
) -> Vec<(CellSummary, Measured)> {
    let mut before = 0;
    ::sweep::slo::search(&plan.levels, &plan.modes, objectives, |level, modes| {
        let wave = SweepPlan {
            levels: vec![level],
            modes: modes.to_vec(),
            ..plan.clone()
        };
        let runs_left = |progress: &Progress<'_>| {
            let higher = plan.levels.iter().filter(|&&other| other > level).count();
            progress.total + higher * modes.len() * plan.repeats as usize
        };
        let cells = ::sweep::sweep(
            &wave,
            &Pace {
                threads: pace.threads,
                progress: &|progress| {
                    // At most so many: modes may drop out.
                    let total = before + runs_left(&progress);
                    let done = before + progress.done;
                    (pace.progress)(Progress {
                        done,
                        total,
                        share: done as f64 / total as f64,
                        ..progress
                    });
                },
            },
        );
        before += modes.len() * plan.repeats as usize;
        cells
    })
}

pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    check_virtual(args.in_virtual_time, "replay")?;
    let trace = match args.format {
        TraceFormat::Mooncake => Trace::load(&args.trace)?,
    };
    let plan = ReplayPlan {
        trace: Arc::new(trace),
        profile: profile(args.common.profile.as_deref())?,
        workers: args.workers,
        modes: args.common.modes.clone(),
        speed: args.speed,
        seed: args.common.seed,
    };
    let cells = timed(args.common.threads, |pace| ::sweep::replay(&plan, pace));
    let name = args.trace.file_stem().unwrap_or_default();
    finish(
        Summary {
            schema: SCHEMA,
            seed: plan.seed,
            profile: plan.profile.name,
            simulated: true,
            workload: name.to_string_lossy().into_owned(),
            workers: plan.workers,
            slo: None,
            cells,
        },
        &args.common.output,
    )
}

fn check_virtual(is_virtual: bool, command: &str) -> anyhow::Result<()> {
    ensure!(
        is_virtual,
        "a live {command} against a running server is not available yet; \
         `homing {command} --virtual` runs it on simulated workers"
    );
    Ok(())
}

/// A built-in workload by name, or one from a file.
fn workload(name: &str) -> anyhow::Result<Workload> {
    if name.ends_with(".toml") {
        return Ok(Workload::load(Path::new(name))?);
    }
    Ok(Workload::named(name)?)
}

fn profile(name: Option<&str>) -> anyhow::Result<Profile> {
    simulation::profile(name.unwrap_or(DEFAULT_PROFILE))
}

/// Runs an experiment, shows how far it is, and says how fast it was.
fn timed(
    threads: Option<usize>,
    run: impl FnOnce(&Pace<'_>) -> Vec<(CellSummary, Measured)>,
) -> Vec<CellSummary> {
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let meter = Meter::start();
    let clock = Clock::start();
    let cells = run(&Pace {
        threads,
        progress: &|progress: Progress<'_>| meter.show(progress),
    });
    meter.clear();
    let took = clock.now().as_secs_f64();
    let simulated: Duration = cells.iter().map(|(_, measured)| measured.simulated).sum();
    let steps: u64 = cells.iter().map(|(_, measured)| measured.steps).sum();
    print::note(format_args!(
        "{:.0} s of load in {took:.1} s on {threads} thread(s): {:.0} times real time, {steps} engine steps",
        simulated.as_secs_f64(),
        simulated.as_secs_f64() / took,
    ));
    cells.into_iter().map(|(summary, _)| summary).collect()
}

fn finish(summary: Summary, output: &Path) -> anyhow::Result<()> {
    summary
        .write(output)
        .with_context(|| format!("cannot write results to {}", output.display()))?;
    print::line(format_args!("{}", summary.table()));
    if let Some(slo) = &summary.slo {
        print::line(format_args!("{}", slo.lines()));
    }
    print::line(format_args!(
        "written: {}",
        output.join("summary.json").display()
    ));
    Ok(())
}
