//! A genuine Envoy, from PyPI, whose endpoints our picker picks.

use std::process::Command;
use std::time::Duration;

use super::{execute_within, homing, python};

const TESTS: &str = "tests/epp";
const REQUIREMENTS: &str = "tests/epp/requirements.txt";

/// Far more than the tests need.
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) fn check() -> anyhow::Result<()> {
    let homing = homing()?;
    let python = python::environment("venv-epp")?;
    python::install(&python, REQUIREMENTS, &[])?;
    execute_within(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS])
            .env("HOMING_BIN", homing)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
        PATIENCE,
    )
}
