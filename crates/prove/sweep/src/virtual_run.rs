//! A sweep in virtual time, written to its folder cell by cell.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use router::{BlockWeights, Mode, ModeName};

use crate::folder::{Folder, FolderError};
use crate::plan::{Plan, Testbed};
use lab::cell::run_cell;
use lab::contestant::Contestant;
use lab::grid::{Effort, Job, Pace, Progress, SweepPlan, run_all};
use lab::meter::metered;
use lab::setting::{Setting, SettingError};
use stats::cell_summary::CellSummary;
use stats::figures::Pool;
use stats::raw::CellName;
use stats::slo;

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
        let scenes = scenes(self.folder.plan())?;
        let outcome = metered(self.threads, self.stop, |pace| {
            let outcome = match self.search {
                false => self.runs(&scenes, &self.folder.left(), pace),
                true => self.search(&scenes, pace),
            };
            let efforts = outcome.as_ref().map_or(Vec::new(), Clone::clone);
            (outcome, efforts)
        });
        Ok(outcome?.len())
    }

    fn runs(
        &self,
        scenes: &BTreeMap<String, Scene>,
        cells: &[CellName],
        pace: &Pace<'_>,
    ) -> Result<Vec<Effort>, FolderError> {
        let folder = self.folder.cells();
        let jobs: Vec<_> = cells
            .iter()
            .filter_map(|name| {
                let scene = scenes.get(&name.mode)?;
                let folder = &folder;
                let run = move || {
                    let cell = scene.plan.cell(scene.mode, name.concurrency, name.repeat);
                    let mut raw = run_cell(&cell);
                    if raw.facts.name.mode != name.mode {
                        let mode = &mut raw.facts.name.mode;
                        let called = std::mem::replace(mode, name.mode.clone());
                        raw.facts.router_mode = Some(called);
                    }
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

    fn search(
        &self,
        scenes: &BTreeMap<String, Scene>,
        pace: &Pace<'_>,
    ) -> Result<Vec<Effort>, FolderError> {
        let wanted = self.folder.plan();
        let levels = &wanted.levels;
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
            let outcome = self.runs(scenes, &left, &pace).and_then(|more| {
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

/// How the cells of a mode, or of a story's stage, are run.
struct Scene {
    mode: Contestant,
    plan: SweepPlan,
}

/// By the name of the mode or stage.
fn scenes(plan: &Plan) -> Result<BTreeMap<String, Scene>, SettingError> {
    let mut scenes = BTreeMap::new();
    for name in &plan.modes {
        let (mode, profile, workers) = match &plan.testbed {
            Testbed::Virtual { profile, workers } => (name, profile, *workers),
            Testbed::Story { stages, workers } => {
                let Some(stage) = stages.iter().find(|stage| stage.name == *name) else {
                    continue;
                };
                (&stage.mode, &stage.profile, *workers)
            }
            // Somebody else's.
            Testbed::Homing { .. } | Testbed::Hooks { .. } => continue,
        };
        // A plan has modes that exist.
        let Ok(mode) = mode.parse::<ModeName>() else {
            continue;
        };
        let setting = Setting::find(&plan.workload, Some(profile), Some(workers))?;
        let scene = Scene {
            mode: Mode::new(mode, BlockWeights::default()).into(),
            plan: SweepPlan {
                workload: setting.workload,
                profile: setting.profile,
                workers,
                modes: Vec::new(),
                levels: plan.levels.clone(),
                repeats: plan.repeats,
                seed: plan.seed,
                warmup: plan.warmup(),
                window: plan.window(),
            },
        };
        scenes.insert(name.clone(), scene);
    }
    Ok(scenes)
}
