//! A sweep in virtual time, written to its folder cell by cell.

use std::sync::atomic::{AtomicBool, Ordering};

use router::{BlockWeights, Mode, ModeName};

use crate::cell::run_cell;
use crate::contestant::Contestant;
use crate::figures::Pool;
use crate::folder::{Folder, FolderError};
use crate::grid::{Effort, Job, Pace, Progress, SweepPlan, run_all};
use crate::meter::metered;
use crate::plan::{Plan, Testbed};
use crate::raw::CellName;
use crate::setting::{Setting, SettingError};
use crate::slo;
use crate::summary::CellSummary;

/// How a virtual sweep goes on.
#[derive(Clone, Copy, Debug)]
pub struct VirtualRun<'a> {
    pub folder: &'a Folder,
    pub threads: Option<usize>,
    /// Level by level upward, and only modes that still hold the objectives.
    pub search: bool,
    /// Once set, no further run is begun.
    pub stop: &'a AtomicBool,
}

/// Why a virtual sweep cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum VirtualError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl VirtualRun<'_> {
    /// Makes the runs that are left and says how many there were.
    pub fn run(&self) -> Result<usize, VirtualError> {
        let plan = sweep_plan(self.folder.plan())?;
        let outcome = metered(self.threads, self.stop, |pace| {
            let outcome = match self.search {
                false => self.runs(&plan, &self.folder.left(), pace),
                true => self.search(&plan, pace),
            };
            let efforts = outcome.as_ref().map_or(Vec::new(), Clone::clone);
            (outcome, efforts)
        });
        Ok(outcome?.len())
    }

    fn runs(
        &self,
        plan: &SweepPlan,
        cells: &[CellName],
        pace: &Pace<'_>,
    ) -> Result<Vec<Effort>, FolderError> {
        let folder = self.folder.cells();
        let jobs: Vec<_> = cells
            .iter()
            .filter_map(|name| {
                let mode = contestant(&name.mode)?;
                let folder = &folder;
                let run = move || {
                    let raw = run_cell(&plan.cell(mode, name.concurrency, name.repeat));
                    raw.write(folder)?;
                    Ok(Effort::of(&[raw]))
                };
                Some(Job {
                    label: name.to_string(),
                    weight: f64::from(name.concurrency),
                    run,
                })
            })
            .collect();
        let done = run_all(&jobs, pace);
        done.into_iter().collect::<Result<_, FolderError>>()
    }

    fn search(&self, plan: &SweepPlan, pace: &Pace<'_>) -> Result<Vec<Effort>, FolderError> {
        let (wanted, levels) = (self.folder.plan(), &plan.levels);
        let mut efforts = Vec::new();
        let mut problem = None;
        slo::search(levels, &wanted.modes, &wanted.slo, |level, modes| {
            let is_of_wave =
                |name: &CellName| name.concurrency == level && modes.contains(&name.mode);
            let left: Vec<CellName> = self.folder.left().into_iter().filter(is_of_wave).collect();
            let higher = levels.iter().filter(|&&other| other > level).count();
            let done = efforts.len();
            let pace = Pace {
                progress: &|progress: Progress<'_>| {
                    // At most so many: modes may drop out.
                    let total = done + progress.total * (1 + higher);
                    let done = done + progress.done;
                    let share = done as f64 / total as f64;
                    (pace.progress)(Progress {
                        done,
                        total,
                        share,
                        ..progress
                    });
                },
                ..*pace
            };
            let outcome = self.runs(plan, &left, &pace).and_then(|more| {
                efforts.extend(more);
                modes.iter().map(|mode| self.judged(mode, level)).collect()
            });
            match outcome {
                Ok(cells) if !self.stop.load(Ordering::Relaxed) => cells,
                Ok(_) => Vec::new(),
                Err(error) => {
                    problem.get_or_insert(error);
                    Vec::new()
                }
            }
        });
        problem.map_or(Ok(efforts), Err)
    }

    fn judged(&self, mode: &str, level: u32) -> Result<CellSummary, FolderError> {
        let runs = self.folder.runs(mode, level)?;
        Ok(CellSummary::new(
            mode,
            Some(level),
            Pool { runs: &runs },
            None,
        ))
    }
}

/// A mode of the router by its name, with default parameters.
fn contestant(name: &str) -> Option<Contestant> {
    let name: ModeName = name.parse().ok()?;
    Some(Mode::new(name, BlockWeights::default()).into())
}

fn sweep_plan(plan: &Plan) -> Result<SweepPlan, SettingError> {
    let (profile, workers) = match &plan.testbed {
        Testbed::Virtual { profile, workers } => (Some(profile.as_str()), Some(*workers)),
        Testbed::Homing { .. } | Testbed::Hooks { .. } => (None, None),
    };
    let setting = Setting::find(&plan.workload, profile, workers)?;
    Ok(SweepPlan {
        workload: setting.workload,
        profile: setting.profile,
        workers: setting.workers,
        modes: plan
            .modes
            .iter()
            .filter_map(|mode| contestant(mode))
            .collect(),
        levels: plan.levels.clone(),
        repeats: plan.repeats,
        seed: plan.seed,
        warmup: plan.warmup(),
        window: plan.window(),
    })
}
