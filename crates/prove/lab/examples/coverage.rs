//! `cargo xtask bench coverage`: how often the intervals of a sweep hold the truth.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use lab::coverage::{Drawn, draw};
use lab::notation::{Levels, duration, levels};
use lab::{Contestant, Setting, SweepPlan};

/// Makes many runs of each cell in virtual time, deals them into sweeps, and holds each sweep's
/// intervals against what all runs come to.
#[derive(Debug, Parser)]
#[command(name = "coverage")]
struct Arguments {
    /// Runs of each cell, all with seeds of their own
    #[arg(long, default_value_t = 480, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Runs of each cell in a sweep: a table for each number
    #[arg(long, value_delimiter = ',', default_value = "6,10,20")]
    repeats: Vec<usize>,
    /// What load: a built-in workload's name or the path of a TOML file
    #[arg(long, default_value = "specification")]
    workload: String,
    /// Conversations at once: single levels and ranges, such as 60,80 or 60..180:20
    #[arg(long, default_value = "120,180", value_parser = levels)]
    levels: Levels,
    /// Router modes, the first being what others are compared with
    #[arg(long, value_delimiter = ',', default_value = "random,kv")]
    modes: Vec<Contestant>,
    /// Simulated time before anything is measured
    #[arg(long, default_value = "60s", value_parser = duration)]
    warmup: Duration,
    /// Simulated time that is measured
    #[arg(long, default_value = "300s", value_parser = duration)]
    window: Duration,
    /// Of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for what every run came to
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Such a file instead of runs
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Threads; by default as many as there are cores
    #[arg(long)]
    threads: Option<usize>,
}

#[expect(clippy::print_stdout, reason = "the table is what the program is for")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let setting = Setting::find(&arguments.workload, None, None)?;
    let plan = SweepPlan {
        workload: setting.workload,
        profile: setting.profile,
        workers: setting.workers,
        modes: arguments.modes,
        levels: arguments.levels.0,
        repeats: arguments.runs,
        seed: arguments.seed,
        warmup: arguments.warmup,
        window: arguments.window,
    };
    let drawn = match &arguments.input {
        Some(path) => {
            let text = std::fs::read_to_string(path)?;
            Drawn::parse(&text).ok_or("the input has no runs of a coverage")?
        }
        None => draw(&plan, arguments.threads),
    };
    if let Some(path) = &arguments.output {
        std::fs::write(path, drawn.csv())?;
    }
    for repeats in arguments.repeats {
        println!("{}", drawn.coverage(repeats));
    }
    Ok(())
}
