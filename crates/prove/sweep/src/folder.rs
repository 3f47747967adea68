//! The folder of one sweep.
//!
//! ```text
//! plan.json       what is run, in which order
//! run.json        when it was run, by which version
//! cells/*.jsonl   a line for every request     ] raw: all else
//! cells/*.json    a page for every run         ] is computed from it
//! summary.json …  what it comes to
//! ```
//!
//! A sweep that was interrupted goes on in its folder at the first run that is not complete,
//! if the plan is the same. Nothing that is complete is ever run again or overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::{Plan, SCHEMA};
use stats::raw::{CellName, RawCell, RawError, write_whole};

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} does not hold a sweep: {problem}", path.display())]
    NoSweep { path: PathBuf, problem: String },
    #[error(
        "output: {} holds a sweep of another plan (its {field} differs); \
         choose another folder or remove that one",
        path.display()
    )]
    OtherPlan { path: PathBuf, field: String },
    #[error(transparent)]
    Raw(#[from] RawError),
}

/// `plan.json`.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    plan: Plan,
    /// In the order in which they are run.
    cells: Vec<CellName>,
}

/// `run.json`: the only file that differs between two equal virtual sweeps, apart from the
/// date in the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLog {
    pub sittings: Vec<SweepSession>,
}

/// One go at a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSession {
    pub version: String,
    pub begun_ms: u64,
    pub ended_ms: u64,
    /// Runs that were completed in it.
    pub completed: usize,
}

/// A folder that belongs to a plan.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    plan: Plan,
}

impl Folder {
    /// Begins a sweep in a folder, or goes on with the same one.
    pub fn open(path: &Path, plan: Plan) -> Result<Self, FolderError> {
        let folder = Self {
            path: path.to_owned(),
            plan,
        };
        fs::create_dir_all(folder.cells()).map_err(at(path))?;
        let plan_file = path.join("plan.json");
        match fs::read_to_string(&plan_file) {
            Ok(text) => {
                let written = serde_json::from_str(&text).unwrap_or_default();
                if let Some(field) = folder.plan.differs_from(&written) {
                    let path = path.to_owned();
                    return Err(FolderError::OtherPlan { path, field });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let written = Written {
                    cells: folder.plan.cells(),
                    plan: folder.plan.clone(),
                };
                folder.write_json("plan.json", &written)?;
            }
            Err(error) => return Err(at(&plan_file)(error)),
        }
        Ok(folder)
    }

    /// A folder in which a sweep was begun.
    pub fn read(path: &Path) -> Result<Self, FolderError> {
        let no_sweep = |problem: String| FolderError::NoSweep {
            path: path.to_owned(),
            problem,
        };
        let text = fs::read_to_string(path.join("plan.json"));
        let text = text.map_err(|error| no_sweep(format!("plan.json: {error}")))?;
        let Written { plan, .. } =
            serde_json::from_str(&text).map_err(|error| no_sweep(format!("plan.json: {error}")))?;
        if plan.schema != SCHEMA {
            let problem = format!(
                "plan.json: schema {} is not supported; this version reads {SCHEMA}",
                plan.schema
            );
            return Err(no_sweep(problem));
        }
        Ok(Self {
            path: path.to_owned(),
            plan,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where raw cells are.
    pub fn cells(&self) -> PathBuf {
        self.path.join("cells")
    }

    /// Runs that are still to be made, in order.
    pub fn left(&self) -> Vec<CellName> {
        let cells = self.plan.cells().into_iter();
        cells.filter(|name| !self.has(name)).collect()
    }

    pub fn has(&self, name: &CellName) -> bool {
        RawCell::is_complete(&self.cells(), name)
    }

    /// Complete runs of one mode at one level, in order of repeat.
    pub fn runs(&self, mode: &str, concurrency: u32) -> Result<Vec<RawCell>, FolderError> {
        let mut runs = Vec::new();
        for repeat in 1..=self.plan.repeats {
            let name = CellName {
                mode: mode.to_owned(),
                concurrency,
                repeat,
            };
            runs.extend(RawCell::read(&self.cells(), &name)?);
        }
        Ok(runs)
    }

    /// Adds a sitting to the log.
    pub fn log(&self, sitting: SweepSession) -> Result<(), FolderError> {
        let mut log = self.run_log();
        log.sittings.push(sitting);
        self.write_json("run.json", &log)
    }

    /// Empty if there is none.
    pub fn run_log(&self) -> RunLog {
        let text = fs::read_to_string(self.path.join("run.json"));
        let log = text.ok().and_then(|text| serde_json::from_str(&text).ok());
        log.unwrap_or_default()
    }

    /// When the last run was completed; 0 if nobody wrote it down.
    pub fn ended_ms(&self) -> u64 {
        let log = self.run_log();
        let completed = log.sittings.iter().filter(|one| one.completed > 0);
        completed.map(|one| one.ended_ms).max().unwrap_or(0)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FolderError> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from);
        let text = text.map_err(at(&self.path.join(name)))?;
        self.write(name, &(text + "\n"))
    }

    /// Writes a file in one piece.
    pub fn write(&self, name: &str, text: &str) -> Result<(), FolderError> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        write_whole(&path, text).map_err(at(&path))
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::File {
        path: path.clone(),
        source,
    }
}
