//! Files that are written by code and committed, so that they can be read without building.
//!
//! Whether they are fresh is checked by [`crate::tidy`].

use anyhow::Context;

use crate::repository;

/// A file, and what writes it.
pub(crate) struct Generated {
    pub(crate) path: &'static str,
    pub(crate) text: fn() -> String,
}

pub(crate) const GENERATED: [Generated; 2] = [
    Generated {
        path: "docs/metrics.md",
        text: telemetry::catalog::markdown,
    },
    Generated {
        path: "ui/src/api/types.ts",
        text: console::typescript,
    },
];

pub(crate) fn run() -> anyhow::Result<()> {
    for Generated { path, text } in GENERATED {
        std::fs::write(repository::root().join(path), text())
            .with_context(|| format!("could not write {path}"))?;
        println!("wrote {path}");
    }
    Ok(())
}
