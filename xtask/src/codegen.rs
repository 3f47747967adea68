//! Files that are written by code and committed, so that they can be read without building.
//!
//! Whether they are fresh is checked by [`crate::tidy`].

use anyhow::Context;

use crate::repository;

pub(crate) const METRICS_PAGE: &str = "docs/metrics.md";

pub(crate) fn run() -> anyhow::Result<()> {
    let path = repository::root().join(METRICS_PAGE);
    std::fs::write(&path, telemetry::catalog::markdown())
        .with_context(|| format!("could not write {METRICS_PAGE}"))?;
    println!("wrote {METRICS_PAGE}");
    Ok(())
}
