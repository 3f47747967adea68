//! `cargo xtask bench`: benchmarks that print figures. None of them asserts a time.

mod client;
mod frontend;
mod server;

use std::process::Command;

use anyhow::ensure;
use clap::Subcommand;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Bench {
    /// What the frontend costs: CPU per request and token, added latency, memory
    ///
    /// Starts the release build of `homing demo` with workers that take no time and drives
    /// it over loopback from this process, so every figure is the whole path: HTTP, JSON,
    /// template, tokens, hashes, routing, scheduling, detokenising, events.
    Frontend {
        /// Seconds per measurement
        #[arg(long, default_value_t = 8)]
        seconds: u64,
    },
}

pub(crate) fn run(bench: &Bench) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        return again_in_release(bench);
    }
    let Bench::Frontend { seconds } = bench;
    frontend::run(*seconds)
}

/// The client shares the machine with the server, so it must not be slower than it has to.
fn again_in_release(bench: &Bench) -> anyhow::Result<()> {
    let Bench::Frontend { seconds } = bench;
    let status = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--package", "homing"])
        .status()?;
    ensure!(status.success(), "the release build failed");
    let status = Command::new("cargo")
        .args([
            "run",
            "--release",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "bench",
            "frontend",
        ])
        .args(["--seconds", &seconds.to_string()])
        .status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
