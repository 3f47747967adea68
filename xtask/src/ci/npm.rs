//! Packages of npm, for what is checked in the language of its users.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use super::execute;
use crate::repository;

/// Installs what a folder's lock file names, unless that has been done since it last changed.
pub(super) fn install(folder: &str) -> anyhow::Result<()> {
    let path = repository::root().join(folder);
    if is_newer(
        &path.join("node_modules/.package-lock.json"),
        &path.join("package-lock.json"),
    ) {
        return Ok(());
    }
    // Not `npm ci`, which refuses a lock file that lacks other platforms' optional packages.
    execute(&mut command(
        folder,
        &["install", "--no-save", "--no-audit", "--no-fund"],
    ))
}

/// npm with these words, in a folder.
pub(super) fn command(folder: &str, words: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(["--prefix", folder]).args(words);
    command
}

fn is_newer(made: &Path, source: &Path) -> bool {
    let changed = |path: &Path| -> std::io::Result<SystemTime> { path.metadata()?.modified() };
    matches!((changed(made), changed(source)), (Ok(made), Ok(source)) if made >= source)
}
