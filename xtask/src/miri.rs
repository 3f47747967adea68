//! `cargo xtask miri`: the tests of unsafe code under Miri, an interpreter that finds undefined
//! behaviour: races, references that overlap, reads beyond a buffer, uninitialised memory.
//!
//! It interprets plain Rust, so kernels run in their portable form. Tests choose smaller sizes
//! under `cfg(miri)`. It takes minutes and a nightly toolchain, so it is no step of
//! `cargo xtask test`; the product is never built with that toolchain.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::repository;

const INSTALL: &str = "rustup toolchain install nightly --component miri --component rust-src";

/// A crate and the beginnings of the names of its tests.
struct Tests {
    package: &'static str,
    names: &'static [&'static str],
}

/// What is unsafe, and what it relies on.
const TESTS: [Tests; 2] = [
    Tests {
        package: "checkpoint",
        names: &["format::"],
    },
    Tests {
        package: "llama",
        names: &[
            "buffer::",
            "cache::",
            "kernels::",
            "matrix::",
            "model::",
            "team::",
        ],
    },
];

pub(crate) fn run() -> anyhow::Result<()> {
    ensure!(
        is_installed(),
        "Miri is not installed; it comes with `{INSTALL}`"
    );
    for Tests { package, names } in TESTS {
        println!("{package}: {}", names.join(" "));
        let status = Command::new("cargo")
            .args(["+nightly", "miri", "test", "--locked", "--lib"])
            .args(["--package", package, "--"])
            .args(names)
            // Tests read their fixtures. Chance decides how threads interleave, and more often
            // than a processor would.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .current_dir(repository::root())
            .stdin(Stdio::null())
            .status()
            .context("could not run cargo")?;
        ensure!(status.success(), "{package} under Miri ended with {status}");
    }
    Ok(())
}

/// Whether the nightly toolchain has Miri and the library's source, which Miri builds.
fn is_installed() -> bool {
    let answers = |words: &[&str]| {
        let output = Command::new("rustup")
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let components = answers(&["+nightly", "component", "list", "--installed"]);
    let has = |name: &str| components.lines().any(|line| line.starts_with(name));
    has("miri") && has("rust-src")
}
