//! What is said in one place only.

use super::Problem;
use super::source::{is_test, production_lines};
use crate::crates;
use crate::repository::File;

/// Statuses that are no failures.
const SUCCESSES: [&str; 3] = ["OK", "CREATED", "ACCEPTED"];

/// Modes whose names are no everyday words (a new one is added here), and where they may stand: the
/// table, and what is generated from it.
const MODES: [&str; 2] = ["least-loaded", "power-of-two"];
const MODE_TABLE: &str = "crates/serve/router/src/mode/spec.rs";
const MODES_OF_PAGES: &str = "ui/src/api/modes.ts";

const MAP: &str = "ARCHITECTURE.md";

/// The lines of a Rust file that are neither tests nor comments.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let production = production_lines(file.text.as_deref().unwrap_or_default());
    let lines = file.lines().take(production);
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Statuses for failures of the API are chosen in one file.
pub(super) fn check_statuses(files: &[File]) -> Vec<Problem> {
    let frontend = files.iter().filter(|file| {
        file.path.starts_with("crates/serve/frontend/src/")
            && !file.path.ends_with("/error.rs")
            && !is_test(&file.path)
    });
    let mut problems = Vec::new();
    for file in frontend {
        for (number, line) in code(file) {
            let mut statuses = line.split("StatusCode::").skip(1);
            if statuses.any(|rest| !SUCCESSES.iter().any(|fine| rest.starts_with(fine))) {
                let advice = "choose statuses of failures in error.rs";
                problems.push(Problem::new(&file.path, number, advice));
            }
        }
    }
    problems
}

/// A mode's name is in the table alone, so that a new mode is one row.
pub(super) fn check_modes(files: &[File]) -> Vec<Problem> {
    let sources = files.iter().filter(|file| {
        let ours = file.path.starts_with("crates/") || file.path.starts_with("ui/src/");
        let test =
            is_test(&file.path) || file.path.contains(".test.") || file.path.contains("fixtures");
        // Experiments and faults name the modes that they compare.
        let experiment = file.path.starts_with("crates/prove/");
        ours && !test && !experiment && file.has_extension(&["rs", "ts", "tsx"])
    });
    let mut problems = Vec::new();
    for file in sources.filter(|file| file.path != MODE_TABLE && file.path != MODES_OF_PAGES) {
        for (number, line) in code(file) {
            for mode in MODES
                .iter()
                .filter(|mode| line.contains(&format!("\"{mode}\"")))
            {
                let advice = format!("`{mode}` is named here; take it from {MODE_TABLE}");
                problems.push(Problem::new(&file.path, number, advice));
            }
        }
    }
    problems
}

/// The map's paths leave out the group, and exist.
pub(super) fn check_map(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path == MAP) {
        for (number, line) in file.lines() {
            for path in line.split('`').skip(1).step_by(2) {
                let Some((name, rest)) = path.split_once('/') else {
                    continue;
                };
                // Modules are named without their file, as in `router/state`.
                let is_file = rest.starts_with("src/") || rest.contains('.');
                let Some((group, _)) = crates::find(name).filter(|_| is_file) else {
                    continue;
                };
                // Up to a wildcard, if there is one.
                let rest = rest.split('*').next().unwrap_or_default();
                let place = format!("{}/{rest}", group.path_of(name));
                if !files.iter().any(|file| file.path.starts_with(&place)) {
                    let advice = format!("`{path}` does not exist");
                    problems.push(Problem::new(&file.path, number, advice));
                }
            }
        }
    }
    problems
}
