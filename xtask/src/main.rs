//! The chores of this repository, as one program: `cargo xtask --help`.
//!
//! Chores are code rather than shell scripts, so that they are typed, tested and the same
//! on a laptop and in CI. Each subcommand is a module; a new one is a module and a line in
//! [`Chore`].

#![expect(
    clippy::print_stdout,
    reason = "a command-line tool talks on standard output"
)]

mod bench;
mod chaos;
mod ci;
mod codegen;
mod crates;
mod fresh_start;
mod fuzz;
mod gpu_bundle;
mod miri;
mod repository;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the Homing repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Run everything that CI runs.
    Test(ci::Arguments),
    /// Check the rules of the house that no compiler checks.
    Tidy,
    /// Write the files that are generated from code.
    Codegen,
    /// Compile the kernels for GPUs, and write what is committed of them.
    Kernels,
    /// Pack the programs that check and measure a GPU, for a machine without Rust.
    GpuBundle,
    /// Take pictures of the web console for the documentation.
    Screenshots,
    /// Search for faults in virtual time, and name the seed that fails.
    Chaos(chaos::Arguments),
    /// Run the fuzz targets, and say what they found.
    Fuzz(fuzz::Arguments),
    /// Run the tests of unsafe code under Miri.
    Miri,
    /// Measure, and print figures.
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
}

fn main() -> ExitCode {
    let done = fresh_start::forget_package().and_then(|()| run(Arguments::parse().chore));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Printed here rather than returned: a failed chore needs its reason on one line,
        // not the backtrace of a program that did its job.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Test(arguments) => ci::run(&arguments),
        Chore::Tidy => tidy::run(),
        Chore::Codegen => codegen::run(),
        Chore::Kernels => ci::compile_kernels(),
        Chore::GpuBundle => gpu_bundle::run(),
        Chore::Screenshots => ci::screenshots(),
        Chore::Chaos(arguments) => chaos::run(&arguments),
        Chore::Fuzz(arguments) => fuzz::run(&arguments),
        Chore::Miri => miri::run(),
        Chore::Bench { bench } => bench::run(&bench),
    }
}
