//! Measures how fast the router learns the speed of its workers.
//!
//! The router knows nothing about its workers' speed beforehand. Here it is surprised, by
//! initial estimates that are wrong by a factor or by a worker that slows down, and compared
//! with an **informed** router: the same policy on the same load, which gets the true values
//! when the other is surprised. The true values are what a router has learned at the end of a
//! long, quiet run on such workers, with other conversations. The informed router goes on
//! learning as well, so the two differ only in the surprise.
//!
//! Compared is the 95th percentile of the time to first token of the requests sent in
//! successive windows after the surprise, several runs pooled. Two runs that decide one
//! request differently are two different runs from there on, so the percentiles differ by
//! chance too. How much is measured: the informed router runs **again** with first beliefs
//! that are a little off, and a difference within what that shows is no difference.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::time::Duration;

use contract::Moment;
use contract::random::mix;
use engine::sim::Profile;
use loadgen::Samples;
use router::{Mode, Priors, WorkerView};

use crate::cell::{CellPlan, run_believing};
use crate::change::{Change, ChangeKind};
use crate::workload::Workload;

/// Separates the seeds of repeats, and of the runs from which the truth is taken.
const REPEAT: u64 = 0x1ea;
const TRUTH: u64 = 0x1eb;
/// The worker that slows down, and to what share of its speed.
const SLOW_WORKER: usize = 0;
const SLOW_SPEED: f64 = 0.5;
/// By how much first beliefs are wrong.
const WRONG: f64 = 4.0;
/// Enough to decide a few requests differently.
const A_LITTLE_OFF: f64 = 1.02;

/// What is run.
#[derive(Clone, Debug)]
pub struct LearningPlan {
    pub workload: Workload,
    pub profile: Profile,
    pub workers: u32,
    pub level: u32,
    pub repeats: u32,
    pub seed: u64,
    /// How long the runs take from which the truth is taken.
    pub truth_takes: Duration,
    /// How long a fleet runs before one of its workers slows down.
    pub settles: Duration,
    /// Length of one window and how many there are.
    pub window: Duration,
    pub windows: u32,
}

/// What the router does not know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Surprise {
    /// A figure, or all of them, believed so many times too large. A prefill rate is believed
    /// too small by as much, so that all together make a worker that is slower throughout.
    Priors { figure: Figure, times: f64 },
    /// One worker takes twice as long for everything from a moment on.
    SlowsDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    All,
    PrefillTime,
    Step,
    StepGrowth,
    OutputTokens,
}

impl Surprise {
    /// All surprises of the experiment.
    pub fn all() -> Vec<Self> {
        let figures = [
            Figure::All,
            Figure::PrefillTime,
            Figure::Step,
            Figure::StepGrowth,
            Figure::OutputTokens,
        ];
        let wrong = |figure| [WRONG, 1.0 / WRONG].map(|times| Self::Priors { figure, times });
        let mut all: Vec<_> = figures.into_iter().flat_map(wrong).collect();
        all.push(Self::SlowsDown);
        all
    }

    pub fn name(&self) -> String {
        let Self::Priors { figure, times } = self else {
            return "one worker slows to half its speed".to_owned();
        };
        let figure = match figure {
            Figure::All => "everything",
            Figure::PrefillTime => "prefill time",
            Figure::Step => "step time",
            Figure::StepGrowth => "step growth",
            Figure::OutputTokens => "output length",
        };
        if *times > 1.0 {
            format!("{figure} believed {times} times too large")
        } else {
            format!("{figure} believed {} times too small", 1.0 / times)
        }
    }
}

fn wrong(truth: &Priors, figure: Figure, times: f64) -> Priors {
    let by = |one: Figure| {
        if figure == one || figure == Figure::All {
            times
        } else {
            1.0
        }
    };
    Priors {
        prefill_tokens_per_second: truth.prefill_tokens_per_second / by(Figure::PrefillTime),
        step_seconds: truth.step_seconds * by(Figure::Step),
        step_growth_seconds: truth.step_growth_seconds * by(Figure::StepGrowth),
        first_token_steps: truth.first_token_steps,
        output_tokens: truth.output_tokens * by(Figure::OutputTokens),
    }
}

