//! The `homing` program: reads arguments and the environment, wires the crates together,
//! and waits for a signal.
//!
//! Everything that decides lives in the crates below; this one only chooses which of them
//! run in this process. It is the only reader of the command line and of environment
//! variables.

mod args;
mod backend;
mod baseline_file;
mod calibrate;
mod cluster;
mod config;
mod console;
mod dashboards;
mod demo;
mod doctor;
mod endpoints_file;
mod environment;
mod fleet;
mod https;
mod laboratory;
mod load_parts;
mod loadgen;
mod model;
mod observability;
mod open_files;
mod pages;
mod plan;
mod pool_endpoints;
mod print;
mod process;
mod runtime;
mod simulation;
mod sweep;
mod tracing_export;
mod watched_files;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, ConfigCommand};

/// What a request allocates is often freed by another thread. The C library's allocator takes locks for
/// that, and up to a fifth more CPU per request. Without huge pages, which would double an idle program's memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match config::layered_arguments(std::env::args_os().collect()) {
        Ok(arguments) => Cli::parse_from(arguments),
        Err(error) => return fail(&error),
    };
    let outcome = match cli.command {
        Command::Demo(args) => args.resolve().and_then(demo::run),
        Command::Loadgen(args) => return loadgen::run(&args),
        Command::Sweep(args) => return sweep::run(&args),
        Command::Replay(args) => laboratory::replay(&args),
        Command::Learning(args) => laboratory::learning::run(&args),
        Command::Dashboards(args) => dashboards::run(&args),
        Command::Doctor(args) => return doctor::run(args),
        Command::Frontend(args) => args.resolve().and_then(cluster::frontend::run),
        Command::Epp(args) => args.resolve().and_then(cluster::epp::run),
        Command::Worker(args) => args.resolve().and_then(cluster::worker::run),
        Command::Model { command } => model::run(&command),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Config { command } => shown(&command).and_then(|()| config::show()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// What can be wrong beyond single values is part of showing what is in force.
fn shown(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Show(args) => args.routing.mode().map(|_| ()),
        ConfigCommand::ShowFrontend(args) => args.routing.mode().map(|_| ()),
        ConfigCommand::ShowEpp(args) => args.routing.mode().map(|_| ()),
        ConfigCommand::ShowWorker(_) => Ok(()),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    print::error(format_args!("{error:#}"));
    ExitCode::FAILURE
}
