//! Begins again without what `cargo run` tells a program about the package that it belongs to.
//!
//! Whatever cargo this program starts would pass it on to build scripts, and some of them (ring's)
//! ask to be run again whenever it is another than last time. Most of the workspace stands on such a
//! crate, so `cargo build` and `cargo xtask` by turns would compile it anew every time.

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::Context as _;

/// Returns at once if there is nothing to forget.
pub(crate) fn forget_package() -> anyhow::Result<()> {
    let told: Vec<_> = env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| describes_package(name))
        .collect();
    if told.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1));
    for name in &told {
        command.env_remove(name);
    }
    // Takes this process's place, so it comes back only with an error.
    Err(command.exec()).context("could not begin again")
}

fn describes_package(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_describes_the_package_is_forgotten() {
        for (name, forgotten) in [
            ("CARGO_MANIFEST_DIR", true),
            ("CARGO_MANIFEST_PATH", true),
            ("CARGO_PKG_VERSION", true),
            ("CARGO_INCREMENTAL", false),
            ("CARGO_TARGET_DIR", false),
            ("PATH", false),
        ] {
            assert_eq!(describes_package(name.as_ref()), forgotten, "{name}");
        }
    }
}
