//! The rules of the house that no compiler checks.
//!
//! Each check is a pure function from the list of files to problems. All of them run, and
//! every problem is reported with its place and what to do about it: a list that is
//! worked off once beats a list that is met one line at a time.

mod layers;
mod once;
mod product;
mod rings;
mod source;

use std::fmt;

use anyhow::ensure;

use crate::repository::{self, File};

/// Something to put right.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    line: usize,
    advice: String,
}

impl Problem {
    fn new(path: &str, line: usize, advice: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.advice)
    }
}

type Check = fn(&[File]) -> Vec<Problem>;

const CHECKS: [Check; 15] = [
    layers::check_layers,
    layers::check_lints,
    rings::check_rings,
    source::check_headers,
    source::check_length,
    source::check_names,
    source::check_size,
    source::check_unfinished,
    source::check_environment,
    once::check_statuses,
    once::check_modes,
    once::check_map,
    product::check_generated,
    product::check_dashboards,
    product::check_corpus,
];

pub(crate) fn run() -> anyhow::Result<()> {
    let files = repository::files()?;
    let problems: Vec<Problem> = CHECKS.iter().flat_map(|check| check(&files)).collect();
    for problem in &problems {
        println!("{problem}");
    }
    ensure!(
        problems.is_empty(),
        "tidy found {} problem(s)",
        problems.len()
    );
    println!(
        "tidy: {} files, {} checks, no problem",
        files.len(),
        CHECKS.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests;
