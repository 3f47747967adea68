//! Files that are written by code and committed, so that they can be read without building.
//!
//! The catalogue of metrics is small enough to be linked here, and [`crate::tidy`] checks its
//! page. What follows from the whole program is compared by that program's tests, which write
//! it when they are told to: linking all of it would make the first `cargo xtask` of a fresh
//! clone take minutes longer.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::repository;

pub(crate) const METRICS_PAGE: &str = "docs/metrics.md";

/// The tests that compare `docs/config.md` and `ui/src/api/types.ts`.
const WRITERS: [&str; 2] = ["the_reference_is_fresh", "the_types_of_pages_are_fresh"];

pub(crate) fn metrics_page() -> String {
    telemetry::catalog::markdown()
}

pub(crate) fn run() -> anyhow::Result<()> {
    std::fs::write(repository::root().join(METRICS_PAGE), metrics_page())
        .with_context(|| format!("could not write {METRICS_PAGE}"))?;
    println!("wrote {METRICS_PAGE}");
    let status = Command::new("cargo")
        .args(["test", "--quiet", "--workspace", "--lib", "--bins", "--"])
        .args(WRITERS)
        .env("UPDATE_EXPECT", "1")
        .current_dir(repository::root())
        .status()
        .context("could not run cargo")?;
    ensure!(
        status.success(),
        "the tests that write files ended with {status}"
    );
    Ok(())
}
