//! `homing sweep`: plans become runs, runs become reports.
//!
//! Reads arguments, checks everything before anything runs, lets the `sweep` crate run, and
//! tells what came of it. Whatever ends a sweep early, what is complete is reported.

pub(crate) mod live;
mod view;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use ::sweep::{Folder, PartialPlan, Plan, SweepSession, Testbed, VirtualRun, plan, publish};
use anyhow::Context as _;
use stats::{Measurements, Summary};

use crate::args::{SweepArgs, SweepCommand};
use crate::print;
use crate::process::{stop_signal, unix_ms};

/// The plan or the server cannot be used.
const UNUSABLE: u8 = 2;

pub(crate) fn run(args: &SweepArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = runtime
        .context("cannot start the runtime")
        .map_err(SweepError::Before);
    let outcome = outcome.and_then(|runtime| runtime.block_on(Box::pin(command(args))));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(SweepError::Before(error)) => {
            print::error(format_args!("{error:#}"));
            ExitCode::from(UNUSABLE)
        }
        Err(SweepError::Later(error)) => {
            print::error(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// What went wrong, before anything ran or later.
enum SweepError {
    Before(anyhow::Error),
    Later(anyhow::Error),
}

/// Whether all runs are done.
async fn command(args: &SweepArgs) -> Result<bool, SweepError> {
    if let Some(SweepCommand::Report { dir, compare }) = &args.command {
        let measurements = measurements(compare.as_deref()).map_err(SweepError::Before)?;
        let folder = Folder::read(dir).map_err(|error| SweepError::Before(error.into()))?;
        return write_report(&folder, measurements.as_ref(), args.threads)
            .map_err(SweepError::Later);
    }
    let measurements = measurements(args.compare.as_deref()).map_err(SweepError::Before)?;
    let plan = planned(args).map_err(SweepError::Before)?;
    // A server is asked before a folder is made for it.
    let reached = match &plan.testbed {
        Testbed::Virtual { .. } | Testbed::Story { .. } => None,
        testbed @ (Testbed::Homing { .. } | Testbed::Hooks { .. }) => Some(
            live::reach(args, testbed)
                .await
                .map_err(SweepError::Before)?,
        ),
    };
    let output = args.output.as_deref().unwrap_or(Path::new("."));
    let folder = Folder::open(output, plan).map_err(|error| SweepError::Before(error.into()))?;
    announce(&folder);
    let begun_ms = unix_ms();
    let outcome = match reached {
        None => in_virtual_time(args, &folder)
            .await
            .map(|completed| (completed, false))
            .map_err(SweepError::Later),
        Some(reached) => live::run(reached, &folder).await,
    };
    let (completed, out_of_time, problem) = match outcome {
        Ok((completed, out_of_time)) => (completed, out_of_time, None),
        Err(SweepError::Before(error)) => return Err(SweepError::Before(error)),
        Err(SweepError::Later(error)) => (folder_progress(&folder), false, Some(error)),
    };
    let sitting = SweepSession {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        begun_ms,
        ended_ms: unix_ms(),
        completed,
    };
    folder
        .log(sitting)
        .map_err(|error| SweepError::Later(error.into()))?;
    let is_done =
        write_report(&folder, measurements.as_ref(), args.threads).map_err(SweepError::Later)?;
    match problem {
        Some(error) => Err(SweepError::Later(error)),
        // A limit that was reached is no failure: that is what it is for.
        None => Ok(is_done || args.search || out_of_time),
    }
}

/// Runs that are there.
fn folder_progress(folder: &Folder) -> usize {
    folder.plan().cells().len() - folder.left().len()
}

fn planned(args: &SweepArgs) -> anyhow::Result<Plan> {
    let file = match &args.plan_file {
        Some(path) => plan::read(path)?,
        None => PartialPlan::default(),
    };
    let partial = args.plan.partial().or(file);
    // A story is simulated unless it has a target.
    let is_virtual = args.in_virtual_time || partial.story && partial.target.is_none();
    Ok(partial.resolve(is_virtual)?)
}

fn measurements(name: Option<&str>) -> anyhow::Result<Option<Measurements>> {
    let found = name.map(Measurements::named).transpose();
    found.context("compare")
}

fn announce(folder: &Folder) {
    let (plan, left) = (folder.plan(), folder.left().len());
    print::note(format_args!("{plan}"));
    let done = plan.cells().len() - left;
    if done > 0 {
        let path = folder.path().display();
        print::note(format_args!(
            "{done} runs are already in {path}, {left} are left"
        ));
    }
}

/// Ctrl-C lets the cells end that have begun; in virtual time they take a second.
async fn in_virtual_time(args: &SweepArgs, folder: &Folder) -> anyhow::Result<usize> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let (folder, threads, search) = (folder.clone(), args.threads, args.search);
    let mut running = tokio::task::spawn_blocking(move || {
        VirtualRun {
            folder: &folder,
            threads,
            search,
            stop: &STOP,
        }
        .run()
    });
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        heard = stop_signal() => {
            heard?;
            STOP.store(true, Ordering::Relaxed);
            running.await
        }
    };
    Ok(outcome.context("the sweep failed")??)
}

/// Writes the report and prints its table. Returns whether all runs are done.
fn write_report(
    folder: &Folder,
    measurements: Option<&Measurements>,
    threads: Option<usize>,
) -> anyhow::Result<bool> {
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let summary: Summary = publish(folder, measurements, threads)?;
    print::line(format_args!("{}", summary.table()));
    if let Some(headline) = &summary.headline {
        print::line(format_args!("{}", headline.slo.lines()));
        for crossover in &headline.crossovers {
            print::line(format_args!("{}\n", crossover.analysis));
        }
    }
    let certainty = summary.certainty();
    if !certainty.is_empty() {
        print::line(format_args!("{certainty}\n"));
    }
    for cell in &summary.cells {
        for guard in &cell.guards {
            let level = cell.concurrency.unwrap_or(0);
            print::line(format_args!(
                "doubt: {} at {level}: {}",
                cell.mode, guard.detail
            ));
        }
    }
    if let Some(comparison) = &summary.comparison {
        print::line(format_args!("{}", comparison.table()));
    }
    if summary.done < summary.planned {
        print::line(format_args!(
            "{} of {} runs are done; the same command resumes",
            summary.done, summary.planned
        ));
    }
    let path = folder.path();
    for name in ["report.html", "report.md", "summary.json", "baseline.json"] {
        print::line(format_args!("written: {}", path.join(name).display()));
    }
    Ok(summary.done == summary.planned)
}
