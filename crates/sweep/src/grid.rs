//! Many cells on all cores.
//!
//! A cell shares nothing with another, so they run on threads that take the next one when
//! they are done, the longest first. Results are put together in the order of the plan:
//! neither the number of threads nor who finished first can be seen in them.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use contract::random::mix;
use engine::sim::Profile;
use parking_lot::Mutex;

use crate::cell::{CellPlan, Measured, run_cell, run_trace};
use crate::cluster::WorkerPlan;
use crate::contestant::Contestant;
use crate::report::CellSummary;
use crate::slo::{self, Objectives};
use crate::trace::Trace;
use crate::workload::Workload;

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

/// How the cells are run.
pub struct Pace<'a> {
    pub threads: usize,
    /// Told after each cell.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

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

/// One cell among others.
struct Job<R> {
    label: String,
    /// How long it takes, compared with others.
    weight: f64,
    run: R,
}

/// Runs every cell of a sweep. One summary for each level and mode, repeats pooled.
pub fn sweep(plan: &SweepPlan, pace: &Pace<'_>) -> Vec<(CellSummary, Measured)> {
    let mut jobs = Vec::new();
    for &level in &plan.levels {
        for &mode in &plan.modes {
            for repeat in 0..plan.repeats {
                let cell = CellPlan {
                    workload: &plan.workload,
                    profile: &plan.profile,
                    workers: plan.workers,
                    mode,
                    level,
                    seed: mix(plan.seed, REPEAT, u64::from(repeat)),
                    warmup: plan.warmup,
                    window: plan.window,
                };
                jobs.push(Job {
                    label: format!("{} at {level}, repeat {}", mode.name(), repeat + 1),
                    weight: f64::from(level),
                    run: move || run_cell(&cell),
                });
            }
        }
    }
    let mut measured = run_all(&jobs, pace).into_iter();
    let mut cells = Vec::new();
    for &level in &plan.levels {
        for mode in &plan.modes {
            let mut repeats = measured.by_ref().take(plan.repeats as usize);
            if let Some(mut pooled) = repeats.next() {
                repeats.for_each(|other| pooled.merge(&other));
                cells.push((CellSummary::new(mode.name(), Some(level), &pooled), pooled));
            }
        }
    }
    cells
}

/// Runs a sweep level by level upward, with the modes that still hold the objectives.
pub fn search(
    plan: &SweepPlan,
    objectives: &Objectives,
    pace: &Pace<'_>,
) -> Vec<(CellSummary, Measured)> {
    let mut before = 0;
    slo::search(&plan.levels, &plan.modes, objectives, |level, modes| {
        let wave = SweepPlan {
            levels: vec![level],
            modes: modes.to_vec(),
            ..plan.clone()
        };
        let runs_left = |progress: &Progress<'_>| {
            let higher = plan.levels.iter().filter(|&&other| other > level).count();
            progress.total + higher * modes.len() * plan.repeats as usize
        };
        let cells = sweep(
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

/// Replays a trace in every mode.
pub fn replay(plan: &ReplayPlan, pace: &Pace<'_>) -> Vec<(CellSummary, Measured)> {
    let limits = plan.profile.limits();
    let memory_tokens = limits.total_blocks.saturating_mul(limits.block_size);
    let longest = u32::try_from(plan.trace.longest_tokens()).unwrap_or(u32::MAX);
    let worker = WorkerPlan {
        // A trace says how long its prompts are; what memory can hold is served.
        max_context_tokens: Some(limits.max_context_tokens.max(longest.min(memory_tokens))),
        ..WorkerPlan::new(plan.profile.clone())
    };
    let workers = vec![worker; plan.workers as usize];
    let jobs: Vec<_> = plan
        .modes
        .iter()
        .map(|&mode| Job {
            label: mode.name().to_owned(),
            weight: 1.0,
            run: {
                let workers = &workers;
                move || run_trace(&plan.trace, workers, (mode, plan.speed), plan.seed)
            },
        })
        .collect();
    let measured = run_all(&jobs, pace).into_iter();
    let cells = plan.modes.iter().zip(measured);
    cells
        .map(|(mode, measured)| (CellSummary::new(mode.name(), None, &measured), measured))
        .collect()
}

/// Runs the jobs and returns what they gave, in their order.
fn run_all<R: Fn() -> Measured + Sync>(jobs: &[Job<R>], pace: &Pace<'_>) -> Vec<Measured> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    // The longest first, so that no thread is left alone with one at the end.
    order.sort_by(|&left, &right| jobs[right].weight.total_cmp(&jobs[left].weight));
    let total_weight: f64 = jobs.iter().map(|job| job.weight).sum();
    let next = AtomicUsize::new(0);
    let results: Mutex<Results> = Mutex::new(Results {
        measured: jobs.iter().map(|_| None).collect(),
        done: 0,
        weight: 0.0,
    });
    std::thread::scope(|scope| {
        for _ in 0..pace.threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let job = &jobs[index];
                    let measured = (job.run)();
                    let mut results = results.lock();
                    results.measured[index] = Some(measured);
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
    let results = results.into_inner().measured.into_iter();
    results
        .map(|measured| measured.expect("every job was taken and run"))
        .collect()
}

struct Results {
    measured: Vec<Option<Measured>>,
    done: usize,
    weight: f64,
}
