//! The tests in which hosts are network namespaces.
//!
//! They are those of `crates/homing/tests/processes` that are ignored elsewhere. They run in a
//! namespace of their own, so that no name or address of this machine is touched and everything
//! ends with them; whoever is not root becomes it in there.

use std::process::Command;
use std::time::Duration;

use super::packages::is_root;
use super::{answers, execute_within};

const PATIENCE: Duration = Duration::from_secs(1800);
/// `ip` keeps the names of namespaces under /run, which is not ours to write.
const PREPARE: &str = "mount -t tmpfs tmpfs /run && exec";

pub(super) fn check() -> anyhow::Result<()> {
    // For the whole workspace, so that what the step `tests` compiled is used again.
    let words = if answers("cargo", &["nextest", "--version"]) {
        "cargo nextest run --workspace --locked --run-ignored only --no-capture -E 'test(/^hosts::/)'"
    } else {
        "cargo test --workspace --test processes --locked -- --ignored --nocapture hosts"
    };
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]);
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["sh", "-c", &format!("{PREPARE} {words}")]);
    execute_within(&mut command, PATIENCE)
}