/// What came of one surprise.
#[derive(Clone, Debug, PartialEq)]
pub struct SurpriseResult {
    pub surprise: Surprise,
    pub window: Duration,
    pub learner: TtftByWindow,
    pub informed: TtftByWindow,
    /// The informed router again, with first beliefs a little off.
    pub again: TtftByWindow,
}

/// Times to first token by the window in which the request was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TtftByWindow(Vec<Samples>);

impl TtftByWindow {
    fn merge(&mut self, other: &Self) {
        self.0.resize_with(other.0.len(), Samples::default);
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.merge(theirs);
        }
    }

    /// The 95th percentile of each window, in seconds.
    pub fn p95(&self) -> Vec<Option<f64>> {
        self.0.iter().map(p95).collect()
    }

    /// That of all windows from one on.
    pub fn p95_from(&self, first: usize) -> Option<f64> {
        let mut rest = Samples::default();
        self.0.iter().skip(first).for_each(|one| rest.merge(one));
        p95(&rest)
    }
}

fn p95(samples: &Samples) -> Option<f64> {
    samples.percentiles().map(|percentiles| percentiles.p95)
}

impl SurpriseResult {
    /// The learner's p95 relative to the informed router's, once so much time has passed since
    /// the surprise; and what the informed router's is to itself.
    pub fn ratios_after(&self, passed: Duration) -> Option<(f64, f64)> {
        let first = passed.div_duration_f64(self.window).ceil() as usize;
        let informed = self.informed.p95_from(first)?;
        let ratio = |course: &TtftByWindow| Some(course.p95_from(first)? / informed);
        Some((ratio(&self.learner)?, ratio(&self.again)?))
    }

    /// The lesson as lines of text.
    pub fn lines(&self) -> String {
        let mut text = format!("{}\n", self.surprise.name());
        let told = |value: Option<f64>| value.map_or("-".to_owned(), |s| format!("{:.0}", s * 1e3));
        for (who, course) in [
            ("learner", &self.learner),
            ("informed", &self.informed),
            ("informed, again", &self.again),
        ] {
            write!(text, "  {who:<16}").expect("a string takes any text");
            for value in course.p95() {
                write!(text, " {:>7}", told(value)).expect("a string takes any text");
            }
            text.push('\n');
        }
        text
    }
}

/// Surprises a router and compares it with an informed one.
pub fn learn(plan: &LearningPlan, surprise: Surprise) -> SurpriseResult {
    let usual = mean(&truth(plan, &plan.workload));
    let scene = Scene::new(plan, surprise, &usual);
    let run = |workload: &Workload, priors: Priors| {
        let run = Run {
            plan,
            workload,
            priors,
            begin: scene.begin,
        };
        run.pooled()
    };
    SurpriseResult {
        surprise,
        window: plan.window,
        learner: run(&scene.surprised, scene.naive),
        informed: run(&scene.told, usual),
        again: run(&scene.told, wrong(&usual, Figure::All, A_LITTLE_OFF)),
    }
}

/// What the two routers meet.
struct Scene {
    surprised: Workload,
    told: Workload,
    /// What the one that is surprised believes at the start.
    naive: Priors,
    /// What is true of [`SLOW_WORKER`] after the surprise.
    known: Priors,
    /// When the surprise comes.
    begin: Moment,
}

impl Scene {
    fn new(plan: &LearningPlan, surprise: Surprise, usual: &Priors) -> Self {
        let mut scene = Self {
            surprised: plan.workload.clone(),
            told: plan.workload.clone(),
            naive: *usual,
            known: *usual,
            begin: Moment::ZERO,
        };
        match surprise {
            Surprise::Priors { figure, times } => scene.naive = wrong(usual, figure, times),
            Surprise::SlowsDown => {
                let mut slow_from_the_start = plan.workload.clone();
                slow_from_the_start.changes.push(slows(Moment::ZERO));
                scene.known = truth(plan, &slow_from_the_start)[SLOW_WORKER];
                scene.begin = Moment::ZERO + plan.settles;
                let slows = slows(scene.begin);
                let kind = ChangeKind::Told(scene.known);
                scene.surprised.changes.push(slows);
                scene.told.changes.extend([slows, Change { kind, ..slows }]);
            }
        }
        scene
    }
}

