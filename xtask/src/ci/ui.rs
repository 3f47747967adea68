//! The web console: its own checks, and a real browser in front of a real demo.
//!
//! Both run under npm, with what `package-lock.json` names. The browser is Debian's headless
//! Chromium; the tests start the demo themselves, because some of them take it away.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::{execute, execute_within, homing};
use crate::repository;

const FOLDER: &str = "ui";

/// Far more than the tests need: a page that never loads would hold them forever.
const PATIENCE: Duration = Duration::from_secs(900);

/// Types, lints and unit tests.
pub(super) fn check() -> anyhow::Result<()> {
    install()?;
    execute(&mut npm(&["run", "check"]))
}

/// The console as its users see it.
pub(super) fn browse() -> anyhow::Result<()> {
    install()?;
    run_in_browser("browser")
}

/// Pictures of every page for the documentation.
pub(crate) fn screenshots() -> anyhow::Result<()> {
    super::packages::ensure(super::Tool::Node)?;
    super::packages::ensure(super::Tool::Chromium)?;
    install()?;
    run_in_browser("screenshots")
}

fn run_in_browser(script: &str) -> anyhow::Result<()> {
    let mut command = npm(&["run", script]);
    command.env("HOMING", homing()?);
    execute_within(&mut command, PATIENCE)
}

/// Installs what the lock file names, unless that has been done since it last changed.
fn install() -> anyhow::Result<()> {
    let folder = repository::root().join(FOLDER);
    if is_newer(
        &folder.join("node_modules/.package-lock.json"),
        &folder.join("package-lock.json"),
    ) {
        return Ok(());
    }
    // Not `npm ci`, which refuses a lock file that lacks other platforms' optional packages.
    execute(&mut npm(&[
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
    ]))
}

fn is_newer(made: &Path, source: &Path) -> bool {
    let changed = |path: &Path| -> std::io::Result<SystemTime> { path.metadata()?.modified() };
    matches!((changed(made), changed(source)), (Ok(made), Ok(source)) if made >= source)
}

fn npm(words: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(["--prefix", FOLDER]).args(words);
    command
}
