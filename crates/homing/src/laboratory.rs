//! `homing replay` and `homing learning`: experiments in virtual time.
//!
//! Here is only reading arguments and writing results; what is run is the `sweep` crate's.

pub(crate) mod learning;

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use engine::sim::{PUBLISHED_PROFILE, Profile};
use lab::{ReplayPlan, Trace, timed};

use crate::args::ReplayArgs;
use crate::print;

pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    check_virtual(args.in_virtual_time, "replay")?;
    let trace = Trace::load(&args.trace, args.format.into())?;
    if trace.seems_to_continue() {
        print::note(format_args!(
            "note: no turn begins like the turn before it. If rows hold what each turn adds, as aiperf \
             writes them, use --format aiperf"
        ));
    }
    let plan = ReplayPlan {
        trace: Arc::new(trace),
        profile: Profile::find(args.profile.as_deref().unwrap_or(PUBLISHED_PROFILE))?,
        workers: args.workers,
        modes: args.modes.iter().map(|&mode| mode.into()).collect(),
        speed: args.speed,
        seed: args.seed,
    };
    let cells = timed(args.threads, |pace| lab::replay(&plan, pace));
    let name = args.trace.file_stem().unwrap_or_default().to_string_lossy();
    let summary = plan.summary(&name, cells);
    let output = &args.output;
    summary
        .write(output)
        .with_context(|| format!("cannot write results to {}", output.display()))?;
    print::line(format_args!("{}", summary.table()));
    let path = output.join("summary.json");
    print::line(format_args!("written: {}", path.display()));
    Ok(())
}

fn check_virtual(is_virtual: bool, command: &str) -> anyhow::Result<()> {
    ensure!(
        is_virtual,
        "a live {command} against a running server is not available yet; \
         `homing {command} --virtual` runs it on simulated workers"
    );
    Ok(())
}
