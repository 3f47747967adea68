//! Clients that we did not write, from PyPI, against a server that we did.

use std::process::Command;
use std::time::Duration;

use super::{execute_within, homing, python};

const TESTS: &str = "tests/clients";
const REQUIREMENTS: &str = "tests/clients/requirements.txt";

/// Far more than the tests need: a server that prints no address would hold them forever.
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) fn check() -> anyhow::Result<()> {
    let homing = homing()?;
    let python = python::environment("venv")?;
    python::install(&python, REQUIREMENTS, &[])?;
    execute_within(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS])
            .env("HOMING_BIN", homing)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
        PATIENCE,
    )
}
