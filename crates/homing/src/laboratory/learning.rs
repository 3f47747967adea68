//! `homing learning`: prints how fast the router learns the speed of its workers.

use std::time::Duration;

use anyhow::ensure;
use lab::Setting;
use lab::learning::{LearningPlan, Surprise, learn};

use super::check_virtual;
use crate::args::LearningArgs;
use crate::print;

/// After so long the learner should be as good as the informed router.
const LEARNED_AFTER: Duration = Duration::from_secs(60);

/// Long enough to have learned what there is to learn.
const TRUTH_TAKES: Duration = Duration::from_secs(300);
const SETTLES: Duration = Duration::from_secs(120);

pub(crate) fn run(args: &LearningArgs) -> anyhow::Result<()> {
    check_virtual(args.in_virtual_time, "learning")?;
    let Setting {
        workload,
        profile,
        workers,
    } = Setting::find(&args.workload, args.profile.as_deref(), args.workers)?;
    ensure!(!args.window.is_zero(), "--window must not be 0");
    ensure!(
        args.window * args.windows > LEARNED_AFTER,
        "the windows must end after {} s",
        LEARNED_AFTER.as_secs()
    );
    let plan = LearningPlan {
        workload,
        profile,
        workers,
        level: args.level,
        repeats: args.repeats,
        seed: args.seed,
        truth_takes: TRUTH_TAKES,
        settles: SETTLES,
        window: args.window,
        windows: args.windows,
    };
    print::line(format_args!(
        "SIMULATED: {} at {} on {} workers, profile {}, seed {}, {} runs pooled\n\
         TTFT p95 in ms of requests sent in successive windows of {} s after the change\n",
        plan.workload.name,
        plan.level,
        plan.workers,
        plan.profile.name,
        plan.seed,
        plan.repeats,
        plan.window.as_secs_f64(),
    ));
    for surprise in Surprise::all() {
        let lesson = learn(&plan, surprise);
        print::line(format_args!("{}{}", lesson.lines(), verdict(&lesson)));
    }
    Ok(())
}

fn verdict(lesson: &lab::learning::SurpriseResult) -> String {
    let Some((learner, again)) = lesson.ratios_after(LEARNED_AFTER) else {
        return "  too few requests for a verdict\n".to_owned();
    };
    format!(
        "  after {} s: learner {learner:.3} times informed; informed again {again:.3} times\n",
        LEARNED_AFTER.as_secs()
    )
}
