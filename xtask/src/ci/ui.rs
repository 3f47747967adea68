//! The web console: its own checks, and a real browser in front of a real demo.
//!
//! Both run under npm, with what `package-lock.json` names. The browser is Debian's headless
//! Chromium; the tests start the demo themselves, because some of them take it away.

use std::time::Duration;

use super::{execute, execute_within, homing, npm};

const FOLDER: &str = "ui";

/// Far more than the tests need: a page that never loads would hold them forever.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Types, lints and unit tests.
pub(super) fn check() -> anyhow::Result<()> {
    npm::install(FOLDER)?;
    execute(&mut npm::command(FOLDER, &["run", "check"]))
}

/// The console as its users see it.
pub(super) fn browse() -> anyhow::Result<()> {
    npm::install(FOLDER)?;
    run_in_browser("browser")
}

/// Pictures of every page for the documentation.
pub(crate) fn screenshots() -> anyhow::Result<()> {
    super::packages::ensure(super::Tool::Node)?;
    super::packages::ensure(super::Tool::Chromium)?;
    super::packages::ensure(super::Tool::Prometheus)?;
    npm::install(FOLDER)?;
    run_in_browser("screenshots")
}

fn run_in_browser(script: &str) -> anyhow::Result<()> {
    let mut command = npm::command(FOLDER, &["run", script]);
    command.env("HOMING", homing()?);
    execute_within(&mut command, PATIENCE)
}
