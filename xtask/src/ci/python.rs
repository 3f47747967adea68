//! Packages of PyPI, in virtual environments under the build directory: nothing of the machine's own
//! Python is changed, and the second run installs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use super::execute;
use crate::repository;

/// The Python of the environment of that name, which is made if it is not there.
pub(super) fn environment(name: &str) -> anyhow::Result<PathBuf> {
    let environment = repository::target_directory()?.join(name);
    let python = environment.join("bin/python");
    if !python.is_file() {
        execute(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment),
        )?;
    }
    Ok(python)
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
