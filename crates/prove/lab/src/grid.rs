//! Many cells on all cores.
//!
//! A cell shares nothing with another, so they run on threads that take the next one when
//! they are done, the longest first. Results are put together in the order of the plan:
//! neither the number of threads nor who finished first can be seen in them.
//!
//! What is run here stays in memory: experiments whose raw records nobody asks for. A sweep
//! that is written to a folder is [`sweep::virtual_run`]'s.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use contract::random::mix;
use engine::sim::Profile;
use parking_lot::Mutex;

use crate::cell::{CellPlan, run_cell, run_trace};
use crate::change::WorkerPlan;
use crate::contestant::Contestant;
use crate::trace::Trace;
use crate::workload::Workload;
use stats::cell_summary::{About, CellSummary, VIRTUAL};
use stats::figures::Pool;
use stats::raw::RawCell;
use stats::slo::{self, Objectives};
use stats::summary::Summary;

/// Separates the seeds of repeats.
const REPEAT: u64 = 0x4e9;

/// A whole sweep.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    pub workload: Workload,
    pub profile: Profile,
    pub workers: u32,
    pub modes: Vec<Contestant>,
    pub levels: Vec<u32>,
    pub repeats: u32,
    pub seed: u64,
    pub warmup: Duration,
    pub window: Duration,
}

impl SweepPlan {
    /// How it comes about.
    pub fn about(&self) -> About {
        About {
            simulated: true,
            testbed: VIRTUAL.to_owned(),
            workload: self.workload.name.clone(),
            profile: self.profile.name.clone(),
            workers: Some(self.workers),
            seed: self.seed,
            repeats: self.repeats,
            warmup_s: self.warmup.as_secs_f64(),
            window_s: self.window.as_secs_f64(),
            order: String::new(),
            command: String::new(),
        }
    }

    /// One run of it; repeats count from 1.
    pub fn cell(&self, mode: Contestant, level: u32, repeat: u32) -> CellPlan<'_> {
        CellPlan {
            workload: &self.workload,
            profile: &self.profile,
            workers: self.workers,
            mode,
            level,
            repeat,
            seed: seed_of(self.seed, repeat),
            warmup: self.warmup,
            window: self.window,
        }
    }
}

/// A trace in several modes.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    pub trace: Arc<Trace>,
    pub profile: Profile,
    pub workers: u32,
    pub modes: Vec<Contestant>,
    /// What the trace's clock is divided by.
    pub speed: f64,
    pub seed: u64,
}

impl ReplayPlan {
    /// What a replay of it came to.
    pub fn summary(&self, trace: &str, cells: Vec<CellSummary>) -> Summary {
        let about = About {
            simulated: true,
            testbed: VIRTUAL.to_owned(),
            workload: trace.to_owned(),
            profile: self.profile.name.clone(),
            workers: Some(self.workers),
            seed: self.seed,
            repeats: 1,
            warmup_s: 0.0,
            window_s: 0.0,
            order: String::new(),
            command: String::new(),
        };
        Summary::of_cells(about, cells)
    }
}

/// The seed of a repeat's conversations; repeats count from 1.
pub fn seed_of(seed: u64, repeat: u32) -> u64 {
    mix(seed, REPEAT, u64::from(repeat.saturating_sub(1)))
}

/// How the cells are run.
pub struct Pace<'a> {
    pub threads: usize,
    /// Told after each cell.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
    /// Once set, no further cell is begun.
    pub stop: &'a AtomicBool,
}

/// A pace that nobody stops.
pub static NEVER: AtomicBool = AtomicBool::new(false);

impl std::fmt::Debug for Pace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// How far a grid has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub done: usize,
    pub total: usize,
    /// Share of the work that is done, by how long cells are expected to take.
    pub share: f64,
    /// The cell that was just done.
    pub label: &'a str,
}

/// One mode at one level, all repeats, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub summary: CellSummary,
    pub effort: Effort,
}

/// What virtual runs took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Simulated time, warm-up and the wait for the last answers included.
    pub simulated_s: f64,
    pub steps: u64,
}

impl Effort {
    pub fn of(runs: &[RawCell]) -> Self {
        let facts = runs.iter().filter_map(|run| run.facts.virtual_run);
        facts.fold(Self::default(), |sum, run| Self {
            simulated_s: sum.simulated_s + run.simulated_s,
            steps: sum.steps + run.steps,
        })
    }
}

impl AsRef<CellSummary> for Measured {
    fn as_ref(&self) -> &CellSummary {
        &self.summary
    }
}

