//! Genuine Dynamo workers, from PyPI, behind our links and feeds.
//!
//! The tests are those of `crates/reach/dynamo/tests` and `crates/homing/tests/processes` that are
//! ignored elsewhere, because they need what is installed here.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{answers, execute_within, python};

const REQUIREMENTS: &str = "tests/dynamo/requirements.txt";
/// The tests look for it under the build directory by this name.
const ENVIRONMENT: &str = "venv-dynamo";

const PATIENCE: Duration = Duration::from_secs(600);

/// A Python with Dynamo in it, which is installed if it is not there.
pub(crate) fn genuine_dynamo() -> anyhow::Result<PathBuf> {
    let python = python::environment(ENVIRONMENT)?;
    python::install(&python, REQUIREMENTS, &["--no-deps"])?;
    Ok(python)
}

pub(super) fn check() -> anyhow::Result<()> {
    genuine_dynamo()?;
    // For the whole workspace, so that what the step `tests` compiled is used again.
    let words = if answers("cargo", &["nextest", "--version"]) {
        "nextest run --workspace --locked --run-ignored only -E binary(genuine)|test(/^dynamo::/)"
    } else {
        "test --workspace --test genuine --test processes --locked -- --ignored --skip hosts"
    };
    execute_within(Command::new("cargo").args(words.split(' ')), PATIENCE)
}
