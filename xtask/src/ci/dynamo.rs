//! Genuine Dynamo workers, from PyPI, behind our links and feeds.
//!
//! The tests are those of `crates/dynamo/tests` that are ignored elsewhere, because they need
//! what is installed here.

use std::process::Command;
use std::time::Duration;

use super::{answers, execute_within, python};

const REQUIREMENTS: &str = "tests/dynamo/requirements.txt";
/// The tests look for it under the build directory by this name.
const ENVIRONMENT: &str = "venv-dynamo";

const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn check() -> anyhow::Result<()> {
    let python = python::environment(ENVIRONMENT)?;
    python::install(&python, REQUIREMENTS, &["--no-deps"])?;
    // For the whole workspace, so that what the step `tests` compiled is used again.
    let words = if answers("cargo", &["nextest", "--version"]) {
        "nextest run --workspace --locked --run-ignored only -E binary(genuine)"
    } else {
        "test --workspace --test genuine --locked -- --ignored"
    };
    execute_within(Command::new("cargo").args(words.split(' ')), PATIENCE)
}
