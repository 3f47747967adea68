//! `homing replay` and `homing learning`: recorded load and experiments.
//!
//! Here is only reading arguments and writing results; what is run is the `lab` and `sweep` crates'.

pub(crate) mod learning;
mod live_replay;

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use engine::sim::{PUBLISHED_PROFILE, Profile};
use lab::{ReplayPlan, Trace, timed};
use router::Mode;
use stats::Summary;

use crate::args::ReplayArgs;
use crate::print;

/// In virtual time, unless modes are named.
const COMPARED: [&str; 3] = ["round-robin", "kv-blocks", "kv"];

pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    let mut trace = Trace::load(&args.trace, args.format.into())?;
    if trace.seems_to_continue() {
        print::note(format_args!(
            "note: no turn begins like the turn before it. If rows hold what each turn adds, as aiperf \
             writes them, use --format aiperf"
        ));
    }
    if let Some(requests) = args.requests {
        trace = trace.first(requests as usize);
    }
    let summary = match args.target.as_deref() {
        None => in_virtual_time(args, trace)?,
        Some(address) => {
            if trace.continues() {
                print::note(format_args!(
                    "note: turns go on after as many tokens as the answer before them had, but not after \
                     the answer itself: its blocks are not found in a cache"
                ));
            }
            live_replay::run(args, address, trace)?
        }
    };
    let output = &args.output;
    summary
        .write(output)
        .with_context(|| format!("cannot write results to {}", output.display()))?;
    print::line(format_args!("{}", summary.table()));
    let path = output.join("summary.json");
    print::line(format_args!("written: {}", path.display()));
    Ok(())
}

fn in_virtual_time(args: &ReplayArgs, trace: Trace) -> anyhow::Result<Summary> {
    ensure!(
        args.in_virtual_time,
        "say where the trace is replayed: --virtual on simulated workers, --target URL on a running \
         server"
    );
    let modes = match args.modes.is_empty() {
        true => COMPARED.iter().map(|name| name.parse()).collect(),
        false => Ok(args.modes.clone()),
    };
    let modes: Vec<Mode> = modes?;
    let plan = ReplayPlan {
        trace: Arc::new(trace),
        profile: Profile::find(args.profile.as_deref().unwrap_or(PUBLISHED_PROFILE))?,
        workers: args.workers,
        modes: modes.into_iter().map(Into::into).collect(),
        speed: args.speed,
        seed: args.seed,
    };
    let cells = timed(args.threads, |pace| lab::replay(&plan, pace));
    let name = args.trace.file_stem().unwrap_or_default().to_string_lossy();
    Ok(plan.summary(&name, cells))
}

fn check_virtual(is_virtual: bool, command: &str) -> anyhow::Result<()> {
    ensure!(
        is_virtual,
        "a live {command} against a running server is not available; \
         `homing {command} --virtual` runs it on simulated workers"
    );
    Ok(())
}
