//! `homing sweep` and `homing replay`: experiments in virtual time.
//!
//! Here is only reading arguments and writing results; what is run is the `sweep` crate's.

pub(crate) mod learning;

use std::path::Path;
use std::sync::Arc;

use ::sweep::report::SCHEMA;
use ::sweep::{
    Measurements, ReplayPlan, Setting, SloSummary, Summary, SweepPlan, Trace, find_profile, timed,
};
use anyhow::{Context as _, ensure};

use crate::args::{LaboratoryArgs, ReplayArgs, SweepArgs, TraceFormat};
use crate::loadgen::unix_ms;
use crate::print;

pub(crate) fn sweep(args: &SweepArgs) -> anyhow::Result<()> {
    check_virtual(args.in_virtual_time, "sweep")?;
    let profile = args.common.profile.as_deref();
    let Setting {
        workload,
        profile,
        workers,
    } = Setting::find(&args.workload, profile, args.workers)?;
    ensure!(!args.window.is_zero(), "--window must not be 0");
    let plan = SweepPlan {
        workload,
        profile,
        workers,
        modes: modes(&args.common),
        levels: args.levels.0.clone(),
        repeats: args.repeats,
        seed: args.common.seed,
        warmup: args.warmup,
        window: args.window,
    };
    let measurements = args.compare.as_deref().map(Measurements::named);
    let measurements = measurements.transpose()?;
    let cells = timed(args.common.threads, |pace| match &args.slo {
        Some(objectives) if args.search => ::sweep::search(&plan, objectives, pace),
        _ => ::sweep::sweep(&plan, pace),
    });
    let slo = args.slo.clone();
    let baseline = ::sweep::baseline(&plan, &cells, "homing sweep --virtual", unix_ms());
    let baseline = serde_json::to_string_pretty(&baseline)? + "\n";
    finish(
        Summary {
            schema: SCHEMA,
            seed: plan.seed,
            profile: plan.profile.name,
            simulated: true,
            workload: plan.workload.name,
            workers,
            comparison: measurements.map(|measurements| measurements.compare(&cells)),
            slo: slo.map(|objectives| SloSummary::new(objectives, &cells)),
            cells,
        },
        &args.common.output,
    )?;
    let path = args.common.output.join("baseline.json");
    std::fs::write(&path, baseline).with_context(|| format!("cannot write {}", path.display()))?;
    print::line(format_args!("written: {}", path.display()));
    Ok(())
}

pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    check_virtual(args.in_virtual_time, "replay")?;
    let trace = match args.format {
        TraceFormat::Mooncake => Trace::load(&args.trace)?,
    };
    let plan = ReplayPlan {
        trace: Arc::new(trace),
        profile: find_profile(args.common.profile.as_deref())?,
        workers: args.workers,
        modes: modes(&args.common),
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
            comparison: None,
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

fn modes(args: &LaboratoryArgs) -> Vec<::sweep::Contestant> {
    args.modes.iter().map(|&mode| mode.into()).collect()
}

fn finish(summary: Summary, output: &Path) -> anyhow::Result<()> {
    summary
        .write(output)
        .with_context(|| format!("cannot write results to {}", output.display()))?;
    print::line(format_args!("{}", summary.table()));
    if let Some(slo) = &summary.slo {
        print::line(format_args!("{}", slo.lines()));
    }
    if let Some(comparison) = &summary.comparison {
        print::line(format_args!("{}", comparison.table()));
    }
    print::line(format_args!(
        "written: {}",
        output.join("summary.json").display()
    ));
    Ok(())
}