impl LearningPlan {
    fn cell<'a>(&'a self, workload: &'a Workload, seed: u64, begin: Moment) -> CellPlan<'a> {
        CellPlan {
            workload,
            profile: &self.profile,
            workers: self.workers,
            mode: Mode::Kv.into(),
            level: self.level,
            repeat: 1,
            seed,
            warmup: begin - Moment::ZERO,
            window: self.window * self.windows,
        }
    }
}

fn slows(at: Moment) -> Change {
    Change {
        at,
        worker: SLOW_WORKER,
        kind: ChangeKind::Speed(SLOW_SPEED),
    }
}

/// What a router has learned about each worker at the end of a long run.
fn truth(plan: &LearningPlan, workload: &Workload) -> Vec<Priors> {
    let cell = CellPlan {
        window: plan.truth_takes,
        ..plan.cell(workload, mix(plan.seed, TRUTH, 0), Moment::ZERO)
    };
    let (_, views) = run_believing(&cell, Priors::default());
    views.iter().map(believed).collect()
}

/// What would have to be believed beforehand to see a worker as it is seen now.
fn believed(view: &WorkerView) -> Priors {
    let learned = &view.learned;
    let growth = learned.step_growth_ms / 1e3;
    Priors {
        prefill_tokens_per_second: learned.prefill_tokens_per_second,
        step_seconds: learned.step_ms / 1e3 - growth * f64::from(view.in_flight),
        step_growth_seconds: growth,
        first_token_steps: learned.first_token_fixed_ms / learned.step_ms,
        output_tokens: learned.output_tokens,
    }
}

fn mean(all: &[Priors]) -> Priors {
    let mean = |figure: fn(&Priors) -> f64| all.iter().map(figure).sum::<f64>() / all.len() as f64;
    Priors {
        prefill_tokens_per_second: mean(|one| one.prefill_tokens_per_second),
        step_seconds: mean(|one| one.step_seconds),
        step_growth_seconds: mean(|one| one.step_growth_seconds),
        first_token_steps: mean(|one| one.first_token_steps),
        output_tokens: mean(|one| one.output_tokens),
    }
}

/// One router through all repeats.
struct Run<'a> {
    plan: &'a LearningPlan,
    workload: &'a Workload,
    priors: Priors,
    /// When the first window begins.
    begin: Moment,
}

impl Run<'_> {
    /// The repeats share nothing, so each has its thread.
    fn pooled(&self) -> TtftByWindow {
        let mut pooled = TtftByWindow::default();
        std::thread::scope(|scope| {
            let repeats = 0..u64::from(self.plan.repeats);
            let threads: Vec<_> = repeats
                .map(|repeat| scope.spawn(move || self.course(mix(self.plan.seed, REPEAT, repeat))))
                .collect();
            for thread in threads {
                pooled.merge(&thread.join().expect("a run ends"));
            }
        });
        pooled
    }

    fn course(&self, seed: u64) -> TtftByWindow {
        let plan = self.plan;
        let cell = plan.cell(self.workload, seed, self.begin);
        let (records, _) = run_believing(&cell, self.priors);
        let mut course = TtftByWindow(vec![Samples::default(); plan.windows as usize]);
        for record in records.iter().filter(|record| record.sent >= self.begin) {
            let passed = record.sent - self.begin;
            let window = passed.div_duration_f64(plan.window) as usize;
            if let (Some(samples), Some(first)) = (course.0.get_mut(window), record.first_token) {
                samples.push(first - record.sent);
            }
        }
        course
    }
}
