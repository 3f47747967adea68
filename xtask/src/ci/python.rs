//! Packages of PyPI, in virtual environments under the build directory: nothing of the machine's own
//! Python is changed, and the second run installs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;

use super::{execute, execute_within, homing};
use crate::repository;

/// Far more than tests need: a server that prints no address would hold them forever.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The environment with an Envoy, and the folder of the tests that need it.
pub(super) const ENVOY: (&str, &str) = ("venv-epp", "tests/epp");

/// Runs the tests of a folder, which lists what they need, against the program that was built.
pub(super) fn test(environment_name: &str, folder: &str) -> anyhow::Result<()> {
    let homing = homing()?;
    let python = equipped(environment_name, folder)?;
    execute_within(
        Command::new(&python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", folder])
            .env("HOMING_BIN", homing)
            .env("PYTHONDONTWRITEBYTECODE", "1"),
        PATIENCE,
    )
}

/// A Python with Envoy beside it, as the tests of the picker use it.
pub(crate) fn genuine_envoy() -> anyhow::Result<PathBuf> {
    equipped(ENVOY.0, ENVOY.1)
}

/// A Python with what a folder's tests need.
fn equipped(environment_name: &str, folder: &str) -> anyhow::Result<PathBuf> {
    let python = environment(environment_name)?;
    install(&python, &format!("{folder}/requirements.txt"), &[])?;
    Ok(python)
}

/// The Python of the environment of that name, which is made if it is not there, and made again if it
/// has no pip: making it was interrupted then.
pub(super) fn environment(name: &str) -> anyhow::Result<PathBuf> {
    let environment = repository::target_directory()?.join(name);
    let python = environment.join("bin/python");
    if !has_pip(&python) {
        execute(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&environment),
        )?;
    }
    Ok(python)
}

fn has_pip(python: &Path) -> bool {
    let asked = Command::new(python)
        .args(["-m", "pip", "--version"])
        .output();
    asked.is_ok_and(|answer| answer.status.success())
}

/// Installs what a file lists, with further words to pip.
pub(super) fn install(python: &Path, requirements: &str, words: &[&str]) -> anyhow::Result<()> {
    ensure!(
        repository::root().join(requirements).is_file(),
        "{requirements} is missing"
    );
    execute(
        Command::new(python)
            .args(["-m", "pip", "install", "--quiet"])
            .arg("--disable-pip-version-check")
            .args(words)
            .args(["--requirement", requirements]),
    )
}