impl Measured {
    fn new(mode: &str, level: Option<u32>, runs: &[RawCell]) -> Self {
        Self {
            summary: CellSummary::new(mode, level, Pool { runs }, None),
            effort: Effort::of(runs),
        }
    }
}

/// One cell among others.
#[derive(Debug)]
pub struct Job<R> {
    pub label: String,
    /// How long it takes, compared with others.
    pub weight: f64,
    pub run: R,
}

/// Runs every cell of a sweep with all its repeats.
pub fn sweep(plan: &SweepPlan, pace: &Pace<'_>) -> Vec<Measured> {
    let mut jobs = Vec::new();
    for &level in &plan.levels {
        for &mode in &plan.modes {
            jobs.push(Job {
                label: format!("{} at {level}", mode.name()),
                weight: f64::from(level),
                run: move || {
                    let repeats = 1..=plan.repeats;
                    let runs = repeats.map(|repeat| run_cell(&plan.cell(mode, level, repeat)));
                    Measured::new(mode.name(), Some(level), &runs.collect::<Vec<_>>())
                },
            });
        }
    }
    run_all(&jobs, pace)
}

/// Runs a sweep level by level upward, with the modes that still hold the objectives.
pub fn search(plan: &SweepPlan, objectives: &Objectives, pace: &Pace<'_>) -> Vec<Measured> {
    let mut before = 0;
    slo::search(&plan.levels, &plan.modes, objectives, |level, modes| {
        let wave = SweepPlan {
            levels: vec![level],
            modes: modes.to_vec(),
            ..plan.clone()
        };
        let higher = plan.levels.iter().filter(|&&other| other > level).count();
        // At most so many: modes may drop out.
        let total = before + modes.len() * (1 + higher);
        let cells = sweep(
            &wave,
            &Pace {
                progress: &|progress| {
                    let done = before + progress.done;
                    (pace.progress)(Progress {
                        done,
                        total,
                        share: done as f64 / total as f64,
                        ..progress
                    });
                },
                ..*pace
            },
        );
        before += modes.len();
        cells
    })
}

/// Replays a trace in every mode.
pub fn replay(plan: &ReplayPlan, pace: &Pace<'_>) -> Vec<Measured> {
    let limits = plan.profile.limits();
    let memory_tokens = limits.total_blocks.saturating_mul(limits.block_size);
    let longest = u32::try_from(plan.trace.longest_tokens()).unwrap_or(u32::MAX);
    let worker = WorkerPlan {
        // A trace says how long its prompts are; what memory can hold is served.
        max_context_tokens: Some(limits.max_context_tokens.max(longest.min(memory_tokens))),
        ..WorkerPlan::new(plan.profile.clone())
    };
    let workers = &vec![worker; plan.workers as usize];
    let jobs: Vec<_> = plan
        .modes
        .iter()
        .map(|&mode| Job {
            label: mode.name().to_owned(),
            weight: 1.0,
            run: move || {
                let run = run_trace(&plan.trace, workers, mode, plan.speed, plan.seed);
                Measured::new(mode.name(), None, &[run])
            },
        })
        .collect();
    run_all(&jobs, pace)
}

/// Runs the jobs and returns what they gave, in their order; if it is stopped, what those gave
/// that had begun.
pub fn run_all<T: Send, R: Fn() -> T + Sync>(jobs: &[Job<R>], pace: &Pace<'_>) -> Vec<T> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // The longest first, so that no thread is left alone with one at the end.
    order.sort_by(|&left, &right| jobs[right].weight.total_cmp(&jobs[left].weight));
    let total_weight: f64 = jobs.iter().map(|job| job.weight).sum();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Results {
        given: jobs.iter().map(|_| None).collect(),
        done: 0,
        weight: 0.0,
    });
    let take = || match pace.stop.load(Ordering::Relaxed) {
        true => None,
        false => order.get(next.fetch_add(1, Ordering::Relaxed)).copied(),
    };
    std::thread::scope(|scope| {
        for _ in 0..pace.threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                while let Some(index) = take() {
                    let job = &jobs[index];
                    let given = (job.run)();
                    let mut results = results.lock();
                    results.given[index] = Some(given);
                    results.done += 1;
                    results.weight += job.weight;
                    // Under the lock, so that reports come in order.
                    (pace.progress)(Progress {
                        done: results.done,
                        total: jobs.len(),
                        share: results.weight / total_weight,
                        label: &job.label,
                    });
                }
            });
        }
    });
    results.into_inner().given.into_iter().flatten().collect()
}

struct Results<T> {
    given: Vec<Option<T>>,
    done: usize,
    weight: f64,
}
