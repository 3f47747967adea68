//! Clients that we did not write, from PyPI, against a server that we did.
//!
//! They live in a virtual environment under the build directory: nothing of the machine's
//! own Python is changed, and the second run installs nothing.

use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use super::{execute, execute_within, homing};
use crate::repository;

const TESTS: &str = "tests/clients";
const REQUIREMENTS: &str = "tests/clients/requirements.txt";

/// Far more than the tests need: a server that prints no address would hold them forever.
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn check() -> anyhow::Result<()> {
    ensure!(
        repository::root().join(REQUIREMENTS).is_file(),
        "{REQUIREMENTS} is missing"
    );
    let homing = homing()?;
    let environment = repository::target_directory()?.join("venv");
    let python = environment.join("bin/python");
    if !python.is_file() {
        execute(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment),
        )?;
    }
    execute(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
        REQUIREMENTS,
    ]))?;
    execute_within(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS])
            .env("HOMING_BIN", homing)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
        PATIENCE,
    )
}
