//! The demo's baseline: what other levels of load would do to its own workers, in virtual time.
//!
//! Computed on one thread of low priority, so that live load does not suffer.

use ::console::BaselineBoard;
use anyhow::Context as _;
use lab::{NEVER, Pace, Progress, SweepPlan};

use crate::plan::BaselinePlan;
use crate::process::unix_ms;

/// A tenth of what others get on a busy machine. At the lowest of all, 19, it would never end
/// beside a compiler.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// A board with the baseline that is known, or one that will be written on.
pub(super) fn prepare(plan: BaselinePlan) -> anyhow::Result<BaselineBoard> {
    let board = BaselineBoard::default();
    match plan {
        BaselinePlan::None => {}
        BaselinePlan::Known(baseline) => board.ready(baseline),
        BaselinePlan::Computed(plan) => compute(*plan, board.clone())?,
    }
    Ok(board)
}

/// Starts computing. The thread ends with the process if not before.
fn compute(plan: SweepPlan, board: BaselineBoard) -> anyhow::Result<()> {
    if let Err(problem) = plan.workload.check(&plan.profile, plan.workers) {
        // A page can do without; conversations that do not fit fail visibly anyway.
        board.failed(problem.to_string());
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
    thread
        .spawn(work)
        .context("cannot start the baseline thread")?;
    Ok(())
}

/// Lets everything else go first. Threads that this one starts inherit it.
fn step_back() {
    // Only Linux gives a thread a priority of its own; elsewhere it would be the process's.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "cannot lower the priority of the baseline thread");
    }
}
