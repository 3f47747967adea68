//! Computes every result of a sweep from the raw cells in its folder.
//!
//! Levels are taken one after the other on each thread, since a level's modes are compared
//! with each other and no level needs another: however long a sweep was, only a few levels
//! are in memory.

use crate::folder::{Folder, FolderError};
use crate::plan::Testbed;
use lab::grid::{Job, NEVER, Pace, run_all};
use stats::baseline::baseline;
use stats::cell_summary::{About, CellSummary};
use stats::compare::Measurements;
use stats::headline::Headline;
use stats::intervals::{Difference, Verdict, judge};
use stats::raw::{CellFacts, RawCell};
use stats::summary::{self, ReportData, SCHEMA, Summary};
use stats::traffic::Timeline;

/// Computes the report of a sweep, as far as it is run.
pub fn analyse(
    folder: &Folder,
    measurements: Option<&Measurements>,
    threads: usize,
) -> Result<ReportData, FolderError> {
    let plan = folder.plan();
    let jobs: Vec<_> = plan
        .levels
        .iter()
        .map(|&level| Job {
            label: String::new(),
            weight: f64::from(level),
            run: move || level_of(folder, level),
        })
        .collect();
    let pace = Pace {
        threads,
        progress: &|_| {},
        stop: &NEVER,
    };
    let (mut cells, mut differences) = (Vec::new(), Vec::new());
    let (mut timelines, mut facts) = (Vec::new(), None);
    for level in run_all(&jobs, &pace) {
        let level = level?;
        cells.extend(level.cells);
        differences.extend(level.differences);
        if !level.timelines.is_empty() {
            // The highest level comes last.
            timelines = level.timelines;
        }
        facts = facts.or(level.facts);
    }
    // All together: verdicts depend on how many there are.
    judge(&mut differences);
    for cell in &mut cells {
        let of_cell = differences.iter().filter(|one| {
            one.mode == cell.mode
                && Some(one.concurrency) == cell.concurrency
                && one.verdict != Verdict::NotEnoughRuns
        });
        cell.verdicts = of_cell
            .map(|one| (one.figure.clone(), one.verdict))
            .collect();
    }
    let about = about(folder, facts.as_ref());
    let runs: u32 = cells.iter().map(|cell| cell.runs).sum();
    let named = baseline(&about, &cells, "", 0);
    Ok(ReportData {
        summary: Summary {
            schema: SCHEMA,
            run_id: named.run_id,
            about,
            modes: plan.modes.clone(),
            levels: plan.levels.clone(),
            done: runs as usize,
            planned: plan.cells().len(),
            headline: Some(Headline::new(plan.slo.clone(), &cells, &differences)),
            comparison: measurements.map(|measurements| measurements.compare(&cells)),
            differences,
            cells,
        },
        timelines,
    })
}

/// One level, with what is left of its raw cells.
struct Level {
    cells: Vec<CellSummary>,
    differences: Vec<Difference>,
    timelines: Vec<(String, Timeline)>,
    facts: Option<CellFacts>,
}

fn level_of(folder: &Folder, concurrency: u32) -> Result<Level, FolderError> {
    let plan = folder.plan();
    let mut modes: Vec<(&str, Vec<RawCell>)> = Vec::new();
    for mode in &plan.modes {
        let runs = folder.runs(mode, concurrency)?;
        if !runs.is_empty() {
            modes.push((mode, runs));
        }
    }
    let views: Vec<(&str, &[RawCell])> =
        modes.iter().map(|(mode, runs)| (*mode, &**runs)).collect();
    let (cells, differences) = summary::level(concurrency, &views, &plan.slo);
    let first_runs = modes
        .iter()
        .filter_map(|(mode, runs)| Some((mode, runs.first()?)));
    Ok(Level {
        cells,
        // Only against the plan's first mode, and that may be missing yet.
        differences: match modes.first().map(|(mode, _)| *mode)
            == plan.modes.first().map(|mode| &**mode)
        {
            true => differences,
            false => Vec::new(),
        },
        timelines: first_runs
            .clone()
            .map(|(mode, run)| ((*mode).to_owned(), Timeline::of(run)))
            .collect(),
        facts: modes
            .first()
            .and_then(|(_, runs)| Some(runs.first()?.facts.clone())),
    })
}

fn about(folder: &Folder, facts: Option<&CellFacts>) -> About {
    let plan = folder.plan();
    let (planned_profile, planned_workers) = match &plan.testbed {
        Testbed::Virtual { profile, workers } => (profile.clone(), Some(*workers)),
        Testbed::Story { stages, workers } => {
            let mut profiles: Vec<&str> = stages.iter().map(|stage| &*stage.profile).collect();
            profiles.dedup();
            (profiles.join(", "), Some(*workers))
        }
        Testbed::Homing { .. } | Testbed::Hooks { .. } => (String::new(), None),
    };
    let is_story = matches!(plan.testbed, Testbed::Story { .. });
    let measured_profile = facts
        .filter(|_| !is_story)
        .map(|facts| facts.profile.clone());
    About {
        simulated: facts.map_or(planned_workers.is_some(), |facts| facts.simulated),
        testbed: plan.testbed.name().to_owned(),
        workload: plan.workload.clone(),
        profile: measured_profile.unwrap_or(planned_profile),
        workers: facts.map_or(planned_workers, |facts| facts.workers),
        seed: plan.seed,
        repeats: plan.repeats,
        warmup_s: plan.warmup_s,
        window_s: plan.window_s,
        order: plan.order.name().to_owned(),
        command: plan.command(),
    }
}
